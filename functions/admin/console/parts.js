// Parts that several views use: plots, live reading, paged lists, bodies, dialogs.

import { append, badge, button, count, failure, fill, h, loading, say, svg, toast } from "./dom.js";

const WIDTH = 96;
const HEIGHT = 24;

// A line of the samples taken while the page is open; the number beside it says the same to a screen reader.
export class Plot {
  constructor(tone) {
    this.area = svg("path", { class: "area" });
    this.line = svg("path", { class: "line" });
    this.node = svg("svg", {
      class: `plot ${tone}`, viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, preserveAspectRatio: "none", "aria-hidden": "true",
    }, this.area, this.line);
  }

  draw(values) {
    const most = Math.max(1, ...values);
    const step = WIDTH / Math.max(1, values.length - 1);
    const points = (values.length > 1 ? values : [values[0] ?? 0, values[0] ?? 0])
      .map((value, n, all) => `${(all.length === 2 && values.length < 2 ? n * WIDTH : n * step).toFixed(1)} ${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`);
    this.line.setAttribute("d", `M${points.join("L")}`);
    this.area.setAttribute("d", `M0 ${HEIGHT}L${points.join("L")}L${WIDTH} ${HEIGHT}Z`);
  }
}

// Reads again and again while the view is shown and the page is seen; one reading at a time.
export function live(read, show, { every = 3000, onerror } = {}) {
  const control = new AbortController();
  let timer = 0;
  let told = ""; // an error is told once, not at every reading: it would take the focus and be read out again
  const again = () => { timer = setTimeout(turn, every); };
  async function turn() {
    if (document.hidden) return again();
    try {
      const found = await read(control.signal);
      if (!control.signal.aborted) show(found);
      told = "";
    } catch (error) {
      if (control.signal.aborted) return;
      if (error.message !== told) onerror?.(error);
      told = error.message;
    }
    if (!control.signal.aborted) again();
  }
  turn();
  return { stop() { control.abort(); clearTimeout(timer); }, now() { told = ""; clearTimeout(timer); turn(); } };
}

// A list that pages by cursor: forward by what the answer says, back by what was remembered.
export function paged(read, show, { rows = 6 } = {}) {
  const box = h("div", { class: "paged" });
  const behind = [];
  let cursor = "";
  let next = null;
  let shown = 0;
  const place = h("span", { class: "muted", role: "status" });
  const back = button("← Newer", () => { cursor = behind.pop() ?? ""; shown -= 1; turn(); });
  const on = button("Older →", () => { behind.push(cursor); cursor = next; shown += 1; turn(); });
  const feet = h("div", { class: "feet" }, back, on, place);
  async function turn() {
    box.setAttribute("aria-busy", "true");
    if (!box.childElementCount) fill(box, loading(rows));
    try {
      const page = await read(cursor);
      next = page.next;
      fill(box, show(page));
      if (next || behind.length) box.append(feet);
      back.disabled = behind.length === 0;
      on.disabled = !next;
      place.textContent = `Page ${shown + 1}`;
    } catch (error) {
      if (error.name !== "AbortError") fill(box, failure(error, turn));
    }
    box.removeAttribute("aria-busy");
  }
  turn();
  return { node: box, again: turn, first() { behind.length = 0; cursor = ""; shown = 0; turn(); } };
}

const TOKEN = /("(?:[^"\\]|\\.)*")|(-?\d[\d.eE+-]*)|(true|false|null)|([{}[\],:])|(\s+)/gy;

// Indents JSON by its text alone, so that every number stays as it was written.
export function pretty(text) {
  const out = h("pre", { class: "code", tabindex: "0", "aria-label": "Body as JSON" });
  let depth = 0;
  let run = "";
  const put = (piece, kind) => {
    if (!kind) { run += piece; return; }
    if (run) { out.append(run); run = ""; }
    out.append(h("span", { class: kind }, piece));
  };
  const line = () => put(`\n${"  ".repeat(depth)}`);
  TOKEN.lastIndex = 0;
  let found;
  const tokens = [];
  while ((found = TOKEN.exec(text))) if (found[5] === undefined) tokens.push(found);
  tokens.forEach((token, n) => {
    const [piece, string, number, word, mark] = token;
    const following = tokens[n + 1]?.[4];
    if (string !== undefined) put(piece, following === ":" ? "key" : "string");
    else if (number !== undefined) put(piece, "number");
    else if (word !== undefined) put(piece, "word");
    else if (mark === "{" || mark === "[") {
      put(piece);
      if (following === "}" || following === "]") return;
      depth += 1;
      line();
    } else if (mark === "}" || mark === "]") {
      const before = tokens[n - 1]?.[4];
      if (before !== "{" && before !== "[") { depth -= 1; line(); }
      put(piece);
    } else if (mark === ",") { put(piece); line(); } else put(": ");
  });
  if (run) out.append(run);
  return out;
}

function hex(data) {
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 4096); at += 16) {
    const row = [...data.slice(at, at + 16)];
    const left = row.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    const right = row.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : "·")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${left.padEnd(47)}  ${right}`);
  }
  return h("pre", { class: "code", tabindex: "0", "aria-label": "Body as bytes" }, lines.join("\n"));
}

function decoded(data) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(data);
  } catch {
    return null;
  }
}

function isJson(text) {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

// A body, pretty where it is JSON, and raw: the text or bytes exactly as received.
export function bodyView(data, size, download) {
  const text = decoded(data);
  const views = [];
  if (text !== null && data.length === size && isJson(text)) views.push(["Pretty", () => pretty(text)]);
  views.push(["Raw", () => (text === null ? hex(data) : h("pre", { class: "code", tabindex: "0", "aria-label": "Body, raw" }, text))]);
  const box = h("div", {});
  const choices = views.map(([name, make]) => h("button", {
    type: "button", "aria-pressed": "false", onclick: () => choose(name),
  }, name));
  function choose(name) {
    choices.forEach((choice) => choice.setAttribute("aria-pressed", String(choice.textContent === name)));
    fill(box, views.find(([known]) => known === name)[1]());
    if (data.length < size) box.append(h("p", { class: "muted" }, `The first ${count(data.length)} of ${count(size)} bytes. Download it for the rest.`));
  }
  choose(views[0][0]);
  return append(h("div", {}), [h("div", { class: "bar" }, h("div", { class: "segmented", role: "group", "aria-label": "How to show the body" }, choices), h("span", { class: "grow" }), download), box]);
}

export function save(data, name) {
  const address = URL.createObjectURL(new Blob([data], { type: "application/octet-stream" }));
  const anchor = h("a", { href: address, download: name });
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

export function openDialog(title, ...children) {
  const dialog = document.getElementById("dialog");
  const close = button("×", () => dialog.close(), "quiet close");
  close.setAttribute("aria-label", "Close");
  fill(dialog, h("div", { class: "bar" }, h("h2", { id: "dialog-title" }, title), h("span", { class: "grow" }), close), children);
  dialog.showModal();
  return dialog;
}

// Asks for the queue's name to be typed where something cannot be undone.
export function confirmTyped(title, text, name, act) {
  const field = h("input", { id: "confirm", autocomplete: "off", spellcheck: "false", "aria-describedby": "confirm-why" });
  const go = h("button", { type: "submit", class: "danger", disabled: true }, title);
  field.addEventListener("input", () => { go.disabled = field.value !== name; });
  const form = h("form", {
    class: "stack", onsubmit: (event) => { event.preventDefault(); act(field.value).then(() => dialog.close(), (error) => toast(error.message, "bad")); },
  }, h("p", { id: "confirm-why" }, text), h("label", { for: "confirm" }, "Type ", h("code", {}, name), " to confirm"), field, h("div", { class: "bar" }, go));
  const dialog = openDialog(title, form);
  field.focus();
}

export function progress(job) {
  const handled = job.done + job.skipped + job.failed;
  const total = Math.max(job.total, handled);
  if (!job.total && !job.total_exact) return { share: job.finished_at ? 100 : null, text: `${count(handled)}${job.finished_at ? "" : " so far"}` }; // it counts as it goes
  const share = total ? Math.round((handled / total) * 100) : job.state === "done" ? 100 : 0;
  const text = `${count(handled)} of ${count(total)}${job.total_exact ? "" : " or more"}`;
  return { share, text };
}

const WORDS = {
  paused: ["paused", "warn"], target_down: ["target down", "bad"], first_in_line: ["waits for its first", "warn"], concurrency: ["at max_concurrency", ""], full_keys: ["keys in hand", ""],
  rate: ["at its rate", ""], full: ["full", "bad"], nobody_works: ["nobody works", "bad"],
};

// Why a queue stands still, each in a word; the sentence is its title, and stands on the queue's own page.
export function tones(queue) {
  const marks = queue.standing_still.map(({ kind, says }) => {
    const mark = badge(...WORDS[kind]);
    mark.title = says;
    return mark;
  });
  const crowded = queue.depth >= 0.8 * queue.max_depth && queue.depth < queue.max_depth;
  return crowded ? [...marks, badge("nearly full", "warn")] : marks;
}

// The same in sentences, each with what can be done about it. Rows stay as they are while their words change.
export function standingStill(act) {
  const rows = new Map();
  const node = h("div", { class: "standing", role: "status" });
  const LABELS = { resume: "Hand out again", reset_breakers: "Try now" };
  function row(reason) {
    const text = h("span", { class: "grow" });
    const go = LABELS[reason.action] && button(LABELS[reason.action], async () => {
      go.disabled = true;
      try { await act(reason); } catch (error) { toast(error.message, "bad"); }
      go.disabled = false;
    }, "small");
    const made = { text, node: h("div", { class: `reason ${WORDS[reason.kind][1]}` }, text, go) };
    node.append(made.node);
    return made;
  }
  return {
    node,
    show(reasons) {
      const named = new Map(reasons.map((reason) => [`${reason.kind} ${reason.target}`, reason]));
      for (const [name, { node: gone }] of rows) if (!named.has(name)) { gone.remove(); rows.delete(name); }
      for (const [name, reason] of named) {
        if (!rows.has(name)) rows.set(name, row(reason));
        say(rows.get(name).text, `${reason.says[0].toUpperCase()}${reason.says.slice(1)}.`.replace("?.", "?"));
      }
    },
  };
}
