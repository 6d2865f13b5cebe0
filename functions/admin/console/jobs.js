// Jobs: replay with a dry run, progress, cancel and resume.

import { api } from "./api.js";
import { append, badge, button, count, empty, facts, failure, fill, h, link, loading, statusBadge, say, short, table, time, to, toast } from "./dom.js";
import { live, openDialog, progress } from "./parts.js";

const NAMES = { replay: "Replay", purge_dead_letters: "Purge dead letters", purge_queue: "Purge queue", erase: "Erase" };
const VERBS = { replay: "replayed", erase: "erased" };
// An erasure is about every queue, and has routes of its own.
export const routesOf = (job) => (job.kind === "erase"
  ? { show: (signal) => api.erasures.show(job.job_id, signal), cancel: () => api.erasures.cancel(job.job_id), resume: () => api.erasures.resume(job.job_id) }
  : { show: (signal) => api.job(job.queue, job.job_id, signal), cancel: () => api.cancelJob(job.queue, job.job_id), resume: () => api.resumeJob(job.queue, job.job_id) });
export const ended = (job) => !["running", "cancelling"].includes(job.state);

function bar() {
  const node = h("progress", { max: "100", value: "0" });
  const text = h("span", { class: "num" });
  return {
    node: h("div", { class: "progress" }, node, text),
    show(job) {
      const { share, text: said } = progress(job);
      if (share === null) node.removeAttribute("value"); else node.value = share;
      node.setAttribute("aria-label", `${NAMES[job.kind]}: ${said}`);
      say(text, said);
    },
  };
}

export const counts = (job) => [
  `${count(job.done)} ${job.dry_run ? "would be " : ""}${VERBS[job.kind] ?? "purged"}`, job.skipped && `${count(job.skipped)} skipped`, job.failed && `${count(job.failed)} failed`,
].filter(Boolean).join(" · ");

// Dry run first: how many and which; then the rate; then watch it go.
export async function replayDialog(queue, filter, done) {
  const box = h("div", { class: "stack" }, loading(4));
  const dialog = openDialog("Replay dead letters", box);
  let watching = null;
  dialog.addEventListener("close", () => { watching?.stop(); done(); }, { once: true });
  try {
    const found = await api.dryRun(queue, filter);
    fill(box, found.count === 0 ? empty("Nothing to replay", "No dead letter fits the filter.") : plan(found));
  } catch (error) { fill(box, failure(error)); }

  function plan(found) {
    const left = found.count - found.replayed;
    const speed = h("input", { id: "rate", type: "number", min: "1", max: "1000", placeholder: "as fast as it goes", inputmode: "numeric" });
    const again = h("input", { id: "again", type: "checkbox" });
    const go = h("button", { type: "submit", class: "primary" });
    const label = () => { const n = again.checked ? found.count : left; say(go, `Replay ${count(n)}${found.exact ? "" : " or more"}`); go.disabled = n === 0; };
    again.addEventListener("change", label);
    label();
    return h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); start(speed.value, again.checked, go); } },
      h("p", { class: "lead", role: "status" }, h("strong", { class: "big", id: "dry-count" }, `${count(found.count)}${found.exact ? "" : "+"}`), found.count === 1 ? " dead letter matches" : " dead letters match",
        found.replayed > 0 && h("span", { class: "muted" }, `, ${count(found.replayed)} of them replayed before`)),
      h("div", { class: "chips" }, Object.entries(found.by_error).map(([name, n]) => badge(`${name} × ${count(n)}`))),
      table("The oldest of them", [["Failed"], ["Message"], ["Error"]], found.sample.map((deadLetter) => h("tr", {},
        h("td", {}, time(deadLetter.failed_at)), h("td", { class: "mono" }, short(deadLetter.message_id)), h("td", { class: "error" }, h("b", {}, deadLetter.error_type), " ", deadLetter.error)))),
      h("p", { class: "muted" }, "Oldest first, so the order within a key is kept. Each becomes a new message with the same correlation id; once per job, however often it is interrupted."),
      h("div", { class: "bar" }, h("label", { for: "rate" }, "Per second"), speed,
        found.replayed > 0 && [again, h("label", { for: "again" }, "also those replayed before")], h("span", { class: "grow" }), go));
  }

  async function start(speed, again, go) {
    go.disabled = true;
    try {
      const job = await api.startJob(queue, { kind: "replay", filter, ...(speed ? { rate: Number(speed) } : {}), ...(again ? { again } : {}) });
      watching = watchJob(dialog, box, job);
    } catch (error) { toast(error.message, "bad"); go.disabled = false; }
  }
}

// A job that goes on in a dialog, with what can be done about it; `ready` is told when it has ended.
export function watchJob(dialog, box, job, ready = () => {}) {
  const meter = bar();
  const routes = routesOf(job);
  const state = h("span", {});
  const said = h("p", { class: "muted", role: "status" });
  const stop = button("Cancel", async () => { stop.disabled = true; try { show(await routes.cancel()); } catch (error) { toast(error.message, "bad"); } });
  const close = button("Close", () => dialog.close(), "primary");
  const all = link(job.queue ? to.queue(job.queue, "jobs") : "#/jobs", job.queue ? "All jobs of this queue" : "All jobs", { onclick: () => dialog.close() });
  fill(box, h("div", { class: "bar" }, state, h("span", { class: "mono muted" }, short(job.job_id))), meter.node, said, h("div", { class: "bar" }, all, h("span", { class: "grow" }), stop, close));
  let watching = null;
  let told = false;
  function show(now) {
    fill(state, statusBadge(now.state));
    meter.show(now);
    say(said, now.note || counts(now));
    stop.hidden = now.state !== "running";
    if (!ended(now) || told) return;
    told = true;
    watching?.stop();
    ready(now);
  }
  show(job);
  if (!ended(job)) watching = live(routes.show, show, { every: 1000 });
  return { stop: () => watching?.stop() };
}

function card(job) {
  const meter = bar();
  const state = h("span", {});
  const said = h("p", { class: "muted" });
  const detail = h("div", {});
  const routes = routesOf(job);
  const act = (work) => async () => { try { node.show(await work()); } catch (error) { toast(error.message, "bad"); } };
  const stop = button("Cancel", act(routes.cancel), "small");
  const go = button("Resume", act(routes.resume), "small");
  const root = h("article", { class: "card pad job", "aria-label": `${NAMES[job.kind]} in ${job.queue || "every queue"}` },
    h("div", { class: "bar" }, h("strong", {}, NAMES[job.kind]), job.queue ? link(to.queue(job.queue), job.queue) : "every queue", state, h("span", { class: "grow" }), stop, go),
    meter.node, said, detail);
  const node = {
    root,
    show(now) {
      fill(state, statusBadge(now.state));
      meter.show(now);
      say(said, now.note || counts(now));
      stop.hidden = now.state !== "running";
      go.hidden = !["cancelled", "failed"].includes(now.state);
      const asked = Object.entries(now.filter).filter(([name]) => name !== "failed_before").map(([name, value]) => `${name} ${value}`).join(", ");
      fill(detail, facts([...windowFacts(now.window), ["Started", time(now.created_at, { ago: true })], ["By", now.created_by], ["Filter", now.kind === "erase" ? null : asked || "everything before it started"], ["Rate", now.kind === "erase" ? null : now.rate ? `${now.rate} / s` : "as fast as it goes"], ["Ended", now.finished_at && time(now.finished_at, { ago: true })]]),
        now.failures.length > 0 && h("details", {}, h("summary", {}, "First failures"), h("pre", { class: "code" }, now.failures.join("\n"))));
    },
  };
  return node;
}

// What a replay of a window is about, and what it has met there.
export const windowFacts = (window) => (window ? [
  ["Replays", window.of === "all" ? "done and dead" : window.of], ["To", window.to],
  ["Received from", window.received_from && time(window.received_from)], ["Received before", time(window.received_before)],
  ["Met", Object.entries(window.statuses).map(([name, n]) => `${name} ${count(n)}`).join(", ")], ["Read units", count(window.read_units)],
] : []);

export function jobList(panel, queue = "", action = null) {
  const box = h("div", { class: "stack" }, loading(4));
  fill(panel, action && h("div", { class: "toolbar plain" }, action), box);
  const cards = new Map();
  const show = ({ jobs }) => {
    if (!jobs.length) { fill(box, h("div", { class: "card" }, empty("No jobs", "A replay or a purge over many messages shows here, with its progress, for 30 days."))); return; }
    if (jobs.some((job) => !cards.has(job.job_id))) {
      for (const job of jobs) if (!cards.has(job.job_id)) cards.set(job.job_id, card(job));
      fill(box);
      append(box, jobs.map((job) => cards.get(job.job_id).root));
    }
    for (const job of jobs) cards.get(job.job_id).show(job);
  };
  const reading = live((signal) => api.jobs(queue, signal), show, { every: 2000, onerror: (error) => { if (!cards.size) fill(box, failure(error, () => reading.now())); } });
  return () => reading.stop();
}

export function jobsView(main, action) {
  const panel = h("div", {});
  fill(main, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Jobs"), h("span", { class: "grow" }), action), panel);
  return jobList(panel);
}
