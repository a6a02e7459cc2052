// What an account has proven, and what is an estimate of what was spent.
import { accountPage } from "../accounts.js";
import { accountPath, api } from "../api.js";
import { el, number, numberColumn, table } from "../elements.js";

const LABELS = {
  proven: ["Proven", "label-good"],
  estimate: ["Estimate", "label-warn"],
  none: ["No figure", "label-hint"],
};
const TITLES = { limit: "Limit", basic: "Basic", renyi: "Renyi", certificate: "Certificate", edgeworth: "Edgeworth" };

export function show(main) {
  return accountPage(main, async ({ account }) => {
    const [found, bounds] = await Promise.all([
      api("GET", accountPath(account)),
      api("GET", accountPath(account, "/bounds")),
    ]);
    return shown(found, bounds.lines);
  });
}

function shown(account, lines) {
  const parts = [
    table(
      `What ${account.account} promises, and what was spent of it`,
      [
        { title: "By", cell: (row) => TITLES[row.name] || row.name },
        { title: "Label", cell: (row) => label(row.label), key: (row) => row.label },
        numberColumn("Epsilon", (row) => row.epsilon),
        numberColumn("Delta", (row) => row.delta),
        { title: "What it says", cell: (row) => row.sentence, wide: true },
      ],
      lines,
    ),
    el("p", { class: "hint" }, `Unit: ${account.unit}. Neighbours: ${account.adjacency}. `,
      "Estimates admit nothing: the ledger decides by the rules below alone."),
  ];
  if (account.arms) parts.push(arms(account));
  else if (account.plan) parts.push(plan(account));
  else parts.push(el("p", {}, "This account has one rule: the sum of the epsilons stays within the limit."));
  return parts;
}

function label(name) {
  const [text, className] = LABELS[name] || [name, "label-hint"];
  return el("span", { class: className }, text);
}

function arms(account) {
  return table(
    "The rules of the filter: a release is admitted while one of them has room",
    [
      { title: "Rule", cell: (row) => (row.order === null ? row.name : `${row.name} of order ${row.order}`), key: (row) => row.name },
      numberColumn("Counted", (row) => row.spent),
      numberColumn("Up to", (row) => row.limit),
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
