// Starts a view: finds the session, imports the view's script and shows its problems.
// A view whose `show` returns a function is refreshed by it whenever the tenant's budget has changed.
import { api, leave, showProblem, startSession } from "./api.js";

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
    events.addEventListener("error", () => {
      if (events.readyState === EventSource.CLOSED) api("GET", "/dashboard/session").catch(showProblem);
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

document.getElementById("sign-out").addEventListener("click", async () => {
  await api("POST", "/dashboard/session/end");
  leave();
});

// On a phone the views are a row that scrolls. `scrollIntoView` would also move the place where Tab begins.
const current = document.querySelector("nav [aria-current]");
if (current) {
  const row = current.closest("nav");
  row.scrollLeft = current.offsetLeft - row.offsetLeft - (row.clientWidth - current.offsetWidth) / 2;
}

const place = document.getElementById("view");
try {
  const [session, view] = await Promise.all([startSession(), place && import(`./views/${place.dataset.view}.js`)]);
  if (place) {
    const content = document.createElement("div");
    const refresh = await view.show(content, session);
    place.replaceChildren(content);
    if (session.tenant !== null) follow(refresh || (async () => {}), session.last_entry);
  }
} catch (error) {
  if (place) place.replaceChildren();
  showProblem(error);
}
if (place) place.setAttribute("aria-busy", "false");
