// Calls of the REST API with the session's cookie, and the problems that they answer.

let session = null;

/** A problem document of the gateway. */
export class Problem extends Error {
  constructor(status, content) {
    super(content.detail || content.title || `The gateway answered ${status}.`);
    this.status = status;
    this.code = content.code || "";
    this.content = content;
  }
}

export async function startSession() {
  session = await api("GET", "/dashboard/session");
  return session;
}

/** Show the page to sign in, at the same address. */
export function leave() {
  location.reload();
}

/** The parsed answer of a call; `body` is sent as JSON. Throws a Problem. A session that has ended leaves the page. */
export async function api(method, path, body) {
  const answer = await send(method, path, body);
  if (answer.status === 204) return null;
  return answer.json();
}

/** As `api`, with the answer not yet read. */
export async function send(method, path, body) {
  const headers = { Accept: "application/json" };
  if (session) headers["X-Form-Token"] = session.form_token;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      credentials: "same-origin",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new Problem(0, { title: "The gateway does not answer." });
  }
  if (answer.ok) return answer;
  if (answer.status === 401) leave();
  let content = {};
  try {
    content = await answer.json();
  } catch {
    // an answer of a proxy in between
  }
  throw new Problem(answer.status, content);
}

/** All rows of a paged answer, up to `most`. */
export async function pages(path, member, most = 10000) {
  const rows = [];
  let cursor = null;
  do {
    const separator = path.includes("?") ? "&" : "?";
    const page = await api("GET", cursor === null ? path : `${path}${separator}cursor=${encodeURIComponent(cursor)}`);
    rows.push(...page[member]);
    cursor = page.next_cursor;
  } while (cursor !== null && cursor !== undefined && rows.length < most);
  return rows;
}

export function showProblem(error) {
  const place = document.getElementById("problem");
  if (!place) return;
  const errors = error instanceof Problem && error.content.errors ? error.content.errors : [];
  const details = errors.map((each) => `${each.field}: ${each.message ?? each.kind}`).join("; ");
  place.textContent = details ? `${error.message} ${details}` : error.message;
  place.hidden = false;
}

function hideProblem() {
  const place = document.getElementById("problem");
  if (place) place.hidden = true;
}

/** Run what a person asked for; a problem is shown, and the button is off meanwhile. */
export async function attempt(button, work) {
  hideProblem();
  const isFocused = document.activeElement === button;
  button.disabled = true;
  try {
    return await work();
  } catch (error) {
    showProblem(error);
    document.getElementById("problem")?.scrollIntoView({ block: "nearest" }); // the button may be far below it
    return undefined;
  } finally {
    button.disabled = false;
    if (isFocused && document.activeElement === document.body) button.focus(); // disabling took the focus away
  }
}

/** The path of an account's query; ids hold slashes, which stay. */
export function accountPath(account, query = "") {
  return `/budget/${account.split("/").map(encodeURIComponent).join("/")}${query}`;
}

/** The parameters of the page's address. */
export function parameters() {
  return new URLSearchParams(location.search);
}

/** Change parameters of the address, so that it can be kept and sent. */
export function remember(values) {
  const found = parameters();
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === undefined || value === "") found.delete(name);
    else found.set(name, value);
  }
  const query = found.toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
}
