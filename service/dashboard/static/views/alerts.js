// Alerts that fired, and for the operator and keys with the role `admin` the rules behind them.
import { members, rulePanel, titleOf } from "../alert_rules.js";
import { api, attempt, parameters, remember } from "../api.js";
import { el, field, select, table, time } from "../elements.js";
import { given, paged, regularly } from "../parts.js";

const PAGE = 50;
const RULES_EACH = 4; // times that alerts are read, until rules are read again although no alert has changed
const STATUSES = [["", "Open and over"], ["open", "Open"], ["over", "Over"]];

export async function show(main, session) {
  const path = session.operator ? "/admin/alerts" : "/alerts";
  const result = el("div", { "aria-live": "polite" });
  const status = select("status", STATUSES, parameters().get("status") || "");
  let [seen, times] = ["", 0];
  const page = (cursor) => api("GET", `${path}?${new URLSearchParams(given({ limit: PAGE, status: status.value, cursor }))}`);
  const list = paged("More alerts", "alerts", page, (rows) =>
    result.replaceChildren(rows.length ? alertTable(rows, session.operator) : el("p", {}, "No alert.")),
  );
  status.addEventListener("change", () => {
    remember({ status: status.value });
    attempt(status, list.restart);
  });
  const panel = session.operator || session.roles.includes("admin") ? rulePanel(path, session.operator) : null;
  main.append(el("div", { class: "fields" }, field("Status", status)), result, list.more, panel ? panel.place : "");
  await Promise.all([list.restart(), panel && panel.read()]);
  const refresh = async () => {
    if (list.pages === 1 && !result.contains(document.activeElement)) await list.restart(); // a person who reads older pages keeps them
    const state = list.rows.map((row) => `${row.id} ${row.status}`).join();
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
