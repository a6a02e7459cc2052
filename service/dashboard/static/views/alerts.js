// Alerts that fired, and for the operator and keys with the role `admin` the rules behind them: a list with their state,
// and a form that stores one.
import { api, attempt, pages, parameters, remember } from "../api.js";
import { checks, codeColumn, confirmed, el, field, select, table, textColumn, time, timeColumn } from "../elements.js";
import { action, copyButton, given, members, numberField, paged, regularly, typed } from "../parts.js";

const PAGE = 50;
const RULES_EACH = 4; // times that alerts are read, until rules are read again although no alert has changed
const STATUSES = [["", "Open and over"], ["open", "Open"], ["over", "Over"]];
const OPEN_MAX = 1000;
const OVER_MAX = 50;
const CASES = [["earliest", "Earliest (5 %)"], ["middle", "Middle"], ["latest", "Latest (95 %)"]];
const ENDS = ["succeeded", "failed", "cancelled"];
const OWN_ACCOUNTS = "the tenant's own";

/** Name to title, what it says, and its fields: what the API calls `when`. */
const KINDS = {
  budget_used: {
    title: "Budget used",
    says: "An account has spent this share of its budget.",
    fields: () => [amount("share", "Share, above 0 and at most 1", "0.8"), words("accounts", "Accounts", OWN_ACCOUNTS)],
  },
  forecast: {
    title: "Forecast",
    says: "The forecast says that an account runs out within so many days, or it has run out.",
    fields: () => [amount("days", "Days", "7"), choice("case", "Case", CASES, "middle"), words("accounts", "Accounts", OWN_ACCOUNTS)],
  },
  spent_without_output: {
    title: "Spent without an output",
    says: "At least this epsilon was spent without an output in the last hours. 0: any amount.",
    fields: () => [amount("hours", "Hours", "24"), amount("epsilon", "Epsilon, at least", "0")],
  },
  unusual_spending: {
    title: "Unusual spending",
    says: "An account spends more in this hour than so many times the most in any hour of the last 28 days. Less than the epsilon is never unusual.",
    fields: () => [amount("factor", "Factor", "2"), amount("epsilon", "Epsilon, at least", "0")],
  },
  integrity: {
    title: "Integrity",
    says: "The ledger has not been sealed for so many seconds, or contradicts its seals.",
    fields: () => [amount("seal_age_s", "Age of the last seal, seconds", "300")],
  },
  job_ended: {
    title: "Job ended",
    says: "A job has ended in one of these ways.",
    fields: () => [boxes("statuses", "Ends", ENDS)],
  },
};

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
    textColumn("Status", (row) => row.status),
    timeColumn("Fired", (row) => row.fired_ms),
    timeColumn("Over", (row) => row.over_ms),
    codeColumn("Rule", (row) => row.rule),
    { title: "Fires on", cell: (row) => titleOf(row.kind), key: (row) => titleOf(row.kind) },
    ...(operator ? [codeColumn("Tenant", (row) => row.tenant)] : []),
    codeColumn("Target", (row) => row.target, { wide: true }),
    { title: "Facts", cell: (row) => el("span", { class: "long" }, members(row.facts)), wide: true },
  ];
  return table("Alerts, newest first", columns, rows);
}

/** `path`: where alerts are in the API. `place` is shown; `read()` reads the rules again, `refresh()` unless one is in use. */
function rulePanel(path, operator) {
  const list = el("div");
  const said = el("div", { role: "status", id: "said", tabindex: "-1" });
  let rules = [];
  const at = (name) => `${path}/rules/${encodeURIComponent(name)}`;
  const read = async () => {
    const [found, open, over] = await Promise.all([
      api("GET", `${path}/rules`),
      pages(`${path}?status=open`, "alerts", OPEN_MAX),
      api("GET", `${path}?status=over&limit=${OVER_MAX}`),
    ]);
    rules = found.rules;
    list.replaceChildren(rules.length ? ruleTable(rules, states(open, over.alerts), actions) : el("p", {}, "No rule yet."));
  };
  const form = ruleForm(operator, (name, body, isChange, button) =>
    attempt(button, async () => {
      said.replaceChildren();
      const content = body();
      const isKnown = rules.some((rule) => rule.name === name);
      if (isKnown && !isChange && !(await confirmed(`There is a rule ${name}. Replace it?`, "Replace the rule"))) return;
      const stored = await api("PUT", at(name), content);
      said.replaceChildren(stored.webhook && stored.webhook.secret ? newSecret(stored) : el("p", {}, `The rule ${name} is stored.`));
      form.reset();
      await read();
      said.focus();
    }),
  );
  const actions = {
    change: async (rule) => form.change(await api("GET", at(rule.name))), // as it is now, not as it was listed
    sample: async (rule) => {
      const { results } = await api("POST", `${at(rule.name)}/test`);
      said.replaceChildren(el("p", {}, `Sample of ${rule.name}: ${members(results)}.`));
    },
    remove: async (rule) => {
      const question = `Delete the rule ${rule.name}? Its open alerts end, and nobody is informed.`;
      if (!(await confirmed(question, "Delete the rule"))) return;
      await api("DELETE", at(rule.name));
      said.replaceChildren(el("p", {}, `The rule ${rule.name} is deleted.`));
      form.reset();
      await read();
      said.focus(); // the button that had it is gone
    },
  };
  const refresh = async () => {
    const isAsked = document.querySelector("dialog") !== null; // its button gets the focus back when the dialog is closed
    if (!isAsked && !list.contains(document.activeElement)) await read();
  };
  return { place: el("section", { "aria-label": "Rules" }, el("h2", {}, "Rules"), said, list, form.place), read, refresh };
}

/** The secret of a webhook, the only time that it can be read. */
function newSecret(rule) {
  return el(
    "div",
    { class: "notice" },
    el("p", {}, `The secret of the webhook of ${rule.name} is shown this once. Copy it now for the receiver, which checks signatures with it; it cannot be read again.`),
    el("p", {}, el("code", { class: "secret", id: "new-secret" }, rule.webhook.secret)),
    copyButton(() => rule.webhook.secret, "Copy the secret"),
  );
}

/** By rule: how many of its alerts are open, else when the last one was over. */
function states(open, over) {
  const found = new Map();
  for (const alert of over) {
    const known = found.get(alert.rule);
    if (!known || known.over_ms < alert.over_ms) found.set(alert.rule, { open: 0, over_ms: alert.over_ms });
  }
  for (const alert of open) found.set(alert.rule, { open: ((found.get(alert.rule) || {}).open || 0) + 1, over_ms: null });
  return found;
}

function ruleTable(rules, found, actions) {
  const columns = [
    codeColumn("Name", (rule) => rule.name),
    { title: "State", cell: (rule) => stateOf(found.get(rule.name)), key: (rule) => (found.get(rule.name) || { open: -1 }).open },
    { title: "Fires on", cell: (rule) => condition(rule), key: (rule) => titleOf(rule.when.kind), wide: true },
    { title: "Receiver", cell: (rule) => receiver(rule), wide: true },
    { title: "Change", cell: (rule) => buttons(rule, actions), wide: true },
  ];
  return table("Rules, with their state", columns, rules);
}

function condition(rule) {
  const terms = [members(rule.when, ["kind"]), rule.tenants ? `tenants: ${rule.tenants.join(", ")}` : ""].filter(Boolean);
  return [titleOf(rule.when.kind), el("div", { class: "hint" }, terms.join("; "))];
}

function stateOf(state) {
  if (!state) return "has not fired";
  if (!state.open) return ["over since ", time(state.over_ms)];
  return el("span", { class: "label-warn" }, state.open === 1 ? "firing" : `firing, ${state.open} alerts`);
}

function buttons(rule, actions) {
  const act = (text, label, work, name = null) => action(text, () => work(rule), { class: name, "aria-label": label });
  return el(
    "span",
    { class: "actions" },
    act("Change", `Change ${rule.name}`, actions.change),
    rule.webhook ? act("Sample", `Send a sample of ${rule.name}`, actions.sample) : null,
    act("Delete", `Delete ${rule.name}`, actions.remove, "danger"),
  );
}

/** The host of the webhook, whose whole address may be a secret, and how the last delivery went. */
function receiver(rule) {
  const last = rule.last_delivery.webhook;
  return [
    rule.webhook ? hostOf(rule.webhook.url) : "none",
    last ? el("div", { class: "hint" }, `${last.result}, `, time(last.at_ms)) : null,
  ];
}

function hostOf(url) {
  try {
    return new URL(url).host;
  } catch {
    return "webhook";
  }
}

/** A kind as people read it. */
function titleOf(kind) {
  return KINDS[kind] ? KINDS[kind].title : kind;
}

// A part of the form: its `name` in the API, what is shown, `value()`, and `put(value)`.

function amount(name, label, usual) {
  const input = numberField(name, usual, { id: `rule-${name}`, required: true });
  return { name, place: field(label, input), value: () => typed(input), put: (value) => (input.value = String(value)) };
}

/** Words with commas or spaces between them; null without any. */
function words(name, label, without) {
  const input = el("input", { id: `rule-${name}`, name, size: 28, autocomplete: "off", spellcheck: "false", placeholder: without });
  const value = () => {
    const found = input.value.split(/[\s,]+/).filter(Boolean);
    return found.length ? found : null;
  };
  return { name, place: field(`${label}, separated by commas`, input), value, put: (list) => (input.value = (list || []).join(", ")) };
}

function choice(name, label, options, usual) {
  const input = select(name, options, usual);
  input.id = `rule-${name}`;
  return { name, place: field(label, input), value: () => input.value, put: (value) => (input.value = value) };
}

function boxes(name, legend, values) {
  const inputs = values.map((value) => el("input", { type: "checkbox", id: `rule-${name}-${value}`, value, checked: true }));
  const value = () => inputs.filter((input) => input.checked).map((input) => input.value);
  const put = (list) => inputs.forEach((input) => (input.checked = list.includes(input.value)));
  return { name, place: checks(legend, inputs), value, put };
}

/**
 * A form for new rules and for changes. `store(name, body, isChange, button)` is called when it is submitted.
 * `operator`: whether the rules are about tenants. `change(rule)` fills the form; `reset()` empties it.
 */
function ruleForm(operator, store) {
  const heading = el("h2", { id: "rule-heading" });
  const name = el("input", { id: "rule-name", name: "name", required: true, maxlength: 63, autocomplete: "off", spellcheck: "false" });
  const kind = select("kind", Object.entries(KINDS).map(([value, { title }]) => [value, title]));
  kind.id = "rule-kind";
  const says = el("p", { class: "hint", id: "rule-says", "aria-live": "polite" });
  const terms = el("div", { class: "fields" });
  const url = el("input", { id: "rule-url", name: "url", size: 36, autocomplete: "off", spellcheck: "false", placeholder: "none" });
  const renew = el("input", { type: "checkbox", id: "rule-renew" });
  const renewal = el("span", { class: "choice" }, renew, " ", el("label", { for: renew.id }, "Replace the secret"));
  const tenants = operator ? words("tenants", "Tenants", "all") : null;
  const submit = el("button", { type: "submit" }, "Store the rule");
  const stop = el("button", { type: "button", onclick: () => reset() }, "Cancel the change");
  let parts = [];
  let changed = null;

  const fit = () => {
    parts = KINDS[kind.value].fields();
    says.textContent = KINDS[kind.value].says;
    terms.replaceChildren(...parts.map((part) => part.place));
  };
  const show = (rule) => {
    changed = rule;
    heading.textContent = rule ? `Change the rule ${rule.name}` : "New rule";
    name.value = rule ? rule.name : "";
    name.readOnly = rule !== null;
    if (rule) kind.value = rule.when.kind;
    fit();
    if (rule) parts.forEach((part) => part.put(rule.when[part.name]));
    url.value = rule && rule.webhook ? rule.webhook.url : "";
    renew.checked = false;
    renewal.hidden = !(rule && rule.webhook);
    if (tenants) tenants.put(rule ? rule.tenants : []);
    stop.hidden = rule === null;
  };
  const reset = () => show(null);
  const body = () => {
    const when = { kind: kind.value, ...given(Object.fromEntries(parts.map((part) => [part.name, part.value()]))) };
    const webhook = url.value.trim() ? given({ url: url.value.trim(), new_secret: renew.checked || null }) : null;
    return given({ when, webhook, tenants: tenants && tenants.value() });
  };
  kind.addEventListener("change", fit);
  reset();
  const form = el(
    "form",
    {
      "aria-labelledby": heading.id,
      onsubmit: (event) => {
        event.preventDefault();
        store(name.value.trim(), body, changed !== null, submit);
      },
    },
    el("div", { class: "fields" }, field("Name", name), field("Fires on", kind)),
    says,
    terms,
    el("div", { class: "fields" }, field("Webhook", url), renewal, tenants && tenants.place),
    el("div", { class: "actions" }, submit, stop),
  );
  const change = (rule) => {
    show(rule);
    heading.scrollIntoView({ block: "nearest" });
    kind.focus();
  };
  return { place: el("section", {}, heading, form), change, reset };
}
