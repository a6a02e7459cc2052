// Who spent how much over time: stacked bars, and tables of the same figures.
import { accountChoice } from "../accounts.js";
import { accountPath, api, attempt, parameters, remember } from "../api.js";
import { COLOURS, stacked } from "../chart.js";
import { el, exact, field, identifier, numberColumn, rowForm, select, table, textColumn, time, timeColumn } from "../elements.js";
import { given, paged } from "../parts.js";

const BY = [["mechanism", "Mechanism"], ["subject", "Subject"], ["route", "Route"], ["key", "API key"]];
const BUCKETS = [["day", "Days, of 4 weeks"], ["hour", "Hours, of 2 days"]];
const SHOWN = COLOURS - 1; // the last colour is for all others
const LIMIT = 32;

export async function show(main) {
  const choice = await accountChoice(main, () => attempt(list.more, list.restart));
  if (!choice) return undefined;
  const result = el("div");
  const by = select("by", BY, chosen("by", BY));
  const bucket = select("bucket", BUCKETS, chosen("bucket", BUCKETS));
  const filter = el("input", { name: "filter", type: "search", value: parameters().get("filter") || "", size: 14 });
  const draw = () => {
    const words = filter.value.trim().toLowerCase();
    const asked = list.page.by;
    const kept = list.rows.map((row) => named(row, asked)).filter((row) => row.name.toLowerCase().includes(words));
    result.replaceChildren(...shown(choice.account, list.page, kept, asked));
  };
  const page = (cursor) => {
    const query = new URLSearchParams(given({ by: by.value, bucket: bucket.value, limit: LIMIT, cursor }));
    return api("GET", accountPath(choice.account.account, `/spending?${query}`));
  };
  const list = paged("More rows", "rows", page, draw);
  const changed = () => {
    remember({ by: by.value, bucket: bucket.value });
    attempt(list.more, list.restart);
  };
  by.addEventListener("change", changed);
  bucket.addEventListener("change", changed);
  filter.addEventListener("input", () => {
    remember({ filter: filter.value.trim() });
    draw();
  });
  const form = rowForm(
    () => {},
    choice.place,
    field("By", by),
    field("Over", bucket),
    field("Filter", filter),
  );
  main.append(form, result, list.more);
  await list.restart();
  return list.restart;
}

function lower(title) {
  return title === "API key" ? title : title.toLowerCase();
}

function chosen(name, options) {
  const wanted = parameters().get(name);
  return options.some(([value]) => value === wanted) ? wanted : options[0][0];
}

/** A row with the name that is shown, and its sums in the range. */
function named(row, by) {
  const value = row[by];
  const sum = (member) => exact(row.buckets.reduce((total, each) => total + each[member], 0));
  const name = value === null ? "not recorded" : by === "subject" ? value.split("/").pop() : by === "route" ? `/${value}` : row.key_label || value;
  return { ...row, name, range: { epsilon: sum("epsilon"), releases: sum("releases") } };
}

function shown(account, page, rows, by) {
  if (!rows.length) return [el("p", {}, "Nothing was spent that fits.")];
  const groups = grouped(rows);
  const step_ms = page.bucket_s * 1000;
  const times = [];
  for (let at = page.from_ms; at < page.to_ms; at += step_ms) times.push(at);
  const stacks = groups.map((group) => ({ name: group.name, values: times.map((at) => valueAt(group.rows, at)) }));
  const title = BY.find(([value]) => value === by)[1];
  const parts = [];
  if (rows.some((row) => row.complete === false) || page.complete === false) {
    parts.push(el("p", { class: "notice" }, "Some subjects have more entries than one answer reads, so their bars are incomplete."));
  }
  parts.push(
    stacked(`Epsilon of ${account.account} spent over time by ${lower(title)}; the tables have the figures`, times, stacks, (value) =>
      value.toLocaleString(),
    ),
    byRow(account, rows, title, by),
    byTime(times, stacks),
    el("p", { class: "hint" }, "Spending is the sum of what was committed or expired. Counted up to ", time(page.as_of_ms), "."),
  );
  return parts;
}

/** The first rows by themselves and the rest together. */
function grouped(rows) {
  const groups = rows.slice(0, SHOWN).map((row) => ({ name: row.name, rows: [row] }));
  const others = rows.slice(SHOWN);
  if (others.length) groups.push({ name: others.length === 1 ? others[0].name : `${others.length} others`, rows: others });
  return groups;
}

function valueAt(rows, at) {
  let sum = 0;
  for (const row of rows) sum += row.buckets.find((each) => each.at_ms === at)?.epsilon || 0;
  return exact(sum);
}

function byRow(account, rows, title, by) {
  return table(
    `Epsilon of ${account.account} by ${lower(title)}`,
    [
      { title, cell: (row) => label(row, by), key: (row) => row.name },
      ...(by === "key" ? [textColumn("Purpose", (row) => row.purpose || "–"), textColumn("Recipient", (row) => row.recipient || "–")] : []),
      numberColumn("In this time", (row) => row.range.epsilon),
      numberColumn("Releases in this time", (row) => row.range.releases),
      numberColumn(account.subject_hash ? "Of these" : "In all", (row) => row.total.epsilon),
      numberColumn("Releases in all", (row) => row.total.releases),
    ],
    rows,
  );
}

function label(row, by) {
  if (by === "subject") {
    const href = `/dashboard/journal?account=${encodeURIComponent(row.subject)}`;
    return el("a", { href, title: row.subject }, el("code", {}, row.name));
  }
  if (by === "key" && row.key_label) return [row.key_label, el("div", { class: "hint" }, identifier(row.key))];
  return by === "mechanism" ? row.name : el("code", {}, row.name);
}

function byTime(times, stacks) {
  const rows = times.map((at, index) => ({ at_ms: at, values: stacks.map((each) => each.values[index]) }));
  const spent = rows.filter((row) => row.values.some((value) => value > 0)).reverse();
  const columns = [timeColumn("From", (row) => row.at_ms)];
  stacks.forEach((each, index) => {
    columns.push(numberColumn(each.name, (row) => row.values[index]));
  });
  return el("details", {}, el("summary", {}, "Figures of the chart"), table("Epsilon spent in each step of time", columns, spent));
}
