// The jobs, newest first, and one of them as it runs.
import { api, parameters, remember } from "../api.js";
import { el, number, table, time } from "../elements.js";
import { watchedJob } from "../job.js";
import { amountText, given, paged } from "../parts.js";

const PAGE = 50;
const AGAIN_MS = 5000;
const ENDED = ["succeeded", "failed", "cancelled"];

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
      { title: "Kind", cell: (job) => job.kind, key: (job) => job.kind },
      { title: "Status", cell: (job) => job.status, key: (job) => job.status },
      { title: "Progress", cell: (job) => percent(job), key: (job) => job.progress, number: true },
      { title: "Spent", cell: (job) => spent(job), key: (job) => job.spent.epsilon },
      { title: "Attempts", cell: (job) => number(job.attempts), key: (job) => job.attempts, number: true },
      { title: "Created", cell: (job) => time(job.created_ms), key: (job) => job.created_ms },
      { title: "Ended", cell: (job) => time(job.ended_ms), key: (job) => job.ended_ms },
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
