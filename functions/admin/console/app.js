// The shell: signing in, moving between views, theme and search.

import { api, keepSession, restoreSession, signedIn, use } from "./api.js";
import { auditView, searchView } from "./audit.js";
import { empty, fill, h } from "./dom.js";
import { eraseButton } from "./erase.js";
import { jobsView } from "./jobs.js";
import { messageView } from "./message.js";
import { queueView } from "./queue.js";
import { forget, queuesView } from "./queues.js";
import { schedulesView } from "./schedules.js";
import { webhooksView } from "./webhooks.js";

const main = document.getElementById("main");
const top_ = document.getElementById("top");
const dialog = document.getElementById("dialog");
let leave = null;

const ROUTES = [
  [/^\/(?:queues\/?)?$/, "queues", "Queues", () => queuesView(main)],
  [/^\/queues\/([^/]+)\/messages\/([^/]+)$/, "queues", "Message", (queue, id) => messageView(main, queue, id)],
  [/^\/queues\/([^/]+)\/letters\/([0-9a-f]{16})$/, "queues", "Dead letters", (queue, fingerprint) => queueView(main, queue, "letters", fingerprint)],
  [/^\/queues\/([^/]+)\/(dead|letters|ready|scheduled|claims|done|history|jobs|definition)$/, "queues", "Queue", (queue, tab) => queueView(main, queue, tab)],
  [/^\/queues\/([^/]+)\/?$/, "queues", "Queue", (queue) => queueView(main, queue, "dead")],
  [/^\/schedules$/, "schedules", "Schedules", () => schedulesView(main)],
  [/^\/webhooks$/, "webhooks", "Webhooks", () => webhooksView(main)],
  [/^\/jobs$/, "jobs", "Jobs", () => jobsView(main, eraseButton())],
  [/^\/audit$/, "audit", "Audit", () => auditView(main)],
  [/^\/search\/([^/]+)$/, "", "Search", (wanted) => searchView(main, wanted)],
];

function route(event) {
  if (!signedIn()) return signIn();
  keepSession();
  leave?.();
  leave = null;
  if (dialog.open) dialog.close();
  const path = location.hash.slice(1) || "/";
  for (const [pattern, section, title, show] of ROUTES) {
    const found = pattern.exec(path);
    if (!found) continue;
    const parts = found.slice(1).map(decodeURIComponent);
    for (const link of top_.querySelectorAll("[data-nav]")) {
      if (link.dataset.nav === section) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    document.title = `${parts.length ? `${parts.at(-1)} · ` : ""}${title} · Millrace`;
    leave = show(...parts) ?? null;
    // A tab keeps the focus; another page begins at its heading.
    if (event && document.activeElement?.getAttribute("role") !== "tab") {
      const selected = event.oldURL && sameQueue(event.oldURL, event.newURL) ? main.querySelector('[role="tab"][aria-selected="true"]') : null;
      (selected ?? main.querySelector("h1"))?.focus();
    }
    return undefined;
  }
  fill(main, h("h1", {}, "Not here"), empty("There is no such page", "The address leads nowhere.", h("a", { href: "#/" }, "All queues")));
  return undefined;
}

function sameQueue(one, other) {
  const queue = (address) => /#\/queues\/([^/]+)\/[a-z]+$/.exec(address)?.[1];
  return queue(one) !== undefined && queue(one) === queue(other);
}

function signIn(said = "") {
  leave?.();
  leave = null;
  top_.hidden = true;
  document.title = "Sign in · Millrace";
  const token = h("input", { id: "token", type: "password", autocomplete: "off", spellcheck: "false", required: true, placeholder: "mrt_…" });
  const tenant = h("input", { id: "tenant", autocomplete: "off", spellcheck: "false", placeholder: "the token's own" });
  const problem = h("p", { class: "bad", role: "alert" }, said);
  const go = h("button", { type: "submit", class: "primary" }, "Sign in");
  const form = h("form", { class: "card pad stack sign-in", onsubmit: async (event) => {
    event.preventDefault();
    go.disabled = true;
    problem.textContent = "";
    use(token.value.trim(), tenant.value.trim());
    try {
      enter(await api.whoami());
    } catch (error) {
      use("");
      problem.textContent = [401, 403].includes(error.status) ? "This token does not open the console." : error.message;
      go.disabled = false;
      token.focus();
    }
  } },
  h("h1", { tabindex: "-1" }, "Millrace"), h("p", { class: "muted" }, "A token with the scope read shows the queues; operate is needed to change anything. It is kept in this tab until you sign out or close it."),
  h("label", { for: "token" }, "Token"), token, h("label", { for: "tenant" }, "Tenant"), tenant, problem, go);
  fill(main, form);
  token.focus();
}

function enter(who) {
  document.getElementById("who").textContent = `${who.name} · ${who.tenant}`;
  document.body.classList.toggle("looking", !who.scopes.includes("operate"));
  top_.hidden = false;
  route();
}

document.getElementById("leave").addEventListener("click", () => {
  use("");
  forget();
  signIn();
});
document.getElementById("search").addEventListener("submit", (event) => {
  event.preventDefault();
  const wanted = document.getElementById("q").value.trim();
  if (wanted) location.hash = `#/search/${encodeURIComponent(wanted)}`;
});
document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName ?? "");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !dialog.open && !top_.hidden) {
    event.preventDefault();
    document.getElementById("q").focus();
  }
});
addEventListener("hashchange", route);
addEventListener("signedout", () => { if (!top_.hidden) { forget(); signIn("Your token is no longer taken: sign in again."); } });

async function begin() {
  restoreSession();
  if (!signedIn()) return signIn();
  try {
    enter(await api.whoami());
  } catch (error) {
    use("");
    signIn([401, 403].includes(error.status) ? "Your token is no longer taken: sign in again." : error.message);
  }
  return undefined;
}
begin();
