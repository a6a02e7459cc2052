// The entries of an account's journal, filtered, a page at a time, and as a file.
import { accountChoice } from "../accounts.js";
import { accountPath, api, attempt, parameters, remember } from "../api.js";
import { el, field, identifier, number, numberColumn, rowForm, select, table, time, timeColumn } from "../elements.js";
import { paged } from "../parts.js";

const PAGE = 50;
const STEPS = ["", "open", "limit", "reserve", "commit", "cancel", "expire"].map((step) => [step, step || "every step"]);
const ORDERS = [["newest", "Newest first"], ["oldest", "Oldest first"]];
const NARROW = "(max-width: 700px)";

export async function show(main) {
  const none = "This tenant has no account yet, so it has no journal.";
  const choice = await accountChoice(main, () => attempt(ask, list.restart), { none });
  if (!choice) return undefined;
  const result = el("div");
  const files = el("p", {});
  const ask = el("button", { type: "submit" }, "Show");
  const inputs = filterInputs();
  const page = (cursor) => api("GET", accountPath(choice.account.account, `/journal?${wanted(inputs)}&limit=${PAGE}&cursor=${cursor || 0}`));
  const list = paged("More entries", "entries", page, (entries, { next_cursor }) => {
    const { account } = choice;
    const query = wanted(inputs);
    files.replaceChildren("Download these entries as ", file(account, query, "csv", "CSV"), " or ", file(account, query, "jsonl", "JSON lines"), ".");
    result.replaceChildren(shown(account, entries, inputs.order.value, next_cursor !== null));
  });
  const form = rowForm(
    () => {
      rememberInputs(inputs);
      attempt(ask, list.restart);
    },
    choice.place,
    field("Order", inputs.order),
    field("Step", inputs.transition),
    field("From", inputs.from),
    field("To", inputs.to),
    field("Mechanism", inputs.mechanism),
    field("Route", inputs.route),
    field("API key", inputs.key_id),
    field("Subject", inputs.subject),
    ask,
  );
  const open = !matchMedia(NARROW).matches || wanted(inputs).size > 1;
  main.append(el("details", { open }, el("summary", {}, "Filters"), form), files, result, list.more);
  await list.restart();
  return async () => {
    if (list.pages === 1) await list.restart(); // a person who reads older pages keeps them
  };
}

/** The inputs by the names of the API's parameters, with the values of the address. */
function filterInputs() {
  const kept = parameters();
  const text = (name, size) => el("input", { name, value: kept.get(name) || "", size, spellcheck: "false", autocomplete: "off" });
  const moment = (name) => el("input", { name, type: "datetime-local", step: 1, value: local(kept.get(name)) });
  return {
    order: select("order", ORDERS, kept.get("order") || "newest"),
    transition: select("transition", STEPS, kept.get("transition") || ""),
    from: moment("from"),
    to: moment("to"),
    mechanism: text("mechanism", 14),
    route: text("route", 12),
    key_id: text("key_id", 17),
    subject: text("subject", 17),
  };
}

/** Milliseconds as the value of an input of local time. */
function local(ms) {
  if (!ms || !/^[0-9]{1,15}$/.test(ms)) return "";
  const at = new Date(Number(ms));
  return new Date(at - at.getTimezoneOffset() * 60e3).toISOString().slice(0, 19);
}

function valueOf(input) {
  const value = input.value.trim();
  return input.type === "datetime-local" && value ? String(new Date(value).getTime()) : value;
}

function wanted(inputs) {
  const query = new URLSearchParams();
  for (const [name, input] of Object.entries(inputs)) {
    const value = name === "route" ? valueOf(input).replace(/^\//, "") : valueOf(input);
    if (value) query.set(name, value);
  }
  return query;
}

function rememberInputs(inputs) {
  const values = {};
  for (const [name, input] of Object.entries(inputs)) values[name] = valueOf(input);
  if (values.order === "newest") values.order = "";
  remember(values);
}

function file(account, query, format, name) {
  const href = accountPath(account.account, `/journal/export?${query}&format=${format}`);
  return el("a", { href, download: `journal.${format}` }, name);
}

function shown(account, entries, order, isCut) {
  if (!entries.length) return el("p", {}, isCut ? "No such entry in the part that was read." : "No such entry.");
  return table(
    `Journal of ${account.account}, ${order} first`,
    [
      numberColumn("Number", (row) => row.seq),
      timeColumn("Time", (row) => row.at_ms),
      { title: "Step", cell: (row) => [row.transition, row.reason ? el("div", { class: "hint" }, row.reason) : null], key: (row) => row.transition },
      { title: "Mechanism", cell: (row) => [row.mechanism || "–", row.route ? el("div", { class: "hint mono" }, `/${row.route}`) : null], key: (row) => row.mechanism },
      numberColumn("Epsilon", (row) => row.amount.epsilon),
      numberColumn("Delta", (row) => row.amount.delta),
      { title: "Key", cell: keyOf, key: (row) => row.key_label || row.key_id },
      { title: "Release", cell: (row) => identifier(row.release_id) },
      { title: "In the hash chain", cell: place },
    ],
    entries,
  );
}

/** The key by its label, with what its releases are for and who receives them. */
function keyOf(row) {
  const words = [row.purpose, row.recipient && `for ${row.recipient}`].filter(Boolean).join(", ");
  return [row.key_label ? el("div", {}, row.key_label) : null, identifier(row.key_id), words ? el("div", { class: "hint" }, words) : null];
}

/** The seal that covers an entry, and the entry's own digest in it. */
function place(row) {
  const unknown = el("span", { class: "hint", title: "Not sealed yet" }, "no known seal");
  const seal = row.seal === null ? unknown : ["seal ", number(row.seal)];
  return [seal, el("div", {}, identifier(row.sha256))];
}
