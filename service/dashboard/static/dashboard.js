// Starts a view: finds the session, imports the view's script and shows its problems.
// A view whose `show` returns a function is refreshed by it whenever the tenant's budget has changed.
import { api, attempt, leave, showProblem, startSession } from "./api.js";
import { regularly } from "./parts.js";

const ALIVE_MS = 5000;

/**
 * `known`: the number of the last journal entry before the view read anything. A page that nobody sees has no stream,
 * because browsers open at most six connections to a server. It catches up when it is seen again.
 */
function follow(refresh, known) {
  let events = null;
  const open = () => {
    events = new EventSource("/budget/events");
    events.addEventListener("budget", async (event) => {
      const last = JSON.parse(event.data).last_entry;
      if (last === known) return;
      known = last;
      await refresh().catch(showProblem);
    });
    events.addEventListener("problem", (event) => {
      if (JSON.parse(event.data).status === 401) leave(); // else the browser connects again
    });
  };
  const fit = () => {
    if (events) events.close();
    events = null;
    if (!document.hidden) open();
  };
  document.addEventListener("visibilitychange", fit);
  fit();
}

/** Say whether the figures are of now: ask for the session regularly, and read the view again after an outage. */
function watchOutages(refresh) {
  const [live, outage] = [document.getElementById("live"), document.getElementById("outage")];
  let seen = new Date();
  const check = async () => {
    try {
      await api("GET", "/dashboard/session");
      if (!outage.hidden) refresh().catch(showProblem);
      seen = new Date();
      outage.hidden = true;
      live.textContent = `Live, ${seen.toLocaleTimeString()}`;
    } catch (error) {
      live.textContent = "Not live";
      const text = `Not live since ${seen.toLocaleTimeString()}: ${error.message} The figures are of that time. This page tries again by itself.`;
      if (outage.textContent !== text || outage.hidden) outage.textContent = text; // else it would be read aloud again
      outage.hidden = false;
    }
  };
  check();
  regularly(check, ALIVE_MS);
}

const signOut = document.getElementById("sign-out");
signOut.addEventListener("click", () =>
  attempt(signOut, async () => {
    await api("POST", "/dashboard/session/end");
    leave();
  }),
);

// On a phone the views are a row that scrolls. `scrollIntoView` would also move the place where Tab begins.
const current = document.querySelector("nav [aria-current]");
if (current) {
  const row = current.closest("nav");
  row.scrollLeft = current.offsetLeft - row.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
}

/** How many alerts are open, beside the link to them. */
async function countAlerts(session) {
  const link = document.querySelector('nav a[href="/dashboard/alerts"]');
  if (!link) return;
  const { alerts } = await api("GET", `${session.operator ? "/admin" : ""}/alerts?status=open&limit=100`);
  link.querySelector(".badge")?.remove();
  if (!alerts.length) return;
  const badge = document.createElement("span");
  badge.className = "badge";
  badge.textContent = `${alerts.length} open`;
  link.append(" ", badge);
}

const place = document.getElementById("view");
try {
  const [session, view] = await Promise.all([startSession(), place && import(`./views/${place.dataset.view}.js`)]);
  if (place) {
    const content = document.createElement("div");
    const refresh = await view.show(content, session);
    place.replaceChildren(content);
    const again = async () => {
      await Promise.all([refresh && refresh(), countAlerts(session)]);
    };
    if (session.tenant !== null) follow(again, session.last_entry);
    watchOutages(again);
    await countAlerts(session);
  }
} catch (error) {
  if (place) place.replaceChildren();
  showProblem(error);
}
if (place) place.setAttribute("aria-busy", "false");
