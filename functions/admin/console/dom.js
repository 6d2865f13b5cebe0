// Elements, and how numbers and times read. Data becomes text nodes and attributes, never markup.

export function h(tag, props, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  return node;
}

export function append(node, children) {
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === false) continue;
    node.append(child instanceof Node ? child : String(child));
  }
  return node;
}

export function fill(node, ...children) {
  node.replaceChildren();
  return append(node, children);
}

// Writes only what changed, so that a screen reader, a selection and a focus are left alone.
export function say(node, text) {
  if (node.textContent !== String(text)) node.textContent = text;
}

const SVG = "http://www.w3.org/2000/svg";
export function svg(tag, props, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(props ?? {})) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

const whole = new Intl.NumberFormat("en");
const tenth = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });
export const count = (value) => whole.format(value ?? 0);
export const rate = (value) => (value >= 100 ? whole.format(Math.round(value)) : tenth.format(value ?? 0));

export function span(ms) {
  if (!ms) return "–";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = Math.floor(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} m ${String(s % 60).padStart(2, "0")} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${String(Math.floor((s % 3600) / 60)).padStart(2, "0")} m`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

export function bytes(size) {
  if (size < 1024) return `${size} B`;
  return size < 1048576 ? `${tenth.format(size / 1024)} KB` : `${tenth.format(size / 1048576)} MB`;
}

const clock = new Intl.DateTimeFormat("en-GB", {
  month: "short", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", timeZone: "UTC",
});
export function time(iso, { ago = false } = {}) {
  if (!iso) return h("span", { class: "muted" }, "–");
  const at = new Date(iso);
  const past = Date.now() - at;
  const text = ago ? (past >= 0 ? `${span(past)} ago` : `in ${span(-past)}`) : clock.format(at).replace(",", "");
  return h("time", { datetime: iso, title: iso }, text);
}

export const short = (id) => (id.length > 14 ? `${id.slice(0, 6)}…${id.slice(-6)}` : id);

export function badge(text, tone = "") {
  return h("span", { class: `badge ${tone}` }, text);
}

const STATUS_TONES = {
  ready: "info", scheduled: "warn", in_flight: "busy", done: "good", dead: "bad", purged: "", filtered: "",
  running: "busy", cancelling: "warn", cancelled: "", failed: "bad",
};
export const statusBadge = (name) => badge(name, STATUS_TONES[name] ?? "");

export function button(text, onclick, kind = "") {
  return h("button", { type: "button", class: kind, onclick }, text);
}

export function empty(title, text, ...more) {
  return h("div", { class: "empty" }, h("strong", {}, title), h("p", {}, text), more);
}

export function failure(error, again) {
  return h("div", { class: "empty failed", role: "alert" },
    h("strong", {}, error.title ?? "That did not work"),
    h("p", {}, error.message),
    error.correlation && h("p", { class: "mono muted" }, `correlation id ${error.correlation}`),
    again && button("Try again", again));
}

export function loading(rows = 5) {
  const lines = Array.from({ length: rows }, () => h("div", { class: "bone" }));
  return h("div", { class: "loading", role: "status" }, h("span", { class: "unseen" }, "Loading"), lines);
}

export function toast(text, tone = "good") {
  const node = h("div", { class: `toast ${tone}` }, text);
  document.getElementById("said").append(node);
  setTimeout(() => node.remove(), 6000);
}

export const quietly = (promise) => promise.catch(() => undefined);

export const link = (hash, text, props = {}) => h("a", { href: hash, ...props }, text);
export const to = {
  queue: (name, tab = "dead") => `#/queues/${encodeURIComponent(name)}/${tab}`,
  letters: (queue, fingerprint) => `#/queues/${encodeURIComponent(queue)}/letters/${fingerprint}`,
  message: (queue, id) => `#/queues/${encodeURIComponent(queue)}/messages/${encodeURIComponent(id)}`,
};

export function facts(pairs) {
  return h("dl", { class: "facts" },
    pairs.filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

export function table(label, heads, rows) {
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    h("table", {},
      h("caption", { class: "unseen" }, label),
      h("thead", {}, h("tr", {}, heads.map(([text, kind]) => h("th", { scope: "col", class: kind }, text)))),
      h("tbody", {}, rows)));
}
