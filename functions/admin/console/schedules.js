// The schedules: what is enqueued by the clock, its last run and its next.

import { api } from "./api.js";
import { empty, failure, fill, h, link, loading, short, table, time, to } from "./dom.js";
import { live } from "./parts.js";

function row(schedule) {
  const last = schedule.last_run;
  return h("tr", {},
    h("th", { scope: "row" }, schedule.name, h("small", {}, schedule.app)),
    h("td", {}, link(to.queue(schedule.queue), schedule.queue)),
    h("td", { class: "mono" }, schedule.cron), h("td", {}, schedule.timezone), h("td", {}, schedule.catch_up),
    h("td", {}, last ? [time(last.tick), " ", link(to.message(schedule.queue, last.message_id), short(last.message_id), { class: "mono" })] : "none yet"),
    h("td", {}, schedule.next_run ? time(schedule.next_run) : "not seen by a sweep yet"));
}

export function schedulesView(main) {
  const box = h("div", { class: "card" }, loading(4));
  fill(main, h("div", { class: "head" }, h("h1", { tabindex: "-1" }, "Schedules")), box,
    h("p", { class: "muted" }, "The sweep enqueues each tick once, within a minute or so. What it missed is caught up as catch-up says."));
  let shown = "";
  const show = ({ schedules }) => {
    const read = JSON.stringify(schedules);
    if (read === shown) return;
    shown = read;
    fill(box, schedules.length === 0
      ? empty("No schedules are defined", "Describe one in queues/ and deploy it: it appears here at once.")
      : table("Schedules", [["Schedule"], ["Queue"], ["Rule"], ["Time zone"], ["Catch-up"], ["Last run"], ["Next run"]], schedules.map(row)));
  };
  const onerror = (error) => { if (!shown) fill(box, failure(error, () => reading.now())); };
  const reading = live(api.schedules, show, { every: 10000, onerror });
  return () => reading.stop();
}
