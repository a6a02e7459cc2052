// The form of an alert's rule: when it fires, with the fields of its kind, and who receives it.
import { checks, el, field, select } from "./elements.js";
import { given, numberField, typed } from "./parts.js";

const CASES = [["earliest", "Earliest (5 %)"], ["middle", "Middle"], ["latest", "Latest (95 %)"]];
const ENDS = ["succeeded", "failed", "cancelled"];
const OWN_ACCOUNTS = "the tenant's own";

/** Name to title, what it says, and its fields: what the API calls `when`. */
export const KINDS = {
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
export function ruleForm(operator, store) {
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
