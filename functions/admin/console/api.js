// Calls of the admin API, and of /v1 for single messages.
//
// The token lives in this module's memory and, so that a reload keeps the operator signed in, in the tab's sessionStorage:
// no other tab, origin or later session of the browser sees it. A script that could read it there could as well have called
// the API from here; the policy lets none in but our own files and lets nothing be sent elsewhere. It goes when the
// operator signs out, when the server no longer takes it, and after hours without use.

const here = location.href.split("#")[0];
const root = new URL("admin/", here);
const messages = (queue, id) => new URL(`v1/queues/${encodeURIComponent(queue)}/messages/${encodeURIComponent(id)}`, here);
const KEPT_AS = "millrace.session";
const KEPT_MS = 8 * 3600 * 1000;
let token = "";
let tenant = "";

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail ?? document.message ?? "The server gave no reason.");
    this.status = status;
    this.code = document.code ?? "";
    this.title = document.title;
    this.correlation = document.correlation_id;
  }
}

export function use(newToken, newTenant = "") {
  token = newToken;
  tenant = newTenant;
  if (!token) sessionStorage.removeItem(KEPT_AS);
}

export function keepSession() {
  sessionStorage.setItem(KEPT_AS, JSON.stringify({ token, tenant, at: Date.now() }));
}

export function restoreSession() {
  const kept = JSON.parse(sessionStorage.getItem(KEPT_AS) ?? "{}");
  if (kept.token && Date.now() - kept.at < KEPT_MS) use(kept.token, kept.tenant);
  else use("");
}

export const signedIn = () => token !== "";

async function send(method, path, { query = {}, body, headers = {}, signal } = {}) {
  const url = new URL(path, root);
  for (const [name, value] of Object.entries(query)) if (value) url.searchParams.set(name, value);
  if (tenant) url.searchParams.set("tenant_id", tenant);
  const given = { Authorization: `Bearer ${token}`, ...headers };
  if (body !== undefined) given["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(url, {
      method, headers: given, signal, cache: "no-store", credentials: "omit", redirect: "error",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, { title: "No connection", detail: "The server could not be reached." });
  }
  if (answer.ok) return answer;
  const problem = new Problem(answer.status, await answer.json().catch(() => ({})));
  // The authoriser refuses without a code; a 403 with one is about a single call.
  const refused = answer.status === 401 || (answer.status === 403 && !problem.code);
  if (refused && token) {
    use("");
    dispatchEvent(new Event("signedout"));
  }
  throw problem;
}

const json = async (...given) => (await send(...given)).json();
const queue = (name) => `queues/${encodeURIComponent(name)}`;
const key = () => ({ "Idempotency-Key": crypto.randomUUID() });

export const api = {
  whoami: () => json("GET", "whoami"),
  queues: (signal) => json("GET", "queues", { signal }),
  queue: (name, signal) => json("GET", queue(name), { signal }),
  entries: (name, query, signal) => json("GET", `${queue(name)}/messages`, { query, signal }),
  claims: (name, query, signal) => json("GET", `${queue(name)}/claims`, { query, signal }),
  deadLetterList: (name, query, signal) => json("GET", `${queue(name)}/dead-letters`, { query, signal }),
  groups: (name, query, signal) => json("GET", `${queue(name)}/dead-letters/groups`, { query, signal }),
  history: (name, range, signal) => json("GET", `${queue(name)}/history`, { query: { range }, signal }),
  done: (name, signal) => json("GET", `${queue(name)}/done`, { signal }),
  message: (name, id, signal) => json("GET", messages(name, id), { signal }),
  body: async (name, id, whole = false) => {
    const headers = whole ? {} : { Range: "bytes=0-262143" };
    const answer = await send("GET", `${messages(name, id)}/body`, { headers });
    return new Uint8Array(await answer.arrayBuffer());
  },
  pause: (name) => json("POST", `${queue(name)}/pause`),
  resume: (name) => json("POST", `${queue(name)}/resume`),
  resetBreakers: (name, target) => json("POST", `${queue(name)}/breakers/reset`, { body: target ? { target } : {} }),
  cancel: (name, id, running = false) => json("POST", `${queue(name)}/messages/${encodeURIComponent(id)}/cancel`, { body: { running } }),
  release: (name, id) => json("POST", `${queue(name)}/messages/${encodeURIComponent(id)}/release`),
  replay: (name, deadLetter) => json("POST", `${queue(name)}/dead-letters/${deadLetter}/replay?again=true`, { headers: key() }),
  purge: (name, deadLetter) => json("DELETE", `${queue(name)}/dead-letters/${deadLetter}`),
  dryRun: (name, filter) => json("POST", `${queue(name)}/dry-run`, { body: { filter } }),
  startJob: (name, body) => json("POST", `${queue(name)}/jobs`, { body, headers: key() }),
  jobs: (name, signal) => json("GET", name ? `${queue(name)}/jobs` : "jobs", { signal }),
  job: (name, id, signal) => json("GET", `${queue(name)}/jobs/${id}`, { signal }),
  cancelJob: (name, id) => json("POST", `${queue(name)}/jobs/${id}/cancel`),
  resumeJob: (name, id) => json("POST", `${queue(name)}/jobs/${id}/resume`),
  erasures: { start: (body) => json("POST", "erasures", { body, headers: key() }), show: (id, signal) => json("GET", `erasures/${id}`, { signal }),
    cancel: (id) => json("POST", `erasures/${id}/cancel`), resume: (id) => json("POST", `erasures/${id}/resume`) },
  audit: (query, signal) => json("GET", "audit", { query, signal }),
  schedules: (signal) => json("GET", "schedules", { signal }),
  webhooks: (signal) => json("GET", "webhooks", { signal }),
  search: (q, signal) => json("GET", "search", { query: { q }, signal }),
};
