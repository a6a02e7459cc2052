// Starts a view: finds the session, imports the view's script and shows its problems.
import { api, leave, showProblem, startSession } from "./api.js";

document.getElementById("sign-out").addEventListener("click", async () => {
  await api("POST", "/dashboard/session/end");
  leave();
});

// On a narrow screen the views are one row that scrolls.
document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

const place = document.getElementById("view");
try {
  const session = await startSession();
  if (place) {
    const view = await import(`./views/${place.dataset.view}.js`);
    const content = document.createElement("div");
    await view.show(content, session);
    place.replaceChildren(content);
  }
} catch (error) {
  if (place) place.replaceChildren();
  showProblem(error);
}
if (place) place.setAttribute("aria-busy", "false");
