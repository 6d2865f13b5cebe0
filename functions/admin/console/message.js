// One message: its status, its history, and its body.

import { api } from "./api.js";
import { bytes, button, count, facts, failure, fill, h, link, loading, statusBadge, short, span, time, to, toast } from "./dom.js";
import { bodyView, live, save } from "./parts.js";

const SAYS = {
  received: "Received", claimed: "Claimed", failed: "Failed", scheduled: "Tried again", done: "Done", dead: "Dead letter", purged: "Purged", replayed: "Replayed",
};

const REASONS = {
  exhausted: "its attempts are used up", expired: "older than the queue keeps it", rejected: "its handler said that no retry can help",
};

function moment(queue, event, before) {
  const repeated = event.what === "dead" && event.error === before?.error;
  const gap = before?.at && event.at ? new Date(event.at) - new Date(before.at) : 0;
  return h("li", { class: event.what },
    h("div", { class: "when" }, time(event.at), gap > 0 && h("small", { class: "muted" }, `+${span(gap)}`)),
    h("div", { class: "what" },
      h("strong", {}, SAYS[event.what]),
      event.attempt && h("span", { class: "muted" }, ` attempt ${event.attempt}`),
      event.who && h("span", { class: "muted" }, event.what === "received" ? ` from ${event.who}` : ` by ${event.who}`),
      event.message_id && [" as ", link(to.message(queue, event.message_id), short(event.message_id), { class: "mono" })],
      event.what === "dead" && REASONS[event.error_type] && h("span", { class: "muted" }, `: ${REASONS[event.error_type]}`),
      !repeated && (event.error || event.error_type) && h("pre", { class: "fault" }, h("b", {}, event.error_type), event.error_type && event.error ? ": " : "", event.error)));
}

export function messageView(main, queue, id) {
  const box = h("div", {}, loading(8));
  const body = h("section", { class: "card pad" });
  const state = h("span", {});
  const actions = h("span", { class: "bar" });
  let shown = "";
  let asked = false;
  fill(main,
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, link("#/", "Queues"), " / ", link(to.queue(queue), queue), " / ", h("span", { class: "mono" }, short(id))),
    h("div", { class: "head" }, h("h1", { tabindex: "-1", class: "mono" }, id), state, h("span", { class: "grow" }), actions), box);
  const act = (text, work, said, kind) => {
    const node = button(text, async () => {
      node.disabled = true;
      try { const made = await work(); toast(said(made)); reading.now(); } catch (error) { toast(error.message, "bad"); node.disabled = false; }
    }, kind);
    return node;
  };
  function show(found) {
    const text = JSON.stringify(found);
    if (text === shown) return;
    shown = text;
    fill(state, statusBadge(found.status));
    const deadLetter = found.dead_letter;
    fill(actions,
      deadLetter && act(deadLetter.replayed_as ? "Replay again" : "Replay", () => api.replay(queue, deadLetter.id), (made) => `Replayed as ${short(made.new_message_id)}.`, "primary"),
      deadLetter && act("Purge dead letter", () => api.purge(queue, deadLetter.id), () => "The dead letter is gone.", "quiet danger-text"),
      ["ready", "scheduled"].includes(found.status) && act("Cancel message", () => api.cancel(queue, id), () => "It is out of the queue and will not run.", "quiet danger-text"),
      found.status === "in_flight" && act("Cancel running message", () => api.cancel(queue, id, true), () => "It is out of the queue. Its worker is told to stop; what its run has done is not undone.", "quiet danger-text"),
      found.status === "in_flight" && act("Release", () => api.release(queue, id), () => "Released: its holder's claim is stale now."));
    const entry = found.entry;
    fill(box, deadLetter && h("div", { class: "verdict", role: "note" }, h("strong", {}, `${deadLetter.error_type || deadLetter.reason}: `), deadLetter.error || "no error text"),
      h("div", { class: "split" },
        h("section", { class: "card pad" }, h("h2", {}, "What happened"), h("ol", { class: "timeline" }, found.timeline.map((event, n) => moment(queue, event, found.timeline[n - 1])))),
        h("section", { class: "card pad" }, h("h2", {}, "Message"), facts([
          ["Correlation id", link(`#/search/${encodeURIComponent(found.correlation_id)}`, found.correlation_id, { class: "mono" })],
          ["Origin", found.origin && link(to.message(queue, found.origin), short(found.origin), { class: "mono" })],
          ["Idempotency key", found.idempotency_key && h("span", { class: "mono" }, found.idempotency_key)],
          ["Source", found.source], ["Content type", found.content_type], ["Size", bytes(found.size)], ["Stored", found.encrypted && "encrypted, under the queue's own key"],
          ["Priority", entry && count(entry.priority)], ["Key", (entry ?? deadLetter)?.key], ["Project", (entry ?? deadLetter)?.project],
          ["Labels", (entry ?? deadLetter)?.labels.join(", ")], ["Attempts", (entry ?? deadLetter) && count((entry ?? deadLetter).attempts)],
          ["Held by", entry?.owner && `${entry.owner} (claim v${entry.version})`], ["Lease until", entry?.lease_until && time(entry.lease_until)],
          ["Expires", entry?.expires_at && time(entry.expires_at)],
        ]), Object.keys(found.headers).length > 0 && h("details", {}, h("summary", {}, "Headers kept"), facts(Object.entries(found.headers).map(([k, v]) => [k, h("span", { class: "mono" }, v)]))))),
      found.result_omitted && h("section", { class: "card pad" }, h("h2", {}, "Result"), h("p", { class: "muted" }, "There is one, and its key cannot be used now.")),
      found.result !== undefined && h("section", { class: "card pad" }, h("h2", {}, "Result"), h("pre", { class: "code", tabindex: "0" }, JSON.stringify(found.result, null, 2))),
      body);
    if (!asked) { asked = true; readBody(found); }
  }
  async function readBody(found) {
    fill(body, h("h2", {}, "Body"), loading(3));
    try {
      const data = found.size ? await api.body(queue, id) : new Uint8Array();
      const download = button("Download", async () => save(await api.body(queue, id, true), `${id}.bin`), "quiet");
      fill(body, h("h2", {}, "Body"), found.size ? bodyView(data, found.size, download) : h("p", { class: "muted" }, "It is empty."));
    } catch (error) { fill(body, h("h2", {}, "Body"), failure(error, () => readBody(found))); }
  }
  const reading = live((signal) => api.message(queue, id, signal), show, {
    onerror: (error) => { if (!shown) fill(box, failure(error, () => { fill(box, loading(8)); reading.now(); })); },
  });
  return () => reading.stop();
}
