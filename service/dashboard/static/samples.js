// Synthetic rows of a job: a few on the page, or a file. They cost nothing.
import { attempt, Problem, send } from "./api.js";
import { el, field, rowForm, select, table } from "./elements.js";
import { action, numberField, typed } from "./parts.js";

const SHOWN_MAX = 100;

export function sampleForm(path, label) {
  const rows = numberField("rows", "20", { inputmode: "numeric", id: "sample-rows" });
  const format = select("format", [["jsonl", "JSON lines"], ["csv", "CSV"]], "jsonl");
  format.id = "sample-format";
  const ask = el("button", { type: "submit" }, "Draw rows");
  const result = el("div", { "aria-live": "polite" });
  let address = null;
  const work = async () => {
    const answer = await draw(path, typed(rows), "jsonl");
    const lines = (await answer.text()).split("\n").filter(Boolean);
    const shown = lines.slice(0, SHOWN_MAX).map((line) => JSON.parse(line));
    result.replaceChildren(rowTable(shown));
  };
  const save = action("Download rows", async () => {
    const content = await (await draw(path, typed(rows), format.value)).blob();
    if (address) URL.revokeObjectURL(address);
    address = URL.createObjectURL(content);
    el("a", { href: address, download: `${label}.${format.value}` }).click();
  });
  const form = rowForm(() => attempt(ask, work), field("Synthetic rows", rows), ask, field("Format of the file", format), save);
  return el("div", {}, form, result);
}

async function draw(path, rows, format) {
  if (rows === null) throw new Problem(0, { title: "Give the number of rows." });
  return send("POST", `${path}/sample`, { rows, format });
}

function rowTable(rows) {
  const names = rows.length ? Object.keys(rows[0]) : [];
  const columns = names.map((name) => ({ title: name, cell: (row) => String(row[name] ?? ""), key: (row) => row[name] }));
  return table(`Synthetic rows, ${rows.length} shown`, columns, rows);
}
