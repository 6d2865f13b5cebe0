// Replay what was received in a window: a form, a dry run of it, then the run.

import { api } from "./api.js";
import { button, count, empty, facts, failure, fill, h, link, loading, short, table, time, to, toast } from "./dom.js";
import { routesOf, watchJob, windowFacts } from "./jobs.js";
import { openDialog } from "./parts.js";

const OF = [["done", "Done"], ["dead", "Dead"], ["all", "Done and dead"]];
const field = (id, text, node) => h("div", { class: "field" }, h("label", { for: id }, text), node);
const choice = (id, options, chosen) => h("select", { id }, options.map(([value, text]) => h("option", { value, selected: value === chosen }, text)));
const input = (id, type, more = {}) => h("input", { id, type, autocomplete: "off", spellcheck: "false", ...more });

export async function replayWindow({ name }) {
  const box = h("div", { class: "stack" }, loading(3));
  const dialog = openDialog("Replay a window", box);
  let watching = null;
  let counting = null; // a dry run that nobody waits for any more reads the table for nothing
  dialog.addEventListener("close", () => {
    watching?.stop();
    if (counting) routesOf(counting).cancel().catch(() => {});
  }, { once: true });
  let queues;
  try { ({ queues } = await api.queues()); } catch (error) { fill(box, failure(error)); return; }
  const inputs = {
    of: choice("w-of", OF, "done"), to: choice("w-to", queues.map((q) => [q.name, q.name]), name),
    from: input("w-from", "datetime-local", { required: true, step: "1" }), before: input("w-before", "datetime-local", { required: true, step: "1" }),
    key: input("w-key", "text"), project: input("w-project", "text"), correlation: input("w-correlation", "text"),
  };
  const go = h("button", { type: "submit", class: "primary" }, "Count them");
  const form = h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); preview(asked()); } },
    h("div", { class: "filters" }, field("w-of", "Messages", inputs.of), field("w-to", "To the queue", inputs.to), field("w-from", "Received from (UTC)", inputs.from),
      field("w-before", "Received before (UTC)", inputs.before), field("w-key", "Key", inputs.key), field("w-project", "Project", inputs.project), field("w-correlation", "Correlation id", inputs.correlation)),
    h("p", { class: "muted" }, "No index leads to done messages by their time: the whole queue table is read, 1,000 read units a second, to count them and again to replay them."),
    h("div", { class: "bar" }, h("span", { class: "grow" }), go));
  fill(box, form);
  inputs.of.focus();

  function asked() {
    const filter = Object.fromEntries([["key", inputs.key], ["project", inputs.project], ["correlation_id", inputs.correlation]].filter(([, node]) => node.value).map(([n, node]) => [n, node.value]));
    const moment = (node) => new Date(`${node.value}Z`).toISOString();
    return { kind: "replay", of: inputs.of.value, to: inputs.to.value, received_from: moment(inputs.from), received_before: moment(inputs.before), filter };
  }

  async function preview(body) {
    go.disabled = true;
    try {
      counting = await api.startJob(name, { ...body, any_order: true, dry_run: true });
    } catch (error) { toast(error.message, "bad"); go.disabled = false; return; }
    watching = watchJob(dialog, box, counting, (job) => { counting = null; if (job.state === "done") plan(body, job); });
  }

  function plan(body, job) {
    const ordering = queues.find((q) => q.name === body.to)?.ordering;
    const unordered = body.of === "dead" || !["fifo", "per_key"].includes(ordering);
    const rate = input("w-rate", "number", { min: "1", max: "1000", placeholder: "as fast as it goes", inputmode: "numeric" });
    const any = input("w-any", "checkbox");
    const start = h("button", { type: "submit", class: "primary" }, `Replay ${count(job.done)}`);
    const able = () => { start.disabled = job.done === 0 || !(unordered || any.checked); };
    any.addEventListener("change", able);
    able();
    fill(box, job.done === 0 && empty("Nothing to replay", "No message of the window fits."),
      h("p", { class: "lead", role: "status" }, h("strong", { class: "big", id: "window-count" }, count(job.done)), job.done === 1 ? " message would be replayed" : " messages would be replayed"),
      facts(windowFacts(job.window)),
      job.window.samples.length > 0 && table("Some of them", [["Received"], ["Message"], ["Status"]], job.window.samples.map((one) => h("tr", {},
        h("td", {}, time(one.received_at)), h("td", { class: "mono" }, link(to.message(name, one.message_id), short(one.message_id), { title: one.message_id })), h("td", {}, one.status)))),
      h("p", { class: "muted" }, "Each becomes a new message with the same correlation id, once for this job, however often it is interrupted. A done one is done anew."),
      h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); run({ ...body, ...(rate.value ? { rate: Number(rate.value) } : {}), ...(any.checked ? { any_order: true } : {}) }, start); } },
        !unordered && h("div", { class: "bar" }, any, h("label", { for: "w-any" }, `${body.to} is ${ordering.replace("_", " ")}: accept that it gets what is done in no order`)),
        h("div", { class: "bar" }, button("Back", () => { go.disabled = false; fill(box, form); }), h("label", { for: "w-rate" }, "Per second"), rate, h("span", { class: "grow" }), start)));
    start.focus();
  }

  async function run(body, start) {
    start.disabled = true;
    try {
      watching = watchJob(dialog, box, await api.startJob(name, body));
    } catch (error) { toast(error.message, "bad"); start.disabled = false; }
  }
}
