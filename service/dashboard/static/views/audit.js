// The log of administrative actions, a page at a time.
import { api } from "../api.js";
import { codeColumn, el, numberColumn, table, textColumn, timeColumn } from "../elements.js";
import { given, members, paged, yesNo } from "../parts.js";

const PAGE = 100;

export async function show(main) {
  const result = el("div", { "aria-live": "polite" });
  const page = (cursor) => api("GET", `/admin/audit?limit=${PAGE}&cursor=${cursor || 0}`);
  const list = paged("More entries", "entries", page, (entries) => result.replaceChildren(...shown(entries)));
  main.append(result, list.more);
  await list.restart();
}

/** An action is logged before it is done; an entry that follows says that it failed. */
function outcome(row, failed) {
  const code = failed.get(row.n) ?? (row.action.endsWith(".failed") ? row.details.code : undefined);
  return code === undefined ? "done" : el("span", { class: "bad" }, `failed: ${code}`);
}

function shown(entries) {
  if (!entries.length) return [el("p", {}, "No entry yet.")];
  const failed = new Map(entries.filter((entry) => entry.action.endsWith(".failed")).map((entry) => [entry.details.entry, entry.details.code]));
  const forged = entries.filter((entry) => !entry.genuine).map((entry) => entry.n);
  return [
    forged.length ? el("p", { class: "error" }, `Not written by this gateway: entries ${forged.join(", ")}.`) : "",
    table(
      "Administrative actions, oldest first",
      [
        numberColumn("Number", (row) => row.n),
        timeColumn("Time", (row) => row.at_ms),
        codeColumn("By", (row) => row.by),
        textColumn("Action", (row) => row.action),
        { title: "Outcome", cell: (row) => outcome(row, failed), key: (row) => failed.has(row.n) },
        codeColumn("Target", (row) => row.target, { wide: true }),
        { title: "Details", cell: (row) => el("span", { class: "long" }, members(given(row.details))), wide: true },
        { title: "Genuine", cell: (row) => yesNo(row.genuine), key: (row) => row.genuine },
      ],
      entries,
    ),
    el("p", { class: "hint" }, "Each entry is checked by itself. The command ", el("code", {}, "privacy-gateway ledger export --actions"), " checks that none is missing."),
  ];
}
