// Exchanges an API key for a session. The key is not kept.
const form = document.getElementById("sign-in");
const refused = document.getElementById("refused");

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  refused.hidden = true;
  const field = form.elements.key;
  const key = field.value.trim();
  field.value = "";
  let message = "The gateway does not answer.";
  try {
    if (/^[\x21-\x7e]+$/.test(key)) {
      const headers = { Authorization: `Bearer ${key}` };
      const answer = await fetch("/dashboard/session", { method: "POST", headers, credentials: "same-origin" });
      if (answer.ok) {
        location.reload();
        return;
      }
      const problem = await answer.json();
      message = { 401: "This key is not valid.", 429: "Too many attempts. Wait a minute." }[answer.status] || problem.title;
    } else {
      message = "This key is not valid.";
    }
  } catch {
    // the message above
  }
  refused.textContent = message;
  refused.hidden = false;
  field.focus();
});
