// How many more requests of each preset and mechanism an account admits.
import { accountChoice, chosenAccount, ownAccounts } from "../accounts.js";
import { accountPath, api, attempt, parameters, remember } from "../api.js";
import { bar, card, el, field, number, table } from "../elements.js";

const UNNAMED = "–";

export async function show(main) {
  const accounts = await ownAccounts();
  if (!accounts.length) {
    main.append(el("p", {}, "This tenant has no account yet. The first release of a unit opens one."));
    return;
  }
  const result = el("div", { "aria-live": "polite" });
  const epsilon = el("input", {
    name: "epsilon",
    inputmode: "decimal",
    value: parameters().get("epsilon") || "1",
    size: 8,
  });
  const ask = el("button", { type: "submit" }, "Count");
  let account = chosenAccount(accounts);
  const fill = async () => result.replaceChildren(...(await found(account, epsilon.value)));
  const form = el(
    "form",
    {
      class: "row",
      onsubmit: (event) => {
        event.preventDefault();
        remember({ epsilon: epsilon.value });
        attempt(ask, fill);
      },
    },
    field("Epsilon of a document", epsilon),
    ask,
  );
  const choice = accountChoice(accounts, (chosen) => {
    account = chosen;
    attempt(ask, fill);
  });
  const cards = el("div", { class: "cards" }, accounts.map(summary));
  main.append(cards, choice, form, result);
  await fill();
  return async () => {
    cards.replaceChildren(...(await ownAccounts()).map(summary));
    await fill();
  };
}

function summary(account) {
  const limit = account.limit.epsilon;
  const left = account.remaining.epsilon;
  return card(
    account.account,
    [number(left), el("span", { class: "hint" }, " of "), number(limit)],
    [bar(limit ? left / limit : 0), el("div", { class: "hint" }, "epsilon left")],
  );
}

async function found(account, epsilon) {
  const query = epsilon.trim() ? `/headroom?epsilon=${encodeURIComponent(epsilon.trim())}` : "/headroom";
  const answer = await api("GET", accountPath(account.account, query));
  const rows = [...answer.requests].sort((a, b) => Number(b.preset !== null) - Number(a.preset !== null));
  const parts = [
    table(
      `Requests with one document that ${answer.account} admits`,
      [
        { title: "Preset", cell: (row) => row.preset || UNNAMED, key: (row) => row.preset },
        { title: "Endpoint", cell: (row) => el("code", {}, `/${row.endpoint}`), key: (row) => row.endpoint },
        { title: "Mechanism", cell: (row) => row.mechanism, key: (row) => row.mechanism },
        { title: "Epsilon", cell: (row) => number(row.epsilon), key: (row) => row.epsilon, number: true },
        { title: "Requests that fit", cell: (row) => number(row.fits), key: (row) => row.fits, number: true },
        { title: "Refused first by", cell: (row) => binding(row.binding) },
      ],
      rows,
    ),
  ];
  if (answer.unpriced.length) {
    const names = answer.unpriced.map((row) => row.preset || row.mechanism || row.endpoint).join(", ");
    parts.push(el("p", { class: "notice" }, `Without a price now: ${names}.`));
  }
  parts.push(
    el("p", { class: "hint" }, "Exact if nothing else is reserved: that many equal requests are admitted, and the next is refused."),
  );
  return parts;
}

function binding(fit) {
  const arm = fit.arm === null ? "no rule has room" : fit.order === null ? fit.arm : `${fit.arm} of order ${fit.order}`;
  return `${fit.account}: ${arm}`;
}
