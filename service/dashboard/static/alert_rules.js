// The rules of alerts: a list with their state, and what an administrator does with one.
import { api, attempt, pages } from "./api.js";
import { KINDS, ruleForm } from "./alert_form.js";
import { confirmed, el, table, time } from "./elements.js";
import { action, copyButton } from "./parts.js";

const OPEN_MAX = 1000;
const OVER_MAX = 50;

/** `path`: where alerts are in the API. `place` is shown; `read()` reads the rules again, `refresh()` unless one is in use. */
export function rulePanel(path, operator) {
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
    { title: "Name", cell: (rule) => el("code", {}, rule.name), key: (rule) => rule.name },
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
export function titleOf(kind) {
  return KINDS[kind] ? KINDS[kind].title : kind;
}

/** The members of an object that have a value, as a text. */
export function members(found, without = []) {
  const text = (value) => (Array.isArray(value) ? value.join(", ") : value !== null && typeof value === "object" ? JSON.stringify(value) : String(value));
  return Object.entries(found)
    .filter(([name, value]) => value !== null && !without.includes(name))
    .map(([name, value]) => `${name.replaceAll("_", " ")}: ${text(value)}`)
    .join("; ");
}
