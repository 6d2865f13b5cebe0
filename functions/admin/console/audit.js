// Who did what; and what a search finds.

import { api } from "./api.js";
import { badge, empty, failure, fill, h, link, loading, statusBadge, short, table, time, to } from "./dom.js";
import { paged } from "./parts.js";

const words = (action) => action.replaceAll("_", " ");
const ACTIONS = ["pause_queue", "resume_queue", "break_claim", "cancel_message", "reset_breakers", "replay_dead_letter", "purge_dead_letter", "start_job", "cancel_job", "resume_job"];
const tone = (outcome) => ({ ok: "good", done: "good", started: "warn", cancelled: "" }[outcome] ?? "bad");

export function auditView(main) {
  const action = h("select", { id: "a-action", name: "action" }, h("option", { value: "" }, "any"), ACTIONS.map((name) => h("option", { value: name }, words(name))), h("option", { value: "job_ended" }, "job ended"));
  const field = (name, label) => h("div", { class: "field" }, h("label", { for: `a-${name}` }, label), h("input", { id: `a-${name}`, name, autocomplete: "off" }));
  const form = h("form", { class: "filters", "aria-label": "Filter the audit log", onsubmit: (event) => { event.preventDefault(); list.first(); } },
    h("div", { class: "field" }, h("label", { for: "a-action" }, "Action"), action), field("queue", "Queue"), field("token_id", "Token id"), field("subject", "Message, dead letter or job"), field("outcome", "Outcome"),
    h("div", { class: "bar" }, h("button", { type: "submit" }, "Filter")));
  const list = paged((cursor) => api.audit({ ...Object.fromEntries(new FormData(form)), limit: 50, cursor }), ({ events, next }) => (events.length || next
    ? table("Audit log", [["When"], ["Who"], ["What"], ["Queue"], ["On"], ["Asked for"], ["Outcome"], ["Result"]], events.map((event) => h("tr", {},
      h("td", {}, time(event.at)), h("td", {}, event.name, h("small", { class: "mono" }, event.token_id)), h("td", {}, words(event.action)),
      h("td", {}, event.queue ? link(to.queue(event.queue), event.queue) : "–"), h("td", { class: "mono", title: event.subject }, event.subject ? short(event.subject) : "–"),
      h("td", { class: "error mono" }, event.detail || "–"), h("td", {}, badge(event.outcome, tone(event.outcome))), h("td", { class: "mono", title: event.result }, event.result.includes(" ") ? event.result : short(event.result) || "–"))))
    : empty("Nothing was changed", "Every pause, replay, purge and release leaves a line here, kept for a year.")));
  fill(main, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Audit")), h("div", { class: "card" }, form, list.node));
}

export function searchView(main, wanted) {
  const box = h("div", { class: "card" }, loading(3));
  fill(main, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Search")), h("p", { class: "muted" }, "For ", h("code", {}, wanted)), box);
  async function look() {
    try {
      const { found, complete } = await api.search(wanted);
      if (found.length === 1 && (found[0].message_id === wanted || wanted.endsWith(found[0].message_id))) {
        location.replace(to.message(found[0].queue, found[0].message_id));
        return;
      }
      fill(box, found.length === 0
        ? empty("Nothing found", `${complete ? "No message has this id or idempotency key, and none that is queued, dead or just done has it as its correlation id or key." : "Not among what could be looked through: the queues are deep."} A message that was done long ago is found by its message id or idempotency key.`)
        : table("Found", [["Queue"], ["Message"], ["State"], ["Received"], ["Correlation id"], ["Found by"]], found.map((item) => h("tr", {},
          h("td", {}, link(to.queue(item.queue), item.queue)), h("td", { class: "mono" }, link(to.message(item.queue, item.message_id), item.message_id)),
          h("td", {}, statusBadge(item.status)), h("td", {}, time(item.at, { ago: true })), h("td", { class: "mono" }, item.correlation_id), h("td", {}, item.matched.replaceAll("_", " "))))),
      found.length > 0 && !complete && h("p", { class: "muted pad" }, "There may be more: the queues are deeper than one search looks."));
    } catch (error) { fill(box, failure(error, look)); }
  }
  look();
}
