// Tenants with their budgets and keys, for the operator. Each change is asked for twice, and the audit log has it.
import { api, attempt, pages, parameters, remember } from "../api.js";
import { bar, confirmed, el, field, numberColumn, rowForm, table, textColumn, time } from "../elements.js";
import { keyPanel, newKey } from "./keys.js";
import { action, given, numberField, statementLinks, typed } from "../parts.js";

const PAGE = 25;
const READ = 100; // tenants in an answer
const ACCOUNTS_MAX = 1000;

export async function show(main) {
  const list = el("div");
  const detail = el("section", { "aria-label": "One tenant" });
  const fresh = el("div", { role: "status" });
  const find = el("input", { type: "search", autocomplete: "off", id: "find-tenant" });
  const more = action("More tenants", () => {
    shown += PAGE;
    return draw();
  });
  let tenants = [];
  let shown = PAGE;

  const draw = () => {
    const matching = tenants.filter((each) => each.name.includes(find.value.trim()));
    more.hidden = matching.length <= shown;
    list.replaceChildren(tenantTable(matching.slice(0, shown), matching.length, choose));
  };
  const choose = async (name) => {
    remember({ tenant: name });
    const changed = async () => {
      await read();
      await choose(name);
    };
    const state = tenants.find((each) => each.name === name)?.state;
    detail.replaceChildren(...(await one(name, state, changed)));
  };
  const read = async () => {
    tenants = (await pages(`/admin/outlook?limit=${READ}`, "tenants")).sort(endsFirst);
    draw();
  };
  find.addEventListener("input", () => {
    shown = PAGE;
    attempt(more, draw);
  });
  const created = async (made) => {
    fresh.replaceChildren(newKey(made));
    await read();
    await choose(made.tenant);
  };
  main.append(el("div", { class: "fields" }, field("Find a tenant", find)), list, more, detail, el("h2", {}, "Create a tenant"), createForm(created), fresh);
  await read();
  const wanted = parameters().get("tenant");
  if (wanted) await choose(wanted);
}

/** What ends first comes first: by the estimate, then by the share that is used. */
function endsFirst(one, other) {
  return (one.ends_ms ?? Infinity) - (other.ends_ms ?? Infinity) || (most(other)?.used_share ?? 0) - (most(one)?.used_share ?? 0);
}

/** The account of a tenant that ends first. */
function most(row) {
  return [...row.accounts].sort((a, b) => (a.ends_ms ?? Infinity) - (b.ends_ms ?? Infinity) || b.used_share - a.used_share)[0];
}

function path(name) {
  return `/admin/tenants/${encodeURIComponent(name)}`;
}

function tenantTable(rows, count, choose) {
  const of = (name) => (row) => most(row)?.[name];
  const ends = (row) => (most(row)?.used_share >= 1 ? el("span", { class: "bad" }, "refuses every request") : time(row.ends_ms));
  return table(
    `${count} tenants, what ends first on top`,
    [
      { title: "Tenant", cell: (row) => el("button", { type: "button", class: "link", onclick: (event) => attempt(event.target, () => choose(row.name)) }, row.name), key: (row) => row.name },
      { title: "Protects", cell: (row) => (row.mode === "subject" ? "each subject" : "the tenant"), key: (row) => row.mode },
      textColumn("State", (row) => row.state),
      { title: "Ends, by estimate", cell: ends, key: (row) => row.ends_ms ?? Infinity },
      textColumn("First in", (row) => of("unit")(row) ?? "nothing spent"),
      numberColumn("Spent", of("spent")),
      numberColumn("A day", of("per_day")),
      numberColumn("Left", of("remaining")),
      numberColumn("Refused, 7 days", (row) => row.refused.reduce((sum, each) => sum + each, 0)),
    ],
    rows,
  );
}

async function one(name, state, changed) {
  const accounts = await pages(`${path(name)}/budgets`, "accounts", ACCOUNTS_MAX);
  const panel = keyPanel(`${path(name)}/keys`, name);
  await panel.read();
  return [
    el("h2", {}, name),
    accountTable(name, accounts),
    ...limitForm(name, accounts, changed),
    el("h2", {}, "Keys"),
    panel.place,
    el("h2", {}, "Statement for an auditor"),
    statementLinks(`${path(name)}/statement`),
    el("h2", {}, "Sessions"),
    sessionPart(name),
    el("h2", {}, "Suspend or close"),
    el("p", {}, `The tenant is ${state}. `, STATES[state]),
    ...statePart(name, state, changed),
  ];
}

const STATES = {
  active: "Suspended, its keys only read: nothing is released. Closed, its keys end and its data is removed for good; its journal stays.",
  suspended: "Its keys read budgets, the journal and results of jobs. Nothing is released.",
  closing: "Its keys have ended. Its data is removed when its jobs have ended.",
  closed: "Its keys have ended and its data was removed. Its journal and accounts stay.",
};

// Closing cannot be undone, so it is asked for once more.
function statePart(name, state, changed) {
  if (!["active", "suspended"].includes(state)) return [];
  const reason = el("input", { id: "state-reason", required: true, maxlength: 200, autocomplete: "off" });
  const change = (title, to, questions) =>
    action(title, async () => {
      if (!reason.reportValidity()) return;
      for (const question of questions) if (!(await confirmed(question, title))) return;
      await api("PUT", `${path(name)}/state`, { state: to, reason: reason.value });
      await changed();
    }, { class: to === "active" ? null : "danger" });
  const other =
    state === "active"
      ? change("Suspend the tenant", "suspended", [`Suspend ${name}? Its keys then only read.`])
      : change("Resume the tenant", "active", [`Let ${name} release again?`]);
  const close = change("Close the tenant", "closed", [
    `Close ${name}? Its keys end, its jobs are cancelled, and its files, recognisers, alerts and vault are removed.`,
    `${name} cannot be opened again. Close it for good?`,
  ]);
  return [rowForm(() => {}, field("Reason, for the audit log", reason), other, close)];
}

function sessionPart(name) {
  const said = el("span", { class: "hint", role: "status" });
  const work = async () => {
    if (!(await confirmed(`End every open session of the dashboard of ${name}? Its keys stay valid.`, "End all sessions"))) return;
    await api("POST", `${path(name)}/sessions/end`);
    said.textContent = `Every session of ${name} has ended.`;
  };
  return el("p", { class: "copy" }, action("End all sessions", work, { class: "danger" }), said);
}

function accountTable(name, accounts) {
  const current = (row) => (row.current_limit || row.limit).epsilon;
  const share = (row) => (current(row) ? row.remaining.epsilon / current(row) : 0);
  return table(
    `Accounts of ${name}`,
    [
      { title: "Account", cell: (row) => el("code", { class: "name" }, row.account), key: (row) => row.account },
      textColumn("Kind", (row) => row.kind),
      numberColumn("Limit", (row) => row.limit.epsilon),
      numberColumn("Current limit", current),
      numberColumn("Delta", (row) => row.limit.delta),
      numberColumn("Committed", (row) => row.committed.epsilon),
      numberColumn("Reserved", (row) => row.reserved.epsilon),
      numberColumn("Left", (row) => row.remaining.epsilon),
      { title: "Share left", cell: (row) => bar(share(row)), key: share },
    ],
    accounts,
  );
}

// Raises or lowers what an account may spend, up to its limit. Accounts of subjects and with plans have no current limit.
function limitForm(name, accounts, changed) {
  const own = accounts.filter((each) => !each.subject_hash && each.kind === "filter");
  if (!own.length) return [];
  const unit = el("select", { id: "limit-unit" }, ...own.map((each) => el("option", { value: each.unit }, each.account)));
  const epsilon = numberField("epsilon", "", { id: "limit-epsilon", required: true });
  const reason = el("input", { id: "limit-reason", required: true, maxlength: 200, autocomplete: "off" });
  const set = el("button", { type: "submit" }, "Set the current limit");
  const work = async () => {
    const limit = own.find((each) => each.unit === unit.value).limit.epsilon;
    const isPossible = typed(epsilon) >= 0 && typed(epsilon) <= limit;
    epsilon.setCustomValidity(isPossible ? "" : `From 0 to ${limit}, which the account was opened with.`);
    if (!epsilon.reportValidity()) return;
    const address = `${path(name)}/budgets/${unit.value}/limit`;
    const question = effect(typed(epsilon), await api("GET", `${address}?epsilon=${typed(epsilon)}`));
    if (!(await confirmed(question, "Set the current limit"))) return;
    await api("PUT", address, { epsilon: typed(epsilon), reason: reason.value });
    await changed();
  };
  epsilon.addEventListener("input", () => epsilon.setCustomValidity(""));
  return [
    el("h2", {}, "Raise or lower a limit"),
    el("p", {}, "The guarantee is the limit that the account was opened with. The current limit is what it may spend now."),
    rowForm(() => attempt(set, work), field("Account", unit), field("Epsilon that it may spend", epsilon), field("Reason", reason), set),
  ];
}

/** What another limit changes, before it is set. */
function effect(epsilon, found) {
  const refused = found.remaining_then > 0 ? `Any request above epsilon ${found.remaining_then} is refused at once.` : "Every request is refused at once.";
  const times = found.requests_then === null ? "Nothing was released yet." : `Of requests as so far (mean epsilon ${found.mean_epsilon}), ${found.requests_then} more fit, instead of ${found.requests}.`;
  return `Let ${found.account} spend epsilon ${epsilon} of ${found.guarantee}? Epsilon ${found.spent} is spent or held. ${refused} ${times}`;
}

function createForm(created) {
  const name = el("input", { name: "name", autocomplete: "off", spellcheck: "false", id: "tenant-name", required: true });
  const epsilon = numberField("epsilon", "", { id: "tenant-epsilon", required: true });
  const delta = numberField("delta", "0", { id: "tenant-delta" });
  const subject = numberField("subject epsilon", "", { id: "tenant-subject", placeholder: "none" });
  const create = el("button", { type: "submit" }, "Create the tenant");
  const work = async () => {
    const body = given({ name: name.value.trim(), epsilon: typed(epsilon), delta: typed(delta), subject_epsilon: typed(subject) });
    const question = `Create the tenant ${body.name} with epsilon ${body.epsilon} for each unit? Its limits cannot be raised above that later.`;
    if (await confirmed(question, "Create the tenant")) await created(await api("POST", "/admin/tenants", body));
  };
  return rowForm(
    () => attempt(create, work),
    field("Name", name),
    field("Epsilon of each unit", epsilon),
    field("Delta", delta),
    field("Epsilon of each subject", subject),
    create,
  );
}
