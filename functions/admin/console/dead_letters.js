// Dead letters: by error, and one by one; replay or purge of what a filter or a group finds.

import { api } from "./api.js";
import { badge, button, count, empty, failure, fill, h, link, loading, short, table, time, to, toast } from "./dom.js";
import { replayDialog } from "./jobs.js";
import { confirmTyped, paged } from "./parts.js";

const PAGE = 50;
const COUNTED_UNASKED = 100000;
const NONE = ["No dead letters", "Everything that was accepted is done, scheduled or being worked on; what was replayed is not counted."];

function purge(name, filter, what) {
  confirmTyped("Purge dead letters", `Forgets ${what}, for good. This cannot be undone.`, name,
    async (confirm) => { await api.startJob(name, { kind: "purge_dead_letters", filter, confirm }); location.hash = to.queue(name, "jobs"); });
}

// Which of the two ways to look: both are pages of their own, so that they can be linked to.
function ways(name, each) {
  const way = (text, tab, current) => link(to.queue(name, tab), text, { class: "way", "aria-current": current ? "true" : false });
  return h("nav", { class: "segmented", "aria-label": "How to list dead letters" }, way("By error", "dead", !each), way("One by one", "letters", each));
}

// Adds an answer's groups to those counted so far: an answer counts a part of a long list.
function add(groups, found) {
  for (const group of found.groups) {
    const known = groups.get(group.fingerprint);
    if (known) { known.count += group.count; known.first_seen = group.first_seen; } else groups.set(group.fingerprint, { ...group });
  }
}

function groupRow(name, group, again) {
  const filter = { fingerprint: group.fingerprint, replayed: false };
  const what = `${group.error_type} × ${count(group.count)}`;
  const replay = button("Replay…", () => replayDialog(name, filter, again), "small primary");
  const drop = button("Purge…", () => purge(name, filter, `every dead letter of this error, ${what}`), "small quiet danger-text");
  replay.setAttribute("aria-label", `Replay ${what}`);
  drop.setAttribute("aria-label", `Purge ${what}`);
  return h("tr", {},
    h("td", { class: "num big" }, link(to.letters(name, group.fingerprint), count(group.count), { "aria-label": `Show ${what} one by one` })),
    h("td", { class: "error" }, h("b", {}, group.error_type), " ", group.error, h("small", { class: "mono" }, "such as ", link(to.message(name, group.sample.message_id), short(group.sample.message_id), { title: group.sample.error }))),
    h("td", {}, time(group.first_seen, { ago: true })), h("td", {}, time(group.last_seen, { ago: true })),
    h("td", { class: "num" }, h("span", { class: "bar" }, replay, drop)));
}

function groupsOf(name, headed) {
  const box = h("div", {}, loading(4));
  const groups = new Map();
  let counted = 0;
  let others = 0;
  let round = 0;
  async function more(cursor = "") {
    if (!cursor) { groups.clear(); counted = others = 0; round += 1; }
    const mine = round; // a count that was begun anew takes no part of an earlier one
    try {
      const found = await api.groups(name, { replayed: "false", cursor });
      if (mine !== round) return;
      add(groups, found);
      counted += found.counted;
      others += found.others;
      const largest = [...groups.values()].sort((a, b) => b.count - a.count);
      const on = button("Count on", () => { on.disabled = true; more(found.next); }, "small");
      fill(box, largest.length === 0 && found.complete ? empty(...NONE) : [
        table(`Dead letters of ${name} by error`, [["Count", "num"], ["Error"], ["First seen"], ["Last seen"], ["", "num"]], largest.map((group) => groupRow(name, group, () => more()))),
        h("div", { class: "feet" }, h("span", { class: "muted", role: "status" },
          `${count(counted)} dead letters, ${count(largest.length)} ${largest.length === 1 ? "error" : "errors"}${others ? `, ${count(others)} in smaller groups` : ""}${found.complete ? "" : " so far: the newest were counted"}`), !found.complete && counted >= COUNTED_UNASKED && on)]);
      // A long list is counted part by part while it is looked at; a very long one only as far as is asked for.
      if (!found.complete && counted < COUNTED_UNASKED && box.isConnected) more(found.next);
    } catch (error) { fill(box, failure(error, () => more())); }
  }
  more();
  return h("div", { class: "card" }, h("div", { class: "bar toolbar always" }, headed ? h("strong", {}, link(to.queue(name), name)) : h("strong", {}, "What went wrong"), h("span", { class: "grow" }), ways(name, false)), box);
}

// A queue that others name as their dead_letter_queue shows theirs: they lie with the queue where they failed.
export function deadLetterGroups(panel, queue) {
  const others = queue.dead_letters_of.map((other) => other.queue);
  const names = others.length && !queue.dead_letters ? others : [queue.name, ...others];
  fill(panel, others.length > 0 && h("p", { class: "muted note" }, `${queue.name} says how long the dead letters of ${others.join(", ")} are kept. Here they are:`),
    h("div", { class: "stack" }, names.map((name) => groupsOf(name, others.length > 0))));
}

const FIELDS = [
  ["error", "Error contains", "text"], ["correlation_id", "Correlation id", "text"], ["key", "Key", "text"], ["project", "Project", "text"],
  ["failed_from", "Failed from (UTC)", "datetime-local"], ["failed_before", "Failed before (UTC)", "datetime-local"],
];
const choice = (id, label, options) => h("div", { class: "field" }, h("label", { for: `f-${id}` }, label),
  h("select", { id: `f-${id}`, name: id }, options.map(([value, text]) => h("option", { value }, text))));

export function deadLetters(panel, name, fingerprint) {
  const inputs = FIELDS.map(([field, label, type]) => h("div", { class: "field" }, h("label", { for: `f-${field}` }, label), h("input", { id: `f-${field}`, name: field, type, autocomplete: "off" })));
  inputs.splice(1, 0, choice("reason", "Reason", [["", "any"], ...["exhausted", "expired", "rejected", "body_lost"].map((r) => [r, r])]),
    choice("replayed", "Replayed", [["false", "no"], ["true", "yes"], ["", "any"]]));
  const form = h("form", { class: "filters", "aria-label": "Filter dead letters", onsubmit: (event) => { event.preventDefault(); list.first(); } },
    inputs, h("div", { class: "bar" }, h("button", { type: "submit" }, "Filter"),
      h("button", { type: "reset", class: "quiet", onclick: () => setTimeout(() => list.first()) }, "Clear")));
  const asked = () => {
    const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    for (const at of ["failed_from", "failed_before"]) if (given[at]) given[at] = `${given[at].length === 16 ? `${given[at]}:00` : given[at]}Z`;
    return fingerprint ? { ...given, fingerprint } : given;
  };
  const replayAll = button("Replay these…", () => replayDialog(name, asked(), () => list.again()), "primary");
  const purgeAll = button("Purge these…", () => purge(name, asked(), "every dead letter that the filter finds"), "quiet danger-text");
  const list = paged((cursor) => api.deadLetterList(name, { ...asked(), limit: PAGE, cursor }), ({ dead_letters: found, next }) => {
    if (!found.length && !next) return Object.keys(asked()).some((field) => field !== "replayed") ? empty("Nothing matches", "No dead letter fits this filter.") : empty(...NONE);
    return table("Dead letters", [["Failed"], ["Message"], ["Error"], ["Reason"], ["Tries", "num"], ["Project"], ["Replayed"], ["", "num"]],
      found.map((deadLetter) => deadLetterRow(name, deadLetter, () => list.again())));
  });
  fill(panel, h("div", { class: "card" }, h("details", { class: "filter", open: true }, h("summary", {}, "Filter"), form),
    h("div", { class: "bar toolbar always" }, h("span", { class: "bar toolbar" }, replayAll, purgeAll), fingerprint && badge("one error only", "info"), h("span", { class: "grow" }), ways(name, true)), list.node));
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
