// One queue: why it stands still, its numbers, dead letters, messages by status, history, jobs and definition.

import { api } from "./api.js";
import { deadLetters, deadLetterGroups } from "./dead_letters.js";
import { bytes, button, count, empty, failure, fill, h, link, loading, rate, say, short, span, table, time, to, toast } from "./dom.js";
import { historyTab } from "./history.js";
import { jobList } from "./jobs.js";
import { confirmTyped, live, paged, Plot, standingStill, tones } from "./parts.js";
import { replayWindow } from "./replay_window.js";
import { deadCount, remember, seed, seen } from "./queues.js";

const TABS = [
  ["dead", "Dead letters", deadCount], ["ready", "Ready", (q) => q.ready], ["scheduled", "Scheduled", (q) => q.scheduled], ["claims", "Claims", (q) => q.in_flight],
  ["done", "Done"], ["history", "History"], ["jobs", "Jobs"], ["definition", "Definition"],
];
const PAGE = 50;

export function queueView(main, name, tab, fingerprint = "") {
  const current = tab === "letters" ? "dead" : tab;
  const marks = h("span", { class: "marks" });
  const hold = button("Pause", () => toggle());
  const still = standingStill(async (reason) => {
    if (reason.action === "resume") return toggle();
    show(await api.resetBreakers(name, reason.target));
    return toast(`${reason.target} is called again.`);
  });
  hold.disabled = true; // until it is known which of the two it does
  let busy = false;
  const numbers = h("dl", { class: "tiles" });
  const panel = h("div", { role: "tabpanel", id: "panel", "aria-labelledby": `tab-${current}`, tabindex: "0" });
  const bar = tabs(name, current);
  const depth = new Plot("info");
  const done = new Plot("good");
  let queue = null;
  const purge = button("Purge…", () => confirmTyped(
    "Purge the queue", "Removes every message that nobody holds, for good. Dead letters stay. This cannot be undone.", name,
    async (confirm) => { await api.startJob(name, { kind: "purge_queue", confirm }); location.hash = to.queue(name, "jobs"); }), "quiet danger-text");
  fill(main,
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, link("#/", "Queues"), " / ", h("span", {}, name)),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, name), marks, h("span", { class: "grow" }), hold, purge),
    still.node, numbers, bar.node, panel);
  async function toggle() {
    hold.disabled = busy = true;
    try {
      show(await (queue.paused ? api.resume(name) : api.pause(name)));
      toast(queue.paused ? `${name} is paused: messages are accepted and wait.` : `${name} hands out messages again.`);
    } catch (error) { toast(error.message, "bad"); }
    hold.disabled = busy = false;
  }
  const cells = new Map();
  function number(label, text, tone, plot) {
    let cell = cells.get(label);
    if (!cell) {
      cell = { value: h("dd", {}), node: h("div", { class: "tile" }) };
      cell.node.append(h("dt", {}, label), cell.value, ...(plot ? [plot.node] : []));
      cells.set(label, cell);
      numbers.append(cell.node);
    }
    say(cell.value, text);
    cell.node.classList.toggle("bad", Boolean(tone));
  }
  function show(found) {
    queue = { ...queue, ...found };
    remember([found]);
    number("Depth", `${found.exact ? "" : "~"}${count(found.depth)}`, found.depth >= found.max_depth, depth);
    number("Done / min", rate(found.done_per_minute), false, done);
    number("Ready", count(found.ready));
    number("Scheduled", count(found.scheduled));
    number("In flight", count(found.in_flight));
    number("Oldest", span(found.oldest_age_ms));
    number("Dead letters", count(deadCount(found)), deadCount(found) > 0);
    depth.draw(seen(name).map((s) => s.depth));
    done.draw(seen(name).map((s) => s.rate));
    fill(marks, tones(found));
    still.show(found.standing_still);
    bar.show(found);
    say(hold, found.paused ? "Resume" : "Pause");
    hold.disabled = busy;
    if (tab === "definition" && !panel.childElementCount) fill(panel, definition(queue));
    if (tab === "dead" && !panel.childElementCount) deadLetterGroups(panel, queue);
  }
  const reading = live((signal) => api.queue(name, signal), show, {
    onerror: (error) => {
      if (queue) return;
      reading.stop();
      fill(main, h("h1", { tabindex: "-1" }, name), failure(error, () => dispatchEvent(new HashChangeEvent("hashchange"))));
    },
  });
  seed([name]);
  const stop = { letters: () => deadLetters(panel, name, fingerprint), ready: () => lane(panel, name, "ready"), scheduled: () => lane(panel, name, "scheduled"),
    claims: () => claims(panel, name), done: () => doneMessages(panel, name), history: () => historyTab(panel, name), jobs: () => jobList(panel, name, button("Replay a window…", () => replayWindow(queue ?? { name }))) }[tab]?.();
  return () => { reading.stop(); stop?.(); };
}

function tabs(name, current) {
  const counts = new Map(TABS.map(([id]) => [id, h("span", { class: "count" })]));
  const links = TABS.map(([id, text]) => h("a", {
    role: "tab", id: `tab-${id}`, href: to.queue(name, id), "aria-selected": String(id === current), "aria-controls": "panel", tabindex: id === current ? "0" : "-1",
  }, text, counts.get(id)));
  const node = h("div", { class: "tabs", role: "tablist", "aria-label": `Parts of ${name}`, onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = links.indexOf(document.activeElement);
    if (step && at >= 0) links[(at + step + links.length) % links.length].focus();
  } }, links);
  // The same numbers as above: what a tab lists is what its number counts.
  return { node, show(queue) { for (const [id, , number] of TABS) if (number) say(counts.get(id), number(queue) ? ` ${count(number(queue))}` : ""); } };
}

function lane(panel, name, which) {
  const words = { ready: "Nothing is ready", scheduled: "Nothing is scheduled" };
  const list = paged((cursor) => api.entries(name, { status: which, limit: PAGE, cursor }), ({ messages, next }) => (messages.length || next
    ? table(`${which} messages`, [["Message"], ["Enqueued"], ...(which === "scheduled" ? [["Due"]] : []), ["Priority", "num"], ["Key"], ["Project"], ["Tries", "num"]],
      messages.map((m) => h("tr", {},
        h("td", { class: "mono" }, link(to.message(name, m.message_id), short(m.message_id), { title: m.message_id })),
        h("td", {}, time(m.enqueued_at, { ago: true })), which === "scheduled" && h("td", {}, time(m.due_at, { ago: true })),
        h("td", { class: "num" }, count(m.priority)), h("td", {}, m.key || "–"), h("td", {}, m.project || "–"),
        h("td", { class: "num" }, count(m.attempts)))))
    : empty(words[which], which === "ready" ? "Whatever arrives is worked off at once, or is being worked on." : "No message is delayed or backing off after a failure.")));
  fill(panel, h("div", { class: "card" }, list.node));
}

function claims(panel, name) {
  const list = paged((cursor) => api.claims(name, { limit: PAGE, cursor }), ({ claims: held, next }) => (held.length || next
    ? table("Claims", [["Held by"], ["Message"], ["Since"], ["Until"], ["Claim", "num"], ["Deliveries", "num"], ["", "num"]], held.map((m) => {
      const free = button("Release", async () => {
        free.disabled = true;
        try { await api.release(name, m.message_id); toast("Released: its holder's claim is stale now."); list.again(); } catch (error) { toast(error.message, "bad"); free.disabled = false; }
      }, "small");
      free.setAttribute("aria-label", `Release message ${m.message_id} from ${m.owner}`);
      return h("tr", {}, h("td", {}, m.owner), h("td", { class: "mono" }, link(to.message(name, m.message_id), short(m.message_id), { title: m.message_id })),
        h("td", {}, time(m.claimed_at, { ago: true })), h("td", {}, time(m.lease_until, { ago: true })),
        h("td", { class: "num" }, `v${m.version}`), h("td", { class: "num" }, count(m.deliveries)), h("td", { class: "num" }, free));
    }))
    : empty("Nobody holds anything", "A claim shows here from the moment a worker takes a message until it finishes, gives it back or its lease ends.")));
  fill(panel, h("div", { class: "card" }, list.node));
}

// The last few that the queue's counters remember; older ones are found by their id or idempotency key.
function doneMessages(panel, name) {
  const box = h("div", { class: "card" }, loading(4));
  fill(panel, box);
  const show = ({ messages, limit }) => fill(box, messages.length
    ? [table("Done messages", [["Message"], ["Done"], ["Received"], ["Correlation id"], ["Idempotency key"], ["Source"], ["Size", "num"]], messages.map((m) => h("tr", {},
      h("td", { class: "mono" }, link(to.message(name, m.message_id), short(m.message_id), { title: m.message_id })),
      h("td", {}, time(m.finished_at, { ago: true })), h("td", {}, time(m.received_at, { ago: true })),
      h("td", { class: "mono" }, m.correlation_id), h("td", { class: "mono" }, m.idempotency_key || "–"), h("td", {}, m.source || "–"), h("td", { class: "num" }, bytes(m.size))))),
    h("p", { class: "muted pad" }, `The queue remembers the last ${limit} that were done. Any other is found by its message id or idempotency key.`)]
    : empty("Nothing was done lately", "The last messages that were done show here. Any other is found by its message id or idempotency key."));
  const reading = live((signal) => api.done(name, signal), show, { every: 5000, onerror: (error) => fill(box, failure(error, () => reading.now())) });
  return () => reading.stop();
}

function definition(queue) {
  return h("div", { class: "split" },
    h("section", { class: "card pad" }, h("h2", {}, "What it promises"),
      h("dl", { class: "facts wide" }, queue.definition.map(({ name, says }) => h("div", {}, h("dt", {}, name), h("dd", {}, says))))),
    h("section", { class: "card pad" }, h("h2", {}, "When a failing message is tried"),
      h("ol", { class: "tries" }, queue.retries.map(({ wait }) => h("li", {}, wait)), h("li", { class: "bad" }, "then it is a dead letter")),
      h("h2", {}, "Since ever"), h("dl", { class: "facts wide" }, Object.entries(queue.totals).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "num" }, count(value)))))));
}
