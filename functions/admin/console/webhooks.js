// The webhooks: where each is called, what it leads to, and why one cannot verify what it is sent.

import { api } from "./api.js";
import { badge, empty, failure, fill, h, link, loading, table, time, to } from "./dom.js";
import { live } from "./parts.js";

const here = location.href.split("#")[0];
const address = (webhook) => new URL(webhook.path.slice(1), here).href;

function state(webhook) {
  if (webhook.problem) {
    const { says, since, last } = webhook.problem;
    return [h("p", { class: "bad" }, "cannot verify: ", says),
      h("small", { class: "muted" }, "since ", time(since), ", last ", time(last, { ago: true }))];
  }
  return webhook.verified_by === "none" ? badge("anybody may call", "warn") : badge("no problem seen", "good");
}

function row(webhook) {
  return h("tr", {},
    h("th", { scope: "row" }, webhook.name, h("small", {}, webhook.app)),
    h("td", { class: "mono" }, address(webhook)),
    h("td", {}, webhook.queue ? link(to.queue(webhook.queue), webhook.queue) : webhook.command),
    h("td", {}, webhook.verified_by), h("td", { class: "mono" }, webhook.secrets.join(", ")), h("td", {}, state(webhook)));
}

export function webhooksView(main) {
  const box = h("div", { class: "card" }, loading(4));
  fill(main, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Webhooks")), box,
    h("p", { class: "muted" }, "A webhook without its secret refuses everything. What a call met is shown here for an hour; the secret's value never is."));
  let shown = "";
  const show = ({ webhooks }) => {
    const read = JSON.stringify(webhooks);
    if (read === shown) return;
    shown = read;
    fill(box, webhooks.length === 0
      ? empty("No webhooks are defined", "Describe one in queues/ and deploy it: it appears here at once.")
      : table("Webhooks", [["Webhook"], ["Address"], ["Leads to"], ["Verified by"], ["Secrets"], ["State"]], webhooks.map(row)));
  };
  const onerror = (error) => { if (!shown) fill(box, failure(error, () => reading.now())); };
  const reading = live(api.webhooks, show, { every: 10000, onerror });
  return () => reading.stop();
}
