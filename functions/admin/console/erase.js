// Forget all that belongs to a key, a project or the tenant, or one message: a form, a dry run, and the tenant's name typed.

import { api } from "./api.js";
import { button, count, failure, fill, h, loading, toast } from "./dom.js";
import { routesOf, watchJob } from "./jobs.js";
import { openDialog } from "./parts.js";

const BY = [["key", "Key"], ["project", "Project"], ["message_id", "Message id"], ["idempotency_key", "Idempotency key"], ["everything", "Everything of the tenant"]];

export const eraseButton = () => button("Erase…", () => erase(), "quiet danger-text");

async function erase() {
  const box = h("div", { class: "stack" }, loading(3));
  const dialog = openDialog("Erase", box);
  let watching = null;
  let counting = null; // a dry run that nobody waits for any more reads the table for nothing
  dialog.addEventListener("close", () => {
    watching?.stop();
    if (counting) routesOf(counting).cancel().catch(() => {});
  }, { once: true });
  let tenant;
  let queues;
  try { [{ tenant }, { queues }] = await Promise.all([api.whoami(), api.queues()]); } catch (error) { fill(box, failure(error)); return; }
  const by = h("select", { id: "e-by" }, BY.map(([value, text]) => h("option", { value }, text)));
  const value = h("input", { id: "e-value", autocomplete: "off", spellcheck: "false", required: true });
  const queue = h("select", { id: "e-queue" }, h("option", { value: "" }, "every queue"), queues.map((q) => h("option", { value: q.name }, q.name)));
  const named = h("div", { class: "field" }, h("label", { for: "e-value" }, "Which"), value);
  by.addEventListener("change", () => { named.hidden = by.value === "everything"; value.required = !named.hidden; });
  const go = h("button", { type: "submit", class: "primary" }, "Count it");
  const form = h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); preview(); } },
    h("div", { class: "filters" }, h("div", { class: "field" }, h("label", { for: "e-by" }, "Erase by"), by), named, h("div", { class: "field" }, h("label", { for: "e-queue" }, "In"), queue)),
    h("p", { class: "muted" }, "Queued, held, done, dead or filtered, with results, states, errors and bodies. A key, a project or everything is looked for in the whole queue table, 1,000 read units a second."),
    h("div", { class: "bar" }, h("span", { class: "grow" }), go));
  fill(box, form);
  by.focus();

  async function preview() {
    const selection = { [by.value]: by.value === "everything" ? true : value.value, ...(queue.value ? { queue: queue.value } : {}) };
    go.disabled = true;
    try {
      counting = await api.erasures.start({ ...selection, dry_run: true });
    } catch (error) { toast(error.message, "bad"); go.disabled = false; return; }
    watching = watchJob(dialog, box, counting, (job) => { counting = null; if (job.state === "done") plan(selection, job); });
  }

  function plan(selection, job) {
    const typed = h("input", { id: "confirm", autocomplete: "off", spellcheck: "false" });
    const start = h("button", { type: "submit", class: "danger", disabled: true }, `Erase ${count(job.done)}`);
    typed.addEventListener("input", () => { start.disabled = typed.value !== tenant; });
    fill(box,
      h("p", { class: "lead", role: "status" }, h("strong", { class: "big", id: "erase-count" }, count(job.done)), job.done === 1 ? " message or dead letter would be erased" : " messages and dead letters would be erased"),
      h("details", {}, h("summary", {}, "What an erasure does not reach"), h("ul", {}, job.remains.map((line) => h("li", {}, line)))),
      h("form", { class: "stack", onsubmit: (event) => { event.preventDefault(); run({ ...selection, confirm: typed.value }, start); } },
        h("p", {}, "What was accepted since then is erased too, if it is there when the job begins. This cannot be undone."),
        h("label", { for: "confirm" }, "Type ", h("code", {}, tenant), " to confirm"), typed,
        h("div", { class: "bar" }, button("Back", () => { go.disabled = false; fill(box, form); }), h("span", { class: "grow" }), start)));
    typed.focus();
  }

  async function run(body, start) {
    start.disabled = true;
    try {
      watching = watchJob(dialog, box, await api.erasures.start(body));
    } catch (error) { toast(error.message, "bad"); start.disabled = false; }
  }
}
