// Alerts that fired, and for the operator and keys with the role `admin` the rules behind them.
import { members, rulePanel, titleOf } from "../alert_rules.js";
import { api, attempt, parameters, remember } from "../api.js";
import { el, field, select, table, time } from "../elements.js";
import { regularly } from "../parts.js";

const PAGE = 50;
const RULES_EACH = 4; // times that alerts are read, until rules are read again although no alert has changed
const STATUSES = [["", "Open and over"], ["open", "Open"], ["over", "Over"]];

export async function show(main, session) {
  const path = session.operator ? "/admin/alerts" : "/alerts";
  const result = el("div", { "aria-live": "polite" });
  const more = el("button", { type: "button" }, "More alerts");
  const status = select("status", STATUSES, parameters().get("status") || "");
  let [rows, count, cursor] = [[], 0, null];
  let [seen, times] = ["", 0];
  const read = async (isFirst) => {
    const query = new URLSearchParams({ limit: PAGE });
    if (status.value) query.set("status", status.value);
    if (!isFirst) query.set("cursor", cursor);
    const page = await api("GET", `${path}?${query}`);
    rows = isFirst ? page.alerts : rows.concat(page.alerts);
    count = isFirst ? 1 : count + 1;
    cursor = page.next_cursor;
    more.hidden = cursor === null;
    result.replaceChildren(rows.length ? alertTable(rows, session.operator) : el("p", {}, "No alert."));
  };
  const restart = () => read(true);
  status.addEventListener("change", () => {
    remember({ status: status.value });
    attempt(status, restart);
  });
  more.addEventListener("click", () => attempt(more, () => read(false)));
  const panel = session.operator || session.roles.includes("admin") ? rulePanel(path, session.operator) : null;
  main.append(el("div", { class: "fields" }, field("Status", status)), result, more, panel ? panel.place : "");
  await Promise.all([restart(), panel && panel.read()]);
  const refresh = async () => {
    if (count === 1 && !result.contains(document.activeElement)) await restart(); // a person who reads older pages keeps them
    const state = rows.map((row) => `${row.id} ${row.status}`).join();
    times += 1;
    if (panel && (state !== seen || times % RULES_EACH === 0)) await panel.refresh();
    seen = state;
  };
  regularly(refresh);
  return refresh;
}

function alertTable(rows, operator) {
  const columns = [
    { title: "Status", cell: (row) => row.status, key: (row) => row.status },
    { title: "Fired", cell: (row) => time(row.fired_ms), key: (row) => row.fired_ms },
    { title: "Over", cell: (row) => time(row.over_ms), key: (row) => row.over_ms },
    { title: "Rule", cell: (row) => el("code", {}, row.rule), key: (row) => row.rule },
    { title: "Fires on", cell: (row) => titleOf(row.kind), key: (row) => titleOf(row.kind) },
    ...(operator ? [{ title: "Tenant", cell: (row) => el("code", {}, row.tenant), key: (row) => row.tenant }] : []),
    { title: "Target", cell: (row) => el("code", {}, row.target), key: (row) => row.target, wide: true },
    { title: "Facts", cell: (row) => el("span", { class: "long" }, members(row.facts)), wide: true },
  ];
  return table("Alerts, newest first", columns, rows);
}
