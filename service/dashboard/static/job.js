// One job as it runs: its facts, its progress by server-sent events, its files, and a button that cancels it.
import { api, leave, send, showProblem } from "./api.js";
import { bar, confirmed, duration, el, number, time } from "./elements.js";
import { action, amountText, facts } from "./parts.js";
import { sampleForm } from "./samples.js";

const ENDED = ["succeeded", "failed", "cancelled"];

/** Follow a job. `place`: where it is shown; `started`: fulfilled once it is; `changed(job)` is called for each state. */
export function watchedJob(id, changed) {
  const place = el("div", { class: "card job" });
  const path = `/jobs/${encodeURIComponent(id)}`;
  let events = null;
  let last = "";
  const draw = (job) => {
    changed(job);
    const text = JSON.stringify(job);
    if (text === last) return; // what a person uses on it stays
    last = text;
    place.replaceChildren(...shown(job, path, draw));
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

function shown(job, path, draw) {
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
      ...Object.entries(job.metrics || {}).map(([name, value]) => [name, number(value)]),
    ]),
    job.problem ? el("p", { class: "error" }, [job.problem.title, job.problem.detail].filter(Boolean).join(" ")) : null,
    job.status === "succeeded" ? files(job, path) : null,
    ended ? null : cancelButton(job, path, draw),
    job.result ? el("details", {}, el("summary", {}, "Result"), el("pre", { tabindex: "0" }, JSON.stringify(job.result, null, 2))) : null,
    job.status === "succeeded" && job.kind === "synthesis" ? sampleForm(path, job.label) : null,
  ].filter(Boolean);
}

/** Links to what the job made. The card and the artifact are kept until somebody deletes them. */
function files(job, path) {
  const link = (name, text) => el("a", { href: `${path}/${name}`, download: name === "report" ? null : true, target: name === "report" ? "_blank" : null, rel: "noopener" }, text);
  const [button, card] = cardParts(path);
  const report = job.kind === "synthesis" ? link("report", "Report") : null;
  return el("div", {}, el("div", { class: "actions" }, report, link("artifact", "Download the artifact"), button), card);
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

function cancelButton(job, path, draw) {
  const cancel = async () => {
    if (await confirmed(`Cancel the job ${job.label}? What it has spent stays spent.`, "Cancel the job")) {
      draw(await api("POST", `${path}/cancel`));
    }
  };
  return el("div", { class: "actions" }, action("Cancel the job", cancel, { class: "danger" }));
}
