// A queue's history, drawn from the samples that the sweep keeps.
//
// Drawn by hand, as SVG: at most 168 points, colours that follow the theme, read by a screen reader and by the keyboard. A
// chart library would be larger than the whole console, paint on a canvas that is none of these, and be a stranger's script
// on a page that holds a token.

import { api } from "./api.js";
import { count, failure, fill, h, loading, say, span, svg, table, time } from "./dom.js";
import { live } from "./parts.js";

const WIDTH = 600;
const HEIGHT = 120;
const RANGES = [["hour", "Hour"], ["day", "Day"], ["two_weeks", "Two weeks"]];
const LINES = [
  ["Depth", [["unfinished", "info", (p) => p.depth]], count],
  ["Came and went", [["arrived", "info", (p) => p.arrived], ["done", "good", (p) => p.done]], count],
  ["Failures", [["failed runs", "warn", (p) => p.failed], ["dead letters", "bad", (p) => p.dead]], count],
  ["Oldest message", [["age", "busy", (p) => p.oldest_age_ms]], span],
];
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", timeZone: "UTC" });
const date = new Intl.DateTimeFormat("en-GB", { day: "2-digit", month: "short", hour: "2-digit", minute: "2-digit", timeZone: "UTC" });

function path(values, most, closed) {
  const x = (n) => ((n + 0.5) / values.length) * WIDTH;
  const y = (value) => HEIGHT - 3 - (value / most) * (HEIGHT - 10);
  const runs = [];
  values.forEach((value, n) => {
    if (value === null) return;
    if (n === 0 || values[n - 1] === null) runs.push([]);
    runs.at(-1).push([x(n), y(value)]);
  });
  const line = (run) => (run.length > 1 ? run : [[run[0][0] - 1, run[0][1]], [run[0][0] + 1, run[0][1]]]).map(([a, b]) => `${a.toFixed(1)} ${b.toFixed(1)}`).join("L");
  return runs.map((run) => `M${line(run)}${closed ? `L${run.at(-1)[0].toFixed(1)} ${HEIGHT}L${run[0][0].toFixed(1)} ${HEIGHT}Z` : ""}`).join("");
}

// One chart: a line for each of its numbers, the highest at its top, and what is under the pointer in words.
function chart([title, lines, format], { points, range }) {
  const values = lines.map(([, , of]) => points.map(of));
  const most = Math.max(1, ...values.flat().filter((value) => value !== null));
  const cursor = svg("line", { class: "cursor", y1: 0, y2: HEIGHT, x1: -9, x2: -9 });
  const drawing = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    ...lines.flatMap(([, tone], n) => [
      ...(n === 0 ? [svg("path", { class: `area ${tone}`, d: path(values[n], most, true) })] : []), svg("path", { class: `line ${tone}`, d: path(values[n], most, false) })]), cursor);
  const said = h("p", { class: "said", "aria-live": "polite" });
  const when = (n) => (range === "two_weeks" ? date : clock).format(new Date(points[n].at));
  let at = points.length - 1;
  function look(n) {
    at = Math.max(0, Math.min(points.length - 1, n));
    for (const end of ["x1", "x2"]) cursor.setAttribute(end, ((at + 0.5) / points.length) * WIDTH);
    fill(said, h("span", { class: "muted" }, `${when(at)} `), lines.map(([name, tone], n_) => h("span", { class: `value ${tone}` }, `${name} ${values[n_][at] === null ? "not known" : format(values[n_][at])}`)));
  }
  look(at);
  const box = h("div", {
    class: "plotarea", tabindex: "0", role: "img", "aria-label": `${title}: at most ${format(most)}, now ${lines.map(([name], n) => `${name} ${format(values[n].at(-1) ?? 0)}`).join(", ")}. Arrow keys move through time.`,
    onpointermove: (event) => { const { left, width } = box.getBoundingClientRect(); look(Math.floor(((event.clientX - left) / width) * points.length)); },
    onkeydown: (event) => { const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key]; if (step) { event.preventDefault(); look(at + step); } },
  }, h("span", { class: "most" }, format(most)), drawing);
  return h("section", { class: "card pad" }, h("h2", {}, title), box,
    h("div", { class: "axis" }, [0, Math.floor(points.length / 2), points.length - 1].map((n) => h("span", {}, when(n)))), said);
}

function numbers({ points }) {
  const moved = points.filter((p) => p.depth || p.arrived || p.done || p.failed || p.dead).reverse();
  return h("details", { class: "card pad" }, h("summary", {}, "As a table"),
    table("History", [["From"], ["Depth", "num"], ["Arrived", "num"], ["Done", "num"], ["Failed", "num"], ["Dead", "num"], ["Oldest", "num"]], moved.map((p) => h("tr", {},
      h("td", {}, time(p.at)), [p.depth, p.arrived, p.done, p.failed, p.dead].map((value) => h("td", { class: "num" }, count(value))), h("td", { class: "num" }, span(p.oldest_age_ms))))));
}

export function historyTab(panel, name) {
  let range = "day";
  let drawn = "";
  const box = h("div", {}, loading(6));
  const choices = RANGES.map(([id, text]) => h("button", { type: "button", "aria-pressed": String(id === range), onclick: () => choose(id) }, text));
  const since = h("span", { class: "muted", role: "status" });
  fill(panel, h("div", { class: "bar note" }, h("div", { class: "segmented", role: "group", "aria-label": "How far back" }, choices), since), box);
  function choose(id) {
    range = id;
    RANGES.forEach(([known], n) => choices[n].setAttribute("aria-pressed", String(known === id)));
    reading.now();
  }
  function show(found) {
    const text = JSON.stringify(found);
    if (found.range !== range || text === drawn) return;
    drawn = text;
    say(since, `From the sweep's samples, in steps of ${found.step_seconds / 60} minutes; times are UTC.`);
    fill(box, h("div", { class: "charts" }, LINES.map((line) => chart(line, found))), numbers(found));
  }
  const reading = live((signal) => api.history(name, range, signal), show, { every: 30000, onerror: (error) => { if (!drawn) fill(box, failure(error, () => reading.now())); } });
  return () => reading.stop();
}
