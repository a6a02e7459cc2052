// How many more documents fit, what was spent in the last days, and what refuses the next request.
import { accountChoice, nextStep, ownAccounts } from "../accounts.js";
import { accountPath, api, attempt, parameters, remember } from "../api.js";
import { bar, card, el, exact, field, number, numberColumn, rowForm, table, textColumn } from "../elements.js";

const UNNAMED = "–";
const DAYS = 7;
const USED = 2; // kinds of the last releases that have a card
const DAY_MS = 86400e3;

export async function show(main) {
  const choice = await accountChoice(
    main,
    () => {
      epsilon.value = parameters().get("epsilon") || "";
      attempt(ask, fill);
    },
    { none: "This tenant has no account yet. The first release of a unit opens one." },
  );
  if (!choice) return undefined;
  const cards = el("div", { class: "cards", "aria-live": "polite" });
  const exhausted = el("div");
  const result = el("div");
  const all = el("div");
  const epsilon = el("input", { name: "epsilon", inputmode: "decimal", value: parameters().get("epsilon") || "", size: 8 });
  const ask = el("button", { type: "submit" }, "Count");
  const fill = async () => {
    const { account, accounts } = choice;
    const wanted = epsilon.value.trim();
    const read = (query) => api("GET", accountPath(account.account, `/headroom${query}`));
    const [found, spent] = await Promise.all([read(wanted ? `?epsilon=${encodeURIComponent(wanted)}` : ""), spentLately(account)]);
    const answer = found.epsilon === null ? await read("?epsilon=1") : found; // nothing was released yet
    epsilon.value = String(answer.epsilon);
    cards.replaceChildren(...summary(account, answer, spent));
    exhausted.replaceChildren(...refusal(account, answer));
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
  main.append(exhausted, cards, form, result, all);
  await fill();
  return async () => {
    choice.accounts = await ownAccounts();
    choice.account = choice.accounts.find((each) => each.account === choice.account.account) || choice.account;
    await fill();
  };
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
  const { plan } = account;
  const parts = answer.used.slice(0, USED).map((row) => fitting(row, account, `${row.releases} of the last releases`));
  const preset = answer.requests.find((row) => row.preset);
  if (!parts.length && preset) parts.push(fitting(preset, account, `the preset ${preset.preset}`));
  else if (!parts.length && answer.requests.length) parts.push(fitting(answer.requests[0], account, "at this epsilon"));
  if (spent) parts.push(spentCard(account, spent));
  const [left, limit] = plan
    ? [plan.releases.remaining, plan.releases.limit]
    : [account.remaining.epsilon, (account.current_limit || account.limit).epsilon];
  parts.push(
    card(
      `Left of ${account.account}`,
      [number(left), el("span", { class: "hint" }, " of "), number(limit), plan ? el("span", { class: "hint" }, " releases") : null],
      [bar(limit ? left / limit : 0), el("div", { class: "hint" }, plan ? `of ${plan.mechanism} at epsilon ${plan.epsilon}` : "epsilon")],
    ),
  );
  return parts;
}

function fitting(row, account, why) {
  const more = [
    el("div", { class: "hint" }, "with ", el("strong", {}, row.mechanism), " at epsilon ", number(row.epsilon), `, as ${why}`),
  ];
  if (row.binding.account !== account.account) more.push(el("div", { class: "hint" }, `${row.binding.account} refuses first`));
  if (row.new_subject) more.push(el("div", { class: "hint" }, "of one new subject: ", number(row.new_subject.fits)));
  return el("div", { class: "card answer" }, el("div", { class: "label" }, "More documents fit"), el("div", { class: "value" }, number(row.fits)), more);
}

/** That releases like the last ones are refused, and what a person can do. */
function refusal(account, answer) {
  const [row] = answer.used;
  if (!row || row.fits) return [];
  const what = `No more documents with ${row.mechanism} at epsilon ${row.epsilon ?? "–"} fit: ${row.binding.account} refuses the next one. `;
  return [el("p", { class: "notice" }, what, nextStep(account))];
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
