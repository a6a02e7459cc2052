// Alerts that fired, and for keys with the role `admin` the rules behind them.
import { api, attempt, parameters, remember } from "../api.js";
import { el, field, select, table, time } from "../elements.js";

const PAGE = 50;
const STATUSES = [["", "Open and over"], ["open", "Open"], ["over", "Over"]];

export async function show(main, session) {
  const result = el("div", { "aria-live": "polite" });
  const more = el("button", { type: "button" }, "More alerts");
  const status = select("status", STATUSES, parameters().get("status") || "");
  let rows = [];
  let cursor = null;
  const read = async () => {
    const query = new URLSearchParams({ limit: PAGE });
    if (status.value) query.set("status", status.value);
    if (cursor !== null) query.set("cursor", cursor);
    const page = await api("GET", `/alerts?${query}`);
    rows = rows.concat(page.alerts);
    cursor = page.next_cursor;
    more.hidden = cursor === null;
    result.replaceChildren(rows.length ? alertTable(rows) : el("p", {}, "No alert."));
  };
  const restart = () => {
    rows = [];
    cursor = null;
    return read();
  };
  status.addEventListener("change", () => {
    remember({ status: status.value });
    attempt(status, restart);
  });
  more.addEventListener("click", () => attempt(more, read));
  main.append(el("div", { class: "row" }, field("Status", status)), result, more);
  await restart();
  if (session.roles.includes("admin")) main.append(await rulesPart());
  return restart;
}

function alertTable(rows) {
  return table(
    "Alerts, newest first",
    [
      { title: "Status", cell: (row) => row.status, key: (row) => row.status },
      { title: "Fired", cell: (row) => time(row.fired_ms), key: (row) => row.fired_ms },
      { title: "Over", cell: (row) => time(row.over_ms), key: (row) => row.over_ms },
      { title: "Rule", cell: (row) => el("code", { class: "name" }, row.rule), key: (row) => row.rule },
      { title: "Kind", cell: (row) => words(row.kind), key: (row) => row.kind },
      { title: "Target", cell: (row) => el("code", { class: "name" }, row.target), key: (row) => row.target, wide: true },
      { title: "Facts", cell: (row) => el("span", { class: "long" }, members(row.facts)), wide: true },
    ],
    rows,
  );
}

async function rulesPart() {
  const { rules } = await api("GET", "/alerts/rules");
  if (!rules.length) return el("p", {}, "No rule yet.");
  return table(
    "Rules",
    [
      { title: "Name", cell: (rule) => el("code", { class: "name" }, rule.name), key: (rule) => rule.name },
      { title: "Fires on", cell: (rule) => words(rule.when.kind), key: (rule) => rule.when.kind },
      { title: "Terms", cell: (rule) => el("span", { class: "long" }, members(rule.when, ["kind"])), wide: true },
      { title: "Receivers", cell: (rule) => receivers(rule), wide: true },
      { title: "Last delivery", cell: (rule) => lastDelivery(rule), wide: true },
      { title: "Sample", cell: (rule) => sampleButton(rule) },
    ],
    rules,
  );
}

function sampleButton(rule) {
  if (!rule.webhook && !rule.email.length) return "–";
  const said = el("span", { class: "hint", role: "status" });
  const button = el("button", { type: "button", "aria-label": `Send a sample of ${rule.name}` }, "Send");
  button.addEventListener("click", () =>
    attempt(button, async () => {
      const { results } = await api("POST", `/alerts/rules/${encodeURIComponent(rule.name)}/test`);
      said.textContent = members(results);
    }),
  );
  return el("span", {}, button, said);
}

/** The host of the webhook, whose whole address may be a secret of the receiver, and the recipients. */
function receivers(rule) {
  const host = rule.webhook ? new URL(rule.webhook.url).host : null;
  const all = [host, ...rule.email].filter(Boolean);
  return all.length ? all.map((each) => el("div", {}, each)) : "none";
}

function lastDelivery(rule) {
  const found = Object.entries(rule.last_delivery);
  return found.length ? found.map(([channel, last]) => el("div", {}, `${channel}: ${last.result}, `, time(last.at_ms))) : "–";
}

function words(kind) {
  return kind.replaceAll("_", " ");
}

function members(found, without = []) {
  const text = (value) => (value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
  return Object.entries(found)
    .filter(([name, value]) => value !== null && !without.includes(name))
    .map(([name, value]) => `${words(name)}: ${text(value)}`)
    .join("; ");
}
