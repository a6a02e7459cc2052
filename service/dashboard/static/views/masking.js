// What masking did: requests, refusals and finds by type, by API key and model. Counts only.
import { api, attempt, parameters, remember } from "../api.js";
import { card, el, field, identifier, number, numberColumn, rowForm, select, table, textColumn } from "../elements.js";
import { regularly } from "../parts.js";

const DAYS = [["1", "Today, UTC"], ["7", "7 days"], ["31", "31 days"]];

export async function show(main) {
  const days = select("days", DAYS, parameters().get("days") || "7");
  const result = el("div");
  const read = async () => {
    const { rows } = await api("GET", `/masking/counts?days=${days.value}`);
    if (!result.contains(document.activeElement)) result.replaceChildren(...shown(rows)); // a table in use keeps the focus
  };
  days.addEventListener("change", () => {
    remember({ days: days.value });
    attempt(days, read);
  });
  main.append(rowForm(() => {}, field("Over", days)), result);
  await read();
  regularly(read);
}

function shown(rows) {
  const hint = el("p", { class: "hint" }, "Counts describe your texts and have no privacy guarantee. The gateway shows them to your tenant alone. ",
    "Work with a price is not counted, because the number of its finds depends on private text.");
  if (!rows.length) return [el("p", {}, "Nothing was masked in this time. ", el("a", { href: "/dashboard/playground" }, "Try it in the playground"), "."), hint];
  const types = new Map();
  for (const row of rows) {
    for (const [type, count] of Object.entries(row.finds)) types.set(type, (types.get(type) || 0) + count);
  }
  const sum = (member) => rows.reduce((total, row) => total + row[member], 0);
  const finds = [...types].map(([type, count]) => ({ type, count })).sort((a, b) => b.count - a.count);
  return [
    el(
      "div",
      { class: "cards" },
      card("Requests masked", number(sum("requests"))),
      card("Finds", number(finds.reduce((total, each) => total + each.count, 0)), el("div", { class: "hint" }, `of ${finds.length} types`)),
      card("Requests refused", number(sum("refused")), el("div", { class: "hint" }, "by the policy")),
    ),
    table("Finds by type", [textColumn("Type", (row) => row.type), numberColumn("Finds", (row) => row.count)], finds),
    table(
      "By API key and model",
      [
        { title: "Key", cell: keyOf, key: (row) => row.key_label || row.key_id },
        textColumn("Purpose", (row) => row.purpose || "–"),
        textColumn("Recipient", (row) => row.recipient || "–"),
        textColumn("Model", (row) => row.model || "none"),
        numberColumn("Requests", (row) => row.requests),
        numberColumn("Refused", (row) => row.refused),
        numberColumn("Finds", findsOf),
        { title: "Types", cell: (row) => Object.entries(row.finds).map(([type, count]) => `${type}: ${count}`).join(", ") || "–", wide: true },
      ],
      rows,
    ),
    hint,
  ];
}

function findsOf(row) {
  return Object.values(row.finds).reduce((total, count) => total + count, 0);
}

function keyOf(row) {
  if (row.key_id === null) return "others";
  return row.key_label ? [row.key_label, el("div", { class: "hint" }, identifier(row.key_id))] : identifier(row.key_id);
}
