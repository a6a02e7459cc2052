// The log of administrative actions, a page at a time.
import { api, attempt } from "../api.js";
import { el, number, table, time } from "../elements.js";
import { yesNo } from "../parts.js";

const PAGE = 100;

export async function show(main) {
  const result = el("div", { "aria-live": "polite" });
  const more = el("button", { type: "button" }, "More entries");
  let entries = [];
  let cursor = 0;
  const read = async () => {
    const page = await api("GET", `/admin/audit?limit=${PAGE}&cursor=${cursor}`);
    entries = entries.concat(page.entries);
    cursor = page.next_cursor;
    more.hidden = cursor === null;
    result.replaceChildren(...shown(entries));
  };
  more.addEventListener("click", () => attempt(more, read));
  main.append(result, more);
  await read();
}

function shown(entries) {
  if (!entries.length) return [el("p", {}, "No entry yet.")];
  const forged = entries.filter((entry) => !entry.genuine).map((entry) => entry.n);
  return [
    forged.length ? el("p", { class: "error" }, `Not written by this gateway: entries ${forged.join(", ")}.`) : "",
    table(
      "Administrative actions, oldest first",
      [
        { title: "Number", cell: (row) => number(row.n), key: (row) => row.n, number: true },
        { title: "Time", cell: (row) => time(row.at_ms), key: (row) => row.at_ms },
        { title: "By", cell: (row) => el("code", {}, row.by), key: (row) => row.by },
        { title: "Action", cell: (row) => row.action, key: (row) => row.action },
        { title: "Target", cell: (row) => el("code", {}, row.target), key: (row) => row.target, wide: true },
        { title: "Details", cell: (row) => el("span", { class: "long" }, details(row.details)), wide: true },
        { title: "Genuine", cell: (row) => yesNo(row.genuine), key: (row) => row.genuine },
      ],
      entries,
    ),
    el("p", { class: "hint" }, "Each entry is checked by itself. The command ", el("code", {}, "privacy-gateway audit verify"), " checks that none is missing."),
  ];
}

function details(found) {
  const text = (value) => (Array.isArray(value) ? value.join(", ") : typeof value === "object" ? JSON.stringify(value) : String(value));
  return Object.entries(found)
    .filter(([, value]) => value !== null && value !== "")
    .map(([name, value]) => `${name}: ${text(value)}`)
    .join("; ");
}
