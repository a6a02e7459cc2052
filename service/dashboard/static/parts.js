// Parts that several views share: facts about one thing, buttons that copy, numbers that a person types.
import { attempt } from "./api.js";
import { el, field } from "./elements.js";

const REGULARLY_MS = 15000;

/** Names with their values, one below the other. Rows without a value are left out. */
export function facts(rows) {
  const shown = rows.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "facts" }, shown.map(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

/** A button that does some work. */
export function action(text, work, attributes = {}) {
  const button = el("button", { type: "button", ...attributes }, text);
  button.addEventListener("click", () => attempt(button, work));
  return button;
}

/**
 * A list that comes page by page, and a button for the next page. `ask(cursor)` gives a page, the first one for null;
 * `show(rows, page)` shows what was read; `restart()` reads the first page again. `pages`: how many were read; `page`: the last one.
 */
export function paged(title, member, ask, show) {
  let cursor = null;
  const list = { rows: [], pages: 0 };
  const read = async (isFirst) => {
    const page = await ask(isFirst ? null : cursor);
    list.rows = isFirst ? page[member] : list.rows.concat(page[member]);
    list.pages = isFirst ? 1 : list.pages + 1;
    cursor = page.next_cursor;
    list.page = page;
    list.more.hidden = cursor === null;
    show(list.rows, page);
  };
  list.more = action(title, () => read(false));
  list.restart = () => read(true);
  return list;
}

/** Repeat work while the page is seen: for what no event announces. The next time repeats what has failed. */
export function regularly(work, every_ms = REGULARLY_MS) {
  setInterval(() => document.hidden || work().catch(() => {}), every_ms);
}

/** Links to a statement for an auditor at this address, of the days that two fields name. */
export function statementLinks(address) {
  const day = (ms) => new Date(ms).toISOString().slice(0, 10);
  const date = (id, ms) => el("input", { type: "date", id, value: day(ms) });
  const from = date("statement-from", Date.now() - 29 * 86400e3);
  const to = date("statement-to", Date.now());
  const links = [["html", "Statement to print"], ["csv", "as CSV"], ["json", "as signed JSON"]].map(([form, title]) => [form, el("a", {}, title)]);
  const fill = () => links.forEach(([form, link]) => {
    const query = { format: form, from: from.valueAsNumber || 0, to: (to.valueAsNumber || Date.now()) + 86400e3 };
    link.setAttribute("href", `${address}?${new URLSearchParams(query)}`);
  });
  from.addEventListener("change", fill);
  to.addEventListener("change", fill);
  fill();
  return el("div", { class: "fields" }, field("From (UTC)", from), field("To (UTC)", to), el("p", { class: "copy" }, links.map(([, link]) => link)));
}

/** A button that copies a text, which stays readable where the browser refuses. */
export function copyButton(text, label = "Copy") {
  const button = el("button", { type: "button" }, label);
  const said = el("span", { class: "hint", role: "status" });
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      said.textContent = "Copied.";
    } catch {
      said.textContent = "The browser does not allow it: select the text and copy it.";
    }
  });
  return el("span", { class: "copy" }, button, said);
}

/** The number in a field; null for an empty one. Throws for what is no number. */
export function typed(input) {
  const text = input.value.trim();
  if (text === "") return null;
  const value = Number(text);
  if (!Number.isFinite(value)) throw new Error(`${input.name} must be a number.`);
  return value;
}

/** A field for a number. */
export function numberField(name, value, attributes = {}) {
  return el("input", { name, value, inputmode: "decimal", size: 10, autocomplete: "off", ...attributes });
}

/** Put other options into a choice, and keep what was chosen where it is among them. */
export function setOptions(choice, options, wanted = choice.value) {
  choice.replaceChildren(...options.map(([value, text]) => el("option", { value, selected: value === wanted }, text)));
}

/** An object without the members that hold nothing. */
export function given(members) {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== null && value !== undefined && value !== ""));
}

/** Yes or no, where neither is good or bad. */
export function flag(value) {
  return value ? "yes" : "no";
}

/** Yes or no, where yes is good. */
export function yesNo(value) {
  return el("span", { class: value ? "good" : "bad" }, value ? "yes" : "no");
}

/** An amount of epsilon with its delta, as a short text; exact values are in tables. */
export function amountText(amount) {
  const epsilon = amount.epsilon.toLocaleString(undefined, { maximumSignificantDigits: 6 });
  return amount.delta ? `epsilon ${epsilon}, delta ${amount.delta}` : `epsilon ${epsilon}`;
}

/** The members of an object that have a value, as a text. */
export function members(found, without = []) {
  const text = (value) => (Array.isArray(value) ? value.join(", ") : value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
  return Object.entries(found)
    .filter(([name, value]) => value !== null && !without.includes(name))
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${text(value)}`)
    .join("; ");
}
