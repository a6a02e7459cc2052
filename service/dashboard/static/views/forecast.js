// When an account runs out: what was spent, and an estimate with a band.
import { accountPage, nextStep } from "../accounts.js";
import { accountPath, api } from "../api.js";
import { chart } from "../chart.js";
import { card, duration, el, exact, number, numberColumn, table } from "../elements.js";

const REASONS = {
  "too-little-history":
    "There is too little history for a forecast: it needs 24 whole hours or 7 whole days after the first release. Come back then.",
  "nothing-spent": "Nothing was spent in the history, so nothing runs out.",
  exhausted: "This account is exhausted: it admits nothing more. ",
};
const DAY_MS = 86400e3;

export function show(main) {
  return accountPage(main, async (account) => {
    const answer = await api("GET", accountPath(account.account, "/forecast"));
    return shown(account, answer, await history(account, answer));
  });
}

/** What was spent in all at the end of each interval of the history; nothing for a subject, which has no series. */
async function history(account, answer) {
  if (account.subject_hash) return [];
  const step_ms = answer.history.step_s * 1000;
  const least = answer.history.step_s === 86400 ? 7 : 24;
  const from = answer.history.to_ms - Math.max(least, answer.history.intervals) * step_ms;
  const query = `unit=${account.unit}&class=tenant&step=${answer.history.step_s}&from=${from}&to=${answer.at_ms}`;
  const page = await api("GET", `/budget/series?${query}`);
  if (!page.series.length) return [];
  return page.series[0].points.map((point, index) => ({
    at_ms: Math.min(point.at_ms + step_ms, answer.at_ms),
    epsilon: exact(page.series.reduce((sum, each) => sum + each.points[index].committed.epsilon, 0)),
  }));
}

function shown(account, answer, past) {
  const parts = [];
  const step = answer.reason === "exhausted" ? nextStep(account) : [];
  if (answer.reason !== null) parts.push(el("p", { class: "notice" }, REASONS[answer.reason] || answer.reason, step));
  else parts.push(inWords(answer), cards(answer));
  if (!answer.spent.epsilon) return parts; // a table of zeros says nothing
  if (past.length + answer.line.length > 1) parts.push(burnDown(answer, past));
  parts.push(el("p", { class: "hint" }, "This is an estimate, not a bound. ", answer.method));
  const tables = [];
  if (answer.line.length) tables.push(lines(answer));
  if (past.length) tables.push(spentTable(answer, past));
  parts.push(el("div", { class: "pair" }, tables));
  return parts;
}

function inWords(answer) {
  const { middle } = answer.exhausted_ms;
  const { intervals, step_s } = answer.history;
  const pace = `At the pace of the last ${intervals} ${step_s * 1000 === DAY_MS ? "days" : "hours"}, ${answer.account} `;
  const alerts = el("a", { href: "/dashboard/alerts" }, "An alert");
  if (middle === null) return el("p", {}, pace, "lasts longer than the forecast reaches.");
  return el("p", {}, pace, "runs out in ", el("strong", {}, duration(middle - answer.at_ms)), ". ", alerts, " can announce it some days before.");
}

function cards(answer) {
  const { earliest, middle, latest } = answer.exhausted_ms;
  const beyond = "later than the forecast reaches";
  const when = (ms) => (ms === null ? beyond : moment(answer, ms));
  const interval = answer.history.step_s === 86400 ? "a day" : "an hour";
  return el(
    "div",
    { class: "cards" },
    card("Runs out, by estimate", when(middle), [
      el("div", { class: "hint" }, "between ", when(earliest), " and ", when(latest)),
    ]),
    card(`Spent ${interval}`, number(answer.per_interval.middle), [
      el("div", { class: "hint" }, "between ", number(answer.per_interval.low), " and ", number(answer.per_interval.high)),
    ]),
    card("Spent", [number(answer.spent.epsilon), el("span", { class: "hint" }, " of "), number(answer.spent.exhausted_at)], [
      el("div", { class: "hint" }, "epsilon, with open holds"),
    ]),
  );
}

/** A time to the precision of the history: a day, or a minute for a history in hours. */
function moment(answer, ms) {
  const at = new Date(ms);
  const style = answer.history.step_s * 1000 === DAY_MS ? { dateStyle: "medium" } : { dateStyle: "medium", timeStyle: "short" };
  return el("time", { datetime: at.toISOString(), title: at.toISOString() }, at.toLocaleString(undefined, style));
}

/** Past, band and limit over one axis of time. */
function burnDown(answer, past) {
  const times = [...past.map((each) => each.at_ms), ...answer.line.map((each) => each.at_ms)];
  const none = answer.line.map(() => null);
  const spent = answer.spent.epsilon;
  // the band starts at the last point of the past
  const ahead = (name) => [...past.map((_, index) => (index === past.length - 1 ? spent : null)), ...answer.line.map((each) => each[name])];
  const series = [{ name: "spent", values: [...past.map((each) => each.epsilon), ...none], colour: 1 }];
  if (answer.line.length) {
    series.push(
      { name: "high", values: ahead("high"), colour: 2, hidden: true, band: true },
      { name: "low", values: ahead("low"), colour: 2, hidden: true },
      { name: "forecast, with its 5 % to 95 % band", values: ahead("middle"), colour: 2, dashed: true },
    );
  }
  const end = answer.spent.exhausted_at;
  if (end !== null) series.push({ name: "exhausted", values: times.map(() => end), colour: 5 });
  const label = `Epsilon of ${answer.account} that was spent, and its forecast; the tables below have the figures`;
  return chart(label, times, series, (value) => value.toLocaleString());
}

function lines(answer) {
  return table(
    "Forecast of the epsilon that is spent in all",
    [
      { title: "Time", cell: (row) => moment(answer, row.at_ms), key: (row) => row.at_ms },
      numberColumn("Low (5 %)", (row) => row.low),
      numberColumn("Middle", (row) => row.middle),
      numberColumn("High (95 %)", (row) => row.high),
    ],
    answer.line,
  );
}

function spentTable(answer, past) {
  return table(
    `Epsilon that was spent in all, at the end of each ${answer.history.step_s * 1000 === DAY_MS ? "day" : "hour"}`,
    [
      { title: "Time", cell: (row) => moment(answer, row.at_ms), key: (row) => row.at_ms },
      numberColumn("Spent", (row) => row.epsilon),
    ],
    past,
  );
}
