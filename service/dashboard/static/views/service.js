// Workers, queues, throughput, latency and errors of the gateway, for the operator.
import { api } from "../api.js";
import { card, codeColumn, duration, el, number, numberColumn, table, time } from "../elements.js";
import { regularly, yesNo } from "../parts.js";

const AGAIN_MS = 5000;

export async function show(main) {
  const cards = el("div", { class: "cards" });
  const tables = el("div");
  let before = null;
  const read = async () => {
    const found = await api("GET", "/admin/service");
    cards.replaceChildren(...summary(found, before));
    if (!tables.contains(document.activeElement)) tables.replaceChildren(...figures(found)); // one in use keeps the focus
    before = found;
  };
  main.append(cards, tables);
  await read();
  regularly(read, AGAIN_MS);
}

function summary(found, before) {
  const total = (state) => state.requests.reduce((sum, row) => sum + row.seconds.count, 0);
  const seconds = (found.at_ms - (before ? before.at_ms : found.started_ms)) / 1000;
  const rate = (total(found) - (before ? total(before) : 0)) / seconds;
  const failed = found.requests.flatMap((row) => Object.entries(row.statuses)).filter(([status]) => status >= "500");
  const errors = failed.reduce((sum, [, count]) => sum + count, 0);
  const queued = found.workers.reduce((sum, row) => sum + row.queued, 0);
  const ready = found.workers.filter((row) => row.ready).length;
  return [
    card("Roles that are ready", `${ready} of ${found.workers.length}`),
    card("Requests a second", number(Number(rate.toPrecision(3))), hint(before ? "in the last seconds" : "since the start")),
    card("Requests since the start", number(total(found)), hint(["The gateway started ", time(found.started_ms), "."])),
    card("Answers of status 500 and above", number(errors), hint("since the start")),
    card("Tasks that wait for a worker", number(queued)),
    card("Jobs that wait", number(found.jobs.waiting)),
    card("The ledger is durable", yesNo(found.ledger.durable), hint(found.ledger.sealed_ms ? ["Sealed ", time(found.ledger.sealed_ms), "."] : "Not sealed since the start.")),
    card("Event loop late, 99 % at most", seconds3(found.event_loop_late_seconds.at_most.p99)),
  ];
}

function hint(text) {
  return el("div", { class: "hint" }, text);
}

/** A time in seconds as a length; its exact value is kept. */
function seconds3(value) {
  if (value === null || value === undefined) return "–";
  return el("span", { "data-value": String(value), title: `${value} s` }, duration(value * 1000));
}

function times(name, of) {
  const column = (title, get) => ({ title, cell: (row) => seconds3(get(of(row))), key: (row) => get(of(row)), number: true });
  return [
    column(`${name}, mean`, (value) => value.mean),
    column("half at most", (value) => value.at_most.p50),
    column("95 % at most", (value) => value.at_most.p95),
    column("99 % at most", (value) => value.at_most.p99),
  ];
}

function figures(found) {
  const count = numberColumn("Count", (row) => row.count);
  const named = (title, name) => ({ title, cell: (row) => row[name], key: (row) => row[name] });
  return [
    table(
      "Workers by role",
      [
        named("Role", "role"),
        { title: "Ready", cell: (row) => yesNo(row.ready), key: (row) => row.ready },
        named("Stage", "stage"),
        numberColumn("Workers", (row) => row.workers_ready),
        numberColumn("Restarts", (row) => row.restarts),
        numberColumn("Waiting", (row) => row.queued),
        numberColumn("Batches", (row) => row.batch_seconds.count),
        ...times("Wait", (row) => row.queue_seconds),
      ],
      found.workers,
    ),
    table(
      "Requests by route",
      [
        codeColumn("Route", (row) => row.route),
        numberColumn("Requests", (row) => row.seconds.count),
        { title: "Answers by status", cell: (row) => Object.entries(row.statuses).map(([status, n]) => `${status}: ${n}`).join(", ") },
        ...times("Time", (row) => row.seconds),
      ],
      found.requests,
    ),
    table("Stages of the request pipeline", [named("Stage", "stage"), ...times("Time", (row) => row.seconds)], found.stages),
    found.problems.length ? table("Problems by code", [{ title: "Code", cell: (row) => el("code", { class: "name" }, row.code), key: (row) => row.code }, count], found.problems) : "",
    found.auth_failures.length ? table("Failed authentications", [named("Reason", "reason"), count], found.auth_failures) : "",
    found.jobs.ended.length ? table("Jobs that ended", [named("Kind", "kind"), named("Status", "status"), count], found.jobs.ended) : "",
    found.upstreams.length ? table("Calls of language models", [named("Upstream", "upstream"), named("Outcome", "outcome"), count], found.upstreams) : "",
    el("p", { class: "hint" }, "Counts since the gateway started. Times are upper ends of the ranges in which they were counted."),
  ];
}
