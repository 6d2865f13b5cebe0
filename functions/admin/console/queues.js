// All queues: a live table, with plots of the last hour and of what was seen while the page is open.

import { api } from "./api.js";
import { count, empty, failure, fill, h, link, loading, quietly, rate, say, span, to } from "./dom.js";
import { live, Plot, tones } from "./parts.js";

const KEPT = 120;
const samples = new Map();

// What was seen of each queue: its depth, and the endings a minute since the sample before.
export function remember(queues) {
  const now = Date.now();
  for (const queue of queues) {
    const kept = samples.get(queue.name) ?? [];
    const last = kept.at(-1);
    const minutes = last ? (now - last.at) / 60000 : 0;
    const speed = minutes > 0 ? Math.max(0, queue.totals.done - last.done) / minutes : queue.done_per_minute;
    kept.push({ at: now, depth: queue.depth, done: queue.totals.done, rate: speed });
    samples.set(queue.name, kept.slice(-KEPT));
  }
}

// The last hour as the sweep kept it, before what was seen here: asked for once, for as many queues as fit a screen.
const SEEDED = 24;
const asked = new Set();
export async function seed(names) {
  const fresh = names.filter((name) => !asked.has(name)).slice(0, Math.max(0, SEEDED - asked.size));
  for (const name of fresh) asked.add(name);
  await Promise.all(fresh.map((name) => quietly(api.history(name, "hour").then(({ points, step_seconds: step }) => {
    const past = points.slice(0, -1).filter((point) => point.depth !== null)
      .map((point) => ({ at: Date.parse(point.at), depth: point.depth, done: 0, rate: (point.done * 60) / step }));
    samples.set(name, [...past, ...(samples.get(name) ?? [])]);
  }))));
}

export const seen = (name) => samples.get(name) ?? [];
export const forget = () => { samples.clear(); asked.clear(); };

const NUMBERS = [
  ["ready", "Ready", (q) => count(q.ready)],
  ["scheduled", "Scheduled", (q) => count(q.scheduled)],
  ["in_flight", "In flight", (q) => count(q.in_flight)],
  ["oldest", "Oldest", (q) => span(q.oldest_age_ms)],
  ["in", "In / min", (q) => rate(q.arrived_per_minute)],
];

function row(queue) {
  const depth = h("span", {});
  const done = h("span", {});
  const dead = h("a", { href: to.queue(queue.name, "dead") });
  const marks = h("td", { class: "marks" });
  const cells = NUMBERS.map(() => h("td", { class: "num" }));
  const plots = { depth: new Plot("info"), rate: new Plot("good") };
  const node = h("tr", {},
    h("th", { scope: "row" }, link(to.queue(queue.name), queue.name), h("small", {}, `${queue.app} · ${queue.ordering.replace("_", " ")}`)),
    h("td", { class: "num plotted" }, plots.depth.node, depth), cells,
    h("td", { class: "num plotted" }, plots.rate.node, done),
    h("td", { class: "num" }, dead), marks);
  return {
    node,
    show(q) {
      say(depth, `${q.exact ? "" : "~"}${count(q.depth)}`);
      say(done, rate(q.done_per_minute));
      const dead_letters = deadCount(q);
      say(dead, count(dead_letters));
      dead.className = dead_letters ? "bad" : "muted";
      NUMBERS.forEach(([, , text], n) => say(cells[n], text(q)));
      plots.depth.draw(seen(q.name).map((s) => s.depth));
      plots.rate.draw(seen(q.name).map((s) => s.rate));
      const wanted = tones(q);
      if (wanted.map((m) => m.textContent).join() !== [...marks.children].map((m) => m.textContent).join()) fill(marks, wanted);
    },
  };
}

// Of a queue that others name as their dead_letter_queue: theirs too. Sums over queues count them where they failed.
export const deadCount = (queue) => queue.dead_letters_of.reduce((total, other) => total + other.dead_letters, queue.dead_letters);

function tile(name) {
  const value = h("dd", {});
  return { node: h("div", { class: "tile" }, h("dt", {}, name), value), value };
}

export function queuesView(main) {
  const tiles = ["Unfinished", "In flight", "Dead letters", "Done / min"].map(tile);
  const box = h("div", {}, loading(8));
  const fresh = h("span", { class: "fresh", role: "status" });
  fill(main,
    h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Queues"), h("span", { class: "grow" }), fresh),
    h("dl", { class: "tiles" }, tiles.map((t) => t.node)), box);
  let rows = null;
  const show = ({ queues }) => {
    remember(queues);
    const sum = (name) => queues.reduce((total, q) => total + q[name], 0);
    [count(sum("depth")), count(sum("in_flight")), count(sum("dead_letters")), rate(sum("done_per_minute"))]
      .forEach((text, n) => say(tiles[n].value, text));
    tiles[2].node.classList.toggle("bad", sum("dead_letters") > 0);
    if (!rows) {
      rows = new Map(queues.map((q) => [q.name, row(q)]));
      const heads = ["Queue", "Depth", ...NUMBERS.map(([, head]) => head), "Done / min", "Dead", "State"];
      fill(box, queues.length === 0
        ? empty("No queues are defined", "Describe one in queues/ and deploy it: it appears here at once.")
        : h("div", { class: "scroll card", tabindex: "0", role: "region", "aria-label": "Queues" },
          h("table", { class: "live" }, h("caption", { class: "unseen" }, "Queues in numbers"),
            h("thead", {}, h("tr", {}, heads.map((head, n) => h("th", { scope: "col", class: n && n < 9 ? "num" : "" }, head)))),
            h("tbody", {}, [...rows.values()].map((r) => r.node)))));
    }
    for (const q of queues) rows.get(q.name)?.show(q);
    seed(queues.map((q) => q.name));
    fresh.className = "fresh";
    say(fresh, "live");
  };
  const onerror = (error) => {
    if (!rows) fill(box, failure(error, () => reading.now()));
    fresh.className = "fresh stale";
    say(fresh, "not updating");
  };
  const reading = live(api.queues, show, { onerror });
  return () => reading.stop();
}
