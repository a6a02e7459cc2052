// The jobs, newest first, and one of them as it runs: its facts, its progress by server-sent events, its files, buttons
// that pause and cancel it, and synthetic rows, which cost nothing.
import { api, attempt, leave, parameters, Problem, remember, send, showProblem } from "../api.js";
import { bar, confirmed, duration, el, field, number, numberColumn, rowForm, select, table, textColumn, time, timeColumn } from "../elements.js";
import { action, amountText, facts, given, numberField, paged, typed } from "../parts.js";

const PAGE = 50;
const AGAIN_MS = 5000;
const ENDED = ["succeeded", "failed", "cancelled"];
const SHOWN_MAX = 100;

export async function show(main, session) {
  const list = el("div");
  const detail = el("section", { "aria-label": "One job" });
  let open = null;

  const draw = () => list.replaceChildren(jobs.rows.length ? rows(jobs.rows, choose) : el("p", {}, nothing(session)));
  const page = (cursor) => api("GET", `/jobs?${new URLSearchParams(given({ limit: PAGE, cursor }))}`);
  const jobs = paged("More jobs", "jobs", page, draw);
  const changed = (job) => {
    jobs.rows = jobs.rows.map((each) => (each.job_id === job.job_id ? job : each));
    if (!list.contains(document.activeElement)) draw(); // a table that is in use keeps the focus
  };
  const choose = (id) => {
    if (open) open.close();
    remember({ job: id });
    open = watchedJob(id, changed);
    detail.replaceChildren(open.place);
    return open.started;
  };

  main.append(detail, list, jobs.more);
  await jobs.restart();
  const wanted = parameters().get("job") || (jobs.rows.find((job) => !ENDED.includes(job.status)) || jobs.rows[0] || {}).job_id;
  if (wanted) await choose(wanted);
  setInterval(() => refresh(jobs.rows, changed), AGAIN_MS);
}

/** Read again the jobs on the page that have not ended. */
async function refresh(jobs, changed) {
  if (document.hidden) return;
  for (const job of jobs.filter((each) => !ENDED.includes(each.status)).slice(0, 10)) {
    try {
      changed(await api("GET", `/jobs/${job.job_id}`));
    } catch {
      return; // the next round tries again
    }
  }
}

function nothing(session) {
  return session.operator ? "No job that all tenants share." : "This tenant has no job.";
}

function rows(jobs, choose) {
  return table(
    "Jobs, newest first",
    [
      { title: "Job", cell: (job) => el("button", { type: "button", class: "link", onclick: () => choose(job.job_id) }, job.label), key: (job) => job.label },
      textColumn("Kind", (job) => job.kind),
      textColumn("Status", (job) => job.status),
      { title: "Progress", cell: (job) => percent(job), key: (job) => job.progress, number: true },
      { title: "Spent", cell: (job) => spent(job), key: (job) => job.spent.epsilon },
      numberColumn("Attempts", (job) => job.attempts),
      timeColumn("Created", (job) => job.created_ms),
      timeColumn("Ended", (job) => job.ended_ms),
    ],
    jobs,
  );
}

function percent(job) {
  return el("span", { "data-value": String(job.progress), title: String(job.progress) }, `${Math.round(job.progress * 100)} %`);
}

function spent(job) {
  if (!job.reserved.epsilon && !job.spent.epsilon) return "charges nothing";
  return el("span", { "data-value": String(job.spent.epsilon) }, amountText(job.spent));
}

/** Follow a job. `place`: where it is shown; `started`: fulfilled once it is; `changed(job)` is called for each state. */
function watchedJob(id, changed) {
  const place = el("div", { class: "card job" });
  const path = `/jobs/${encodeURIComponent(id)}`;
  let events = null;
  let last = "";
  let first = null; // where a release stood when this page saw it run, for its rate
  const draw = (job) => {
    changed(job);
    const text = JSON.stringify(job);
    if (text === last) return; // what a person uses on it stays
    last = text;
    const written = job.metrics && job.metrics.rows_written;
    if (job.status !== "running") first = null;
    else if (first === null && written !== undefined) first = { written, ms: Date.now() };
    place.replaceChildren(...shown(job, path, draw, first));
  };
  const started = (async () => {
    try {
      draw(await api("GET", path));
    } catch (error) {
      showProblem(error);
      return;
    }
    events = new EventSource(`${path}/events`);
    events.addEventListener("progress", (event) => draw(JSON.parse(event.data)));
    for (const end of ENDED) {
      events.addEventListener(end, (event) => {
        events.close();
        draw(JSON.parse(event.data));
      });
    }
    events.addEventListener("problem", (event) => {
      if (JSON.parse(event.data).status === 401) leave(); // the key has ended; else the browser connects again
    });
  })();
  return { place, started, close: () => events && events.close() };
}

function shown(job, path, draw, first) {
  const ended = ENDED.includes(job.status);
  const running = (job.ended_ms || Date.now()) - job.started_ms;
  return [
    el("h2", {}, `${job.kind}: ${job.label}`),
    el(
      "div",
      { role: "progressbar", "aria-label": "Progress", "aria-valuemin": "0", "aria-valuemax": "100", "aria-valuenow": String(Math.round(job.progress * 100)) },
      bar(job.progress),
    ),
    el("p", { class: "state" }, `${job.status}, ${Math.round(job.progress * 100)} %${ended ? "" : `: ${job.stage}`}`),
    job.cancel_requested && !ended ? el("p", { class: "notice" }, "Cancellation was requested.") : null,
    facts([
      ["Job", el("code", {}, job.job_id)],
      ["Created", time(job.created_ms)],
      ["Started", job.started_ms && time(job.started_ms)],
      ["Ended", job.ended_ms && time(job.ended_ms)],
      ["Ran for", job.started_ms && ended ? duration(running) : null],
      ["Attempts", number(job.attempts)],
      ["Reserved", job.reserved.epsilon ? amountText(job.reserved) : "nothing"],
      ["Spent", job.spent.epsilon ? el("span", { "data-value": String(job.spent.epsilon) }, amountText(job.spent)) : "nothing"],
      ...(job.kind === "release" ? releaseFacts(job, first) : Object.entries(job.metrics || {}).map(([name, value]) => [name, number(value)])),
    ]),
    job.problem ? el("p", { class: "error" }, [job.problem.title, job.problem.detail, job.problem.reason && `Reason: ${job.problem.reason}.`].filter(Boolean).join(" ")) : null,
    job.status === "succeeded" ? files(job, path) : null,
    ended ? null : endings(job, path, draw),
    job.result ? el("details", {}, el("summary", {}, "Result"), el("pre", { tabindex: "0" }, JSON.stringify(job.result, null, 2))) : null,
    job.status === "succeeded" && job.kind === "synthesis" ? sampleForm(path, job.label) : null,
  ].filter(Boolean);
}

/** How far a release is. `first`: the state from which its rate is measured, null while it does not run. */
function releaseFacts(job, first) {
  if (!job.metrics) return [];
  const { rows, rows_written: written, rows_unreadable: unreadable } = job.metrics;
  const rate = first && written > first.written && written < rows ? (written - first.written) / (Date.now() - first.ms) : null; // rows per ms
  return [
    ["Rows written", el("span", {}, number(written), " of ", number(rows))],
    ["Rows left out", number(unreadable)],
    ["Rate", rate && el("span", {}, number(Math.round(1000 * rate)), " rows/s")],
    ["Time left, about", rate && duration((rows - written) / rate)],
  ];
}

/** Links to what the job made. The card and the artifact are kept until somebody deletes them. */
function files(job, path) {
  const link = (name, text) => el("a", { href: `${path}/${name}`, download: name === "report" ? null : true, target: name === "report" ? "_blank" : null, rel: "noopener" }, text);
  const [button, card] = cardParts(path);
  const report = ["synthesis", "evaluation"].includes(job.kind) ? link("report", "Report") : null;
  const manifest = job.kind === "release" ? link("manifest", "Download the manifest") : null;
  return el("div", {}, el("div", { class: "actions" }, report, link("artifact", "Download the artifact"), manifest, button), card);
}

/** A button that shows the job's card, and the place for it. */
function cardParts(path) {
  const place = el("pre", { class: "output", tabindex: "0", hidden: true });
  const toggle = async () => {
    if (!place.textContent) place.textContent = await (await send("GET", `${path}/card`)).text();
    place.hidden = !place.hidden;
    button.setAttribute("aria-expanded", String(!place.hidden));
  };
  const button = action("Card", toggle, { "aria-expanded": "false" });
  return [button, place];
}

/** Buttons that pause or resume a job, and that cancel it. */
function endings(job, path, draw) {
  const cancel = async () => {
    if (await confirmed(`Cancel the job ${job.label}? What it has spent stays spent.`, "Cancel the job")) {
      draw(await api("POST", `${path}/cancel`));
    }
  };
  const verb = job.status === "paused" ? "resume" : "pause";
  const other = action(verb === "pause" ? "Pause the job" : "Resume the job", async () => draw(await api("POST", `${path}/${verb}`)));
  return el("div", { class: "actions" }, other, action("Cancel the job", cancel, { class: "danger" }));
}

function sampleForm(path, label) {
  const rows = numberField("rows", "20", { inputmode: "numeric", id: "sample-rows" });
  const format = select("format", [["jsonl", "JSON lines"], ["csv", "CSV"]], "jsonl");
  format.id = "sample-format";
  const ask = el("button", { type: "submit" }, "Draw rows");
  const result = el("div", { "aria-live": "polite" });
  let address = null;
  const work = async () => {
    const answer = await draw(path, typed(rows), "jsonl");
    const lines = (await answer.text()).split("\n").filter(Boolean);
    const shown = lines.slice(0, SHOWN_MAX).map((line) => JSON.parse(line));
    result.replaceChildren(rowTable(shown));
  };
  const save = action("Download rows", async () => {
    const content = await (await draw(path, typed(rows), format.value)).blob();
    if (address) URL.revokeObjectURL(address);
    address = URL.createObjectURL(content);
    el("a", { href: address, download: `${label}.${format.value}` }).click();
  });
  const form = rowForm(() => attempt(ask, work), field("Synthetic rows", rows), ask, field("Format of the file", format), save);
  return el("div", {}, form, result);
}

async function draw(path, rows, format) {
  if (rows === null) throw new Problem(0, { title: "Give the number of rows." });
  return send("POST", `${path}/sample`, { rows, format });
}

function rowTable(rows) {
  const names = rows.length ? Object.keys(rows[0]) : [];
  const columns = names.map((name) => ({ title: name, cell: (row) => String(row[name] ?? ""), key: (row) => row[name] }));
  return table(`Synthetic rows, ${rows.length} shown`, columns, rows);
}
