// How many more documents fit, what was spent in the last days, and what refuses the next request.
import { accountChoice, ownAccounts } from "../accounts.js";
import { accountPath, api, attempt, parameters, remember } from "../api.js";
import { bar, card, el, exact, field, number, numberColumn, rowForm, table, textColumn } from "../elements.js";

const UNNAMED = "–";
const DAYS = 7;
const DAY_MS = 86400e3;

export async function show(main) {
  const choice = await accountChoice(
    main,
    () => {
      epsilon.value = chosenEpsilon(choice.account);
      attempt(ask, fill);
    },
    { none: "This tenant has no account yet. The first release of a unit opens one." },
  );
  if (!choice) return undefined;
  const cards = el("div", { class: "cards", "aria-live": "polite" });
  const result = el("div");
  const all = el("div");
  const epsilon = el("input", { name: "epsilon", inputmode: "decimal", value: chosenEpsilon(choice.account), size: 8 });
  const ask = el("button", { type: "submit" }, "Count");
  const fill = async () => {
    const { account, accounts } = choice;
    const wanted = epsilon.value.trim();
    const query = wanted ? `/headroom?epsilon=${encodeURIComponent(wanted)}` : "/headroom";
    const [answer, spent] = await Promise.all([api("GET", accountPath(account.account, query)), spentLately(account)]);
    cards.replaceChildren(...summary(account, answer, spent));
    result.replaceChildren(...details(answer));
    all.replaceChildren(overview(accounts));
  };
  const form = rowForm(
    () => {
      remember({ epsilon: epsilon.value });
      attempt(ask, fill);
    },
    choice.place,
    field("Epsilon of a document", epsilon),
    ask,
  );
  main.append(cards, form, result, all);
  await fill();
  return async () => {
    choice.accounts = await ownAccounts();
    choice.account = choice.accounts.find((each) => each.account === choice.account.account) || choice.account;
    await fill();
  };
}

/** A plan fixes the epsilon of its releases. */
function chosenEpsilon(account) {
  return parameters().get("epsilon") || (account.plan ? String(account.plan.epsilon) : "1");
}

/** The epsilon and the number of releases of each mechanism since the end of a day, a week ago; null for a subject. */
async function spentLately(account) {
  if (account.subject_hash) return null;
  const from = Date.now() - DAYS * DAY_MS;
  const page = await api("GET", `/budget/series?unit=${account.unit}&class=tenant&step=86400&from=${from}`);
  const rows = page.series.map((each) => {
    const [first, last] = [each.points[0], each.points[each.points.length - 1]];
    const epsilon = exact(last.committed.epsilon - first.committed.epsilon);
    return { mechanism: each.mechanism, epsilon, releases: last.releases - first.releases };
  });
  rows.sort((a, b) => b.releases - a.releases);
  return { rows, since_ms: page.from_ms + DAY_MS };
}

function summary(account, answer, spent) {
  const presets = answer.requests.filter((row) => row.preset);
  const used = spent ? spent.rows.filter((row) => row.releases > 0) : [];
  const most = used.map((row) => answer.requests.find((each) => !each.preset && each.mechanism === row.mechanism)).find(Boolean);
  const preset = presets.find((row) => used.length && row.mechanism === used[0].mechanism) || presets[0];
  const parts = [];
  if (most) parts.push(fitting(most, `used most in these ${DAYS} days`));
  else if (!preset && answer.requests.length) parts.push(fitting(answer.requests[0], "at this epsilon"));
  if (preset) parts.push(fitting(preset, `the preset ${preset.preset}`));
  if (spent) parts.push(spentCard(account, spent));
  const [left, limit] = [account.remaining.epsilon, (account.current_limit || account.limit).epsilon];
  parts.push(
    card(
      `Left of ${account.account}`,
      [number(left), el("span", { class: "hint" }, " of "), number(limit)],
      [bar(limit ? left / limit : 0), el("div", { class: "hint" }, "epsilon")],
    ),
  );
  return parts;
}

function fitting(row, why) {
  const more = [
    el("div", { class: "hint" }, "with ", el("strong", {}, row.mechanism), " at epsilon ", number(row.epsilon), ` each, ${why}`),
  ];
  if (row.new_subject) more.push(el("div", { class: "hint" }, "of one new subject: ", number(row.new_subject.fits)));
  return el("div", { class: "card answer" }, el("div", { class: "label" }, "More documents fit"), el("div", { class: "value" }, number(row.fits)), more);
}

function spentCard(account, spent) {
  const epsilon = exact(spent.rows.reduce((sum, row) => sum + row.epsilon, 0));
  const releases = spent.rows.reduce((sum, row) => sum + row.releases, 0);
  const since = new Date(spent.since_ms);
  const day = since.toLocaleDateString(undefined, { day: "numeric", month: "short", timeZone: "UTC" });
  return card(`Spent in ${DAYS} days`, number(epsilon), [
    el("div", { class: "hint" }, "epsilon, in ", number(releases), releases === 1 ? " release" : " releases since "),
    el("time", { class: "hint", datetime: since.toISOString(), title: since.toISOString() }, day),
  ]);
}

function details(answer) {
  const rows = [...answer.requests].sort((a, b) => Number(b.preset !== null) - Number(a.preset !== null));
  const parts = [
    el("p", { class: "hint" }, "A budget does not renew: these numbers are for this week and all later ones together. ",
      "Each row is counted alone and is exact if nothing else is reserved: that many equal requests are admitted, and the next is refused."),
    table(
      `Requests with one document that ${answer.account} admits`,
      [
        { title: "Preset", cell: (row) => row.preset || UNNAMED, key: (row) => row.preset },
        { title: "Endpoint", cell: (row) => el("code", { class: "short" }, `/${row.endpoint}`), key: (row) => row.endpoint },
        textColumn("Mechanism", (row) => row.mechanism),
        numberColumn("Epsilon", (row) => row.epsilon),
        numberColumn("Requests that fit", (row) => row.fits),
        { title: "Refused first by", cell: (row) => binding(row.binding) },
      ],
      rows,
    ),
  ];
  if (answer.unpriced.length) parts.push(unpriced(answer.unpriced));
  return parts;
}

function binding(fit) {
  const arm = fit.arm === null ? "no rule has room" : fit.order === null ? fit.arm : `${fit.arm} of order ${fit.order}`;
  return `${fit.account} (${arm})`;
}

/** What has no price now, with the reason, each once. */
function unpriced(rows) {
  const reasons = new Map();
  for (const row of rows) {
    const names = reasons.get(row.detail) || new Set();
    reasons.set(row.detail, names.add(row.preset ? `the preset ${row.preset}` : `/${row.endpoint}`));
  }
  const items = [...reasons].map(([detail, names]) => el("li", {}, `${[...names].join(", ")}: ${detail}`));
  return el("div", { class: "notice" }, "Without a price now, and so not listed:", el("ul", {}, items));
}

function overview(accounts) {
  return table(
    "Accounts of this tenant",
    [
      textColumn("Account", (row) => row.account),
      { title: "Rule", cell: (row) => (row.kind === "plan" ? `plan of ${row.plan.mechanism}` : "filter"), key: (row) => row.kind },
      numberColumn("Epsilon left", (row) => row.remaining.epsilon),
      { title: "Limit", cell: limits, key: (row) => row.limit.epsilon, number: true },
      numberColumn("Delta", (row) => row.limit.delta),
      numberColumn("Reserved", (row) => row.reserved.epsilon),
    ],
    accounts,
  );
}

// The limit of the guarantee, and what the operator lets the account spend now where that is less.
function limits(row) {
  if (!row.current_limit) return number(row.limit.epsilon);
  return [number(row.limit.epsilon), el("span", { class: "hint" }, " now ", number(row.current_limit.epsilon))];
}
