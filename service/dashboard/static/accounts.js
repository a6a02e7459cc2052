// The accounts of the tenant, and the choice of one.
import { accountPath, api, attempt, parameters, remember } from "./api.js";
import { el, field, rowForm, select } from "./elements.js";

const OWN = 16; // more than the tenant has units; the gateway lists its own accounts before those of subjects

/** The tenant's own accounts, one for each unit, and the account that the address names, if it is a subject's. */
export async function ownAccounts() {
  const page = await api("GET", `/budget?limit=${OWN}`);
  const accounts = page.accounts.filter((each) => !each.subject_hash);
  const wanted = parameters().get("account");
  if (wanted && !accounts.some((each) => each.account === wanted)) {
    accounts.push(await api("GET", accountPath(wanted)));
  }
  return accounts;
}

/** The account that the address names, else that of sentences, which documents are charged to. */
export function chosenAccount(accounts) {
  const wanted = parameters().get("account");
  return (
    accounts.find((each) => each.account === wanted) || accounts.find((each) => each.unit === "sentence") || accounts[0]
  );
}

/** A page about one account, which a person may change: `read(account)` gives its parts. Returns what fills it again. */
export async function accountPage(main, read) {
  const accounts = await ownAccounts();
  if (!accounts.length) {
    main.append(el("p", {}, "This tenant has no account yet."));
    return undefined;
  }
  const result = el("div");
  let account = chosenAccount(accounts);
  const fill = async () => result.replaceChildren(...(await read(account)));
  const choice = accountField(accounts, (chosen) => {
    account = chosen;
    attempt(choice.querySelector("select"), fill);
  });
  main.append(rowForm(() => {}, choice), result);
  await fill();
  return fill;
}

/** The choice of an account as a field of a form; `show(account)` is called for each choice. */
export function accountField(accounts, show) {
  const choice = select("account", accounts.map((each) => [each.account, shortAccount(each)]), chosenAccount(accounts).account);
  choice.addEventListener("change", () => {
    remember({ account: choice.value });
    show(accounts.find((each) => each.account === choice.value));
  });
  return field("Account", choice);
}

/** An account as people read it: the hash of a subject is cut. */
export function shortAccount(account) {
  if (!account.subject_hash) return account.account;
  const [tenant, unit, hash] = account.account.split("/");
  return `${tenant}/${unit}/${hash.slice(0, 8)}…`;
}
