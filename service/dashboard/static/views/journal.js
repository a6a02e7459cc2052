// The entries of an account's journal, a page at a time.
import { accountChoice, chosenAccount, ownAccounts } from "../accounts.js";
import { accountPath, api, attempt } from "../api.js";
import { el, number, table, time } from "../elements.js";

const PAGE = 100;

export async function show(main) {
  const accounts = await ownAccounts();
  if (!accounts.length) {
    main.append(el("p", {}, "This tenant has no account yet, so it has no journal."));
    return;
  }
  const result = el("div", { "aria-live": "polite" });
  const more = el("button", { type: "button" }, "More entries");
  let account = chosenAccount(accounts);
  let entries = [];
  let cursor = 0;
  const read = async () => {
    const page = await api("GET", accountPath(account.account, `/journal?limit=${PAGE}&cursor=${cursor}`));
    entries = entries.concat(page.entries);
    cursor = page.next_cursor;
    more.hidden = cursor === null || cursor === undefined;
    result.replaceChildren(shown(account, entries));
  };
  more.addEventListener("click", () => attempt(more, read));
  const choice = accountChoice(accounts, (chosen) => {
    account = chosen;
    entries = [];
    cursor = 0;
    attempt(more, read);
  });
  main.append(choice, result, more);
  await read();
  return async () => {
    if (more.hidden) {
      cursor = entries.length ? entries.at(-1).seq : 0;
      await read();
    }
  };
}

function shown(account, entries) {
  if (!entries.length) return el("p", {}, "No entry yet.");
  return table(
    `Journal of ${account.account}, oldest first`,
    [
      { title: "Number", cell: (row) => number(row.seq), key: (row) => row.seq, number: true },
      { title: "Time", cell: (row) => time(row.at_ms), key: (row) => row.at_ms },
      { title: "Step", cell: (row) => row.transition, key: (row) => row.transition },
      { title: "Mechanism", cell: (row) => row.mechanism || "–", key: (row) => row.mechanism },
      { title: "Epsilon", cell: (row) => number(row.amount.epsilon), key: (row) => row.amount.epsilon, number: true },
      { title: "Delta", cell: (row) => number(row.amount.delta), key: (row) => row.amount.delta, number: true },
      { title: "Key", cell: (row) => el("code", {}, row.key_id || "–"), key: (row) => row.key_id },
      { title: "Release", cell: (row) => el("code", {}, row.release_id), key: (row) => row.release_id },
      { title: "Reason", cell: (row) => row.reason || "", key: (row) => row.reason },
    ],
    entries,
  );
}
