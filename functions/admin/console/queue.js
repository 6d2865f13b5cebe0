// One queue: its numbers, its dead letters, lanes, claims, jobs and definition.

import { api } from "./api.js";
import { badge, button, count, empty, failure, fill, h, link, rate, say, short, span, table, time, to, toast } from "./dom.js";
import { jobList, replayDialog } from "./jobs.js";
import { confirmTyped, live, paged, Plot, tones } from "./parts.js";
import { remember, seen } from "./queues.js";

const TABS = [
  ["dead", "Dead letters"], ["ready", "Ready"], ["scheduled", "Scheduled"], ["claims", "Claims"], ["jobs", "Jobs"], ["definition", "Definition"],
];
const PAGE = 50;

export function queueView(main, name, tab) {
  const marks = h("span", { class: "marks" });
  const hold = button("Pause", () => toggle());
  const reset = button("Call again now", async () => {
    try { show(await api.resetBreakers(name)); toast("The targets are called again."); } catch (error) { toast(error.message, "bad"); }
  });
  reset.hidden = true; // unless a target is down
  hold.disabled = true; // until it is known which of the two it does
  let busy = false;
  const numbers = h("dl", { class: "tiles" });
  const panel = h("div", { role: "tabpanel", id: "panel", "aria-labelledby": `tab-${tab}`, tabindex: "0" });
  const depth = new Plot("info");
  const done = new Plot("good");
  let queue = null;
  const purge = button("Purge…", () => confirmTyped(
    "Purge the queue", "Removes every message that nobody holds, for good. Dead letters stay. This cannot be undone.", name,
    async (confirm) => { await api.startJob(name, { kind: "purge_queue", confirm }); location.hash = to.queue(name, "jobs"); }), "quiet danger-text");
  fill(main,
    h("nav", { class: "crumbs", "aria-label": "Breadcrumb" }, link("#/", "Queues"), " / ", h("span", {}, name)),
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, name), marks, h("span", { class: "grow" }), reset, hold, purge),
    numbers, tabs(name, tab), panel);
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
    number("Dead letters", count(found.dead_letters), found.dead_letters > 0);
    depth.draw(seen(name).map((s) => s.depth));
    done.draw(seen(name).map((s) => s.rate));
    fill(marks, tones(found), found.paused && h("small", { class: "muted" }, `by ${found.paused_by}`));
    reset.hidden = found.breakers.length === 0;
    say(hold, found.paused ? "Resume" : "Pause");
    hold.disabled = busy;
    if (tab === "definition" && !panel.childElementCount) fill(panel, definition(queue));
  }
  const reading = live((signal) => api.queue(name, signal), show, {
    onerror: (error) => {
      if (queue) return;
      reading.stop();
      fill(main, h("h1", { tabindex: "-1" }, name), failure(error, () => dispatchEvent(new HashChangeEvent("hashchange"))));
    },
  });
  const stop = { dead: () => deadLetters(panel, name), ready: () => lane(panel, name, "ready"), scheduled: () => lane(panel, name, "scheduled"),
    claims: () => claims(panel, name), jobs: () => jobList(panel, name) }[tab]?.();
  return () => { reading.stop(); stop?.(); };
}

function tabs(name, current) {
  const links = TABS.map(([id, text]) => h("a", {
    role: "tab", id: `tab-${id}`, href: to.queue(name, id), "aria-selected": String(id === current), "aria-controls": "panel", tabindex: id === current ? "0" : "-1",
  }, text));
  return h("div", { class: "tabs", role: "tablist", "aria-label": `Parts of ${name}`, onkeydown: (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const at = links.indexOf(document.activeElement);
    if (step && at >= 0) links[(at + step + links.length) % links.length].focus();
  } }, links);
}

const FIELDS = [
  ["error", "Error contains", "text"], ["correlation_id", "Correlation id", "text"], ["project", "Project", "text"],
  ["failed_from", "Failed from (UTC)", "datetime-local"], ["failed_before", "Failed before (UTC)", "datetime-local"],
];

function deadLetters(panel, name) {
  const reason = h("select", { id: "f-reason", name: "reason" }, ["", "exhausted", "expired", "rejected", "body_lost"].map((r) => h("option", { value: r }, r || "any")));
  const inputs = FIELDS.map(([field, label, type]) => h("div", { class: "field" }, h("label", { for: `f-${field}` }, label), h("input", { id: `f-${field}`, name: field, type, autocomplete: "off" })));
  inputs.splice(1, 0, h("div", { class: "field" }, h("label", { for: "f-reason" }, "Reason"), reason));
  const form = h("form", { class: "filters", "aria-label": "Filter dead letters", onsubmit: (event) => { event.preventDefault(); list.first(); } },
    inputs, h("div", { class: "bar" }, h("button", { type: "submit" }, "Filter"),
      h("button", { type: "reset", class: "quiet", onclick: () => setTimeout(() => list.first()) }, "Clear")));
  const asked = () => {
    const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    for (const at of ["failed_from", "failed_before"]) if (given[at]) given[at] = `${given[at].length === 16 ? `${given[at]}:00` : given[at]}Z`;
    return given;
  };
  const replayAll = button("Replay these…", () => replayDialog(name, asked(), () => list.again()), "primary");
  const purgeAll = button("Purge these…", () => confirmTyped(
    "Purge dead letters", "Forgets every dead letter that the filter finds, for good. This cannot be undone.", name,
    async (confirm) => { await api.startJob(name, { kind: "purge_dead_letters", filter: asked(), confirm }); location.hash = to.queue(name, "jobs"); }), "quiet danger-text");
  const list = paged((cursor) => api.deadLetterList(name, { ...asked(), limit: PAGE, cursor }), ({ dead_letters: deadLetterList, next }) => {
    if (!deadLetterList.length && !next) {
      return Object.keys(asked()).length
        ? empty("Nothing matches", "No dead letter fits this filter.")
        : empty("No dead letters", "Everything that was accepted is done, scheduled or being worked on.");
    }
    return table("Dead letters", [["Failed"], ["Message"], ["Error"], ["Reason"], ["Tries", "num"], ["Project"], ["Replayed"], ["", "num"]],
      deadLetterList.map((deadLetter) => deadLetterRow(name, deadLetter, () => list.again())));
  });
  fill(panel, h("div", { class: "card" }, h("details", { class: "filter", open: true }, h("summary", {}, "Filter"), form),
    h("div", { class: "bar toolbar" }, replayAll, purgeAll), list.node));
}

function deadLetterRow(name, deadLetter, again) {
  const replay = button("Replay", async () => {
    replay.disabled = true;
    try {
      const made = await api.replay(name, deadLetter.id);
      toast(`Replayed as ${short(made.new_message_id)}.`);
      again();
    } catch (error) { toast(error.message, "bad"); replay.disabled = false; }
  }, "small");
  replay.setAttribute("aria-label", `Replay message ${deadLetter.message_id}`);
  return h("tr", {},
    h("td", {}, time(deadLetter.failed_at, { ago: true })),
    h("td", { class: "mono" }, link(to.message(name, deadLetter.message_id), short(deadLetter.message_id), { title: deadLetter.message_id })),
    h("td", { class: "error" }, h("b", {}, deadLetter.error_type || "–"), " ", deadLetter.error),
    h("td", {}, badge(deadLetter.reason, deadLetter.reason === "expired" ? "warn" : "bad")),
    h("td", { class: "num" }, count(deadLetter.attempts)),
    h("td", {}, deadLetter.project || h("span", { class: "muted" }, "–")),
    h("td", {}, deadLetter.replayed_as ? link(to.message(name, deadLetter.replayed_as), "yes", { class: "good" }) : h("span", { class: "muted" }, "–")),
    h("td", { class: "num" }, replay));
}

function lane(panel, name, which) {
  const words = { ready: "Nothing is ready", scheduled: "Nothing is scheduled" };
  const list = paged((cursor) => api.entries(name, { lane: which, limit: PAGE, cursor }), ({ messages, next }) => (messages.length || next
    ? table(`${which} messages`, [["Message"], ["Enqueued"], [which === "scheduled" ? "Due" : "Lease until"], ["Priority", "num"], ["Key"], ["Project"], ["Tries", "num"], ["Held by"]],
      messages.map((m) => h("tr", {},
        h("td", { class: "mono" }, link(to.message(name, m.message_id), short(m.message_id), { title: m.message_id })),
        h("td", {}, time(m.enqueued_at, { ago: true })), h("td", {}, time(which === "scheduled" ? m.due_at : m.lease_until, { ago: true })),
        h("td", { class: "num" }, count(m.priority)), h("td", {}, m.key || "–"), h("td", {}, m.project || "–"),
        h("td", { class: "num" }, count(m.attempts)), h("td", {}, m.owner || h("span", { class: "muted" }, "nobody")))))
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

function definition(queue) {
  return h("div", { class: "split" },
    h("section", { class: "card pad" }, h("h2", {}, "What it promises"),
      h("dl", { class: "facts wide" }, queue.definition.map(({ name, says }) => h("div", {}, h("dt", {}, name), h("dd", {}, says))))),
    h("section", { class: "card pad" }, h("h2", {}, "When a failing message is tried"),
      h("ol", { class: "tries" }, queue.retries.map(({ wait }) => h("li", {}, wait)), h("li", { class: "bad" }, "then it is a dead letter")),
      h("h2", {}, "Since ever"), h("dl", { class: "facts wide" }, Object.entries(queue.totals).map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", { class: "num" }, count(value)))))));
}
