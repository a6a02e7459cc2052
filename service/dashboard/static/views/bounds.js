// What an account has proven, and what is an estimate of what was spent.
import { accountChoice, chosenAccount, ownAccounts } from "../accounts.js";
import { accountPath, api, attempt } from "../api.js";
import { el, number, table } from "../elements.js";

const KINDS = {
  bound: ["Proven", "good"],
  estimate: ["Estimate", "warn"],
  vacuous: ["No figure", "hint"],
  "no-unique-root": ["No figure", "hint"],
  none: ["Not used", "hint"],
};
// one sentence for each accountant of the API
const SENTENCES = {
  basic: "The sum of the releases' epsilons and deltas: it holds for any releases, whoever chose them and however.",
  rdp: "Renyi composition: it would be a bound if all releases had been fixed in advance, which nobody can assume for an account in use.",
  edgeworth: "The epsilon of the whole history by the moments of its privacy loss: nearly exact if all releases had been fixed in advance.",
  certificate: "The privacy loss distribution of a plan, rounded up: all of its releases together cost at most this.",
  limit: "The ledger refuses what would exceed it: everything that was and will be released stays within this.",
};
const TITLES = { basic: "Basic", rdp: "Renyi", edgeworth: "Edgeworth", certificate: "Certificate", limit: "Limit" };

export async function show(main) {
  const accounts = await ownAccounts();
  if (!accounts.length) {
    main.append(el("p", {}, "This tenant has no account yet."));
    return undefined;
  }
  const result = el("div");
  let account = chosenAccount(accounts);
  const fill = async () => result.replaceChildren(...shown(await api("GET", accountPath(account.account))));
  const choice = accountChoice(accounts, (chosen) => {
    account = chosen;
    attempt(choice.querySelector("select"), fill);
  });
  main.append(choice, result);
  await fill();
  return fill;
}

function shown(account) {
  const promised = { name: "limit", kind: "bound", epsilon: account.limit.epsilon, delta: account.limit.delta };
  const lines = [promised];
  if (account.plan) lines.push({ ...promised, name: "certificate", note: planNote(account.plan) });
  else lines.push({ name: "certificate", kind: "none", epsilon: null, delta: null, note: "this account is a filter, not a plan" });
  lines.push(...account.accountants);
  const parts = [
    table(
      `What ${account.account} promises, and what was spent of it`,
      [
        { title: "By", cell: (row) => TITLES[row.name] || row.name },
        { title: "Label", cell: (row) => label(row.kind), key: (row) => row.kind },
        { title: "Epsilon", cell: (row) => number(row.epsilon), key: (row) => row.epsilon, number: true },
        { title: "Delta", cell: (row) => number(row.delta), key: (row) => row.delta, number: true },
        { title: "What it says", cell: (row) => sentence(row), wide: true },
      ],
      lines,
    ),
    el("p", { class: "hint" }, `Unit: ${account.unit}. Neighbours: ${account.adjacency}. `,
      "Estimates admit nothing: the ledger decides by the rules below alone."),
  ];
  if (account.arms) parts.push(arms(account));
  else if (account.plan) parts.push(plan(account));
  else parts.push(el("p", {}, "This account has no delta, so it has one rule: the sum of the epsilons stays within the limit."));
  return parts;
}

function label(kind) {
  const [text, className] = KINDS[kind] || [kind, "hint"];
  return el("span", { class: `label-${className}` }, text);
}

function sentence(row) {
  const parts = [SENTENCES[row.name] || ""];
  if (row.note) parts.push(el("span", { class: "hint" }, ` (${row.note})`));
  return parts;
}

function planNote(plan) {
  return `${plan.releases.limit} releases of ${plan.mechanism} at epsilon ${plan.epsilon}`;
}

function arms(account) {
  return table(
    "The rules of the filter: a release is admitted while one of them has room",
    [
      { title: "Rule", cell: (row) => (row.order === null ? row.name : `${row.name} of order ${row.order}`), key: (row) => row.name },
      { title: "Counted", cell: (row) => number(row.spent), key: (row) => row.spent, number: true },
      { title: "Up to", cell: (row) => number(row.limit), key: (row) => row.limit, number: true },
      { title: "Share", cell: (row) => percent(row), key: (row) => (row.limit ? row.spent / row.limit : 1), number: true },
      { title: "Open", cell: (row) => openness(row), key: (row) => row.open },
    ],
    account.arms,
  );
}

function openness(row) {
  if (row.open) return "yes";
  return row.spent >= row.limit ? "no, it has no room" : "no, a release has no price by it";
}

function percent(row) {
  if (!row.limit) return "–";
  return `${((100 * row.spent) / row.limit).toLocaleString(undefined, { maximumFractionDigits: 1 })} %`;
}

function plan(account) {
  const releases = account.plan.releases;
  return table(
    `The plan: ${account.plan.mechanism} at epsilon ${account.plan.epsilon}, and nothing else`,
    [
      { title: "Releases", cell: (row) => row[0] },
      { title: "Number", cell: (row) => number(row[1]), number: true },
    ],
    [["Certified", releases.limit], ["Released", releases.committed], ["Reserved", releases.reserved], ["Left", releases.remaining]],
  );
}
