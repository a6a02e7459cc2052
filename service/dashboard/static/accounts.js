// The accounts of the tenant, and the choice of one.
import { accountPath, api, attempt, parameters, remember } from "./api.js";
import { el, field, number, rowForm, select } from "./elements.js";

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
function chosenAccount(accounts) {
  const wanted = parameters().get("account");
  return (
    accounts.find((each) => each.account === wanted) || accounts.find((each) => each.unit === "sentence") || accounts[0]
  );
}

/** A page about one account, which a person may change: `read(account)` gives its parts. Returns what fills it again. */
export async function accountPage(main, read) {
  const result = el("div");
  const fill = async () => result.replaceChildren(...(await read(choice.account)));
  const choice = await accountChoice(main, () => attempt(choice.place.querySelector("select"), fill));
  if (!choice) return undefined;
  main.append(rowForm(() => {}, choice.place), result);
  await fill();
  return fill;
}

/**
 * The choice of an account: `account` is the chosen one, `place` the field, and `changed()` is called for each choice.
 * Without an account that `fits`, the page says `none`, and there is no choice.
 */
export async function accountChoice(main, changed, { none = "This tenant has no account yet.", fits = () => true } = {}) {
  const accounts = (await ownAccounts()).filter(fits);
  if (!accounts.length) {
    main.append(el("p", {}, none));
    return null;
  }
  const made = { accounts, account: chosenAccount(accounts) };
  const input = select("account", accounts.map((each) => [each.account, shortAccount(each)]), made.account.account);
  input.addEventListener("change", () => {
    remember({ account: input.value });
    made.account = made.accounts.find((each) => each.account === input.value);
    changed();
  });
  made.place = field("Account", input);
  return made;
}

/** What a person can do for an account that refuses releases. */
export function nextStep(account) {
  const left = account.remaining.epsilon;
  const smaller = left && !account.plan ? ["Documents at a smaller epsilon still fit, up to ", number(left), " together. "] : [];
  const limit = account.subject_hash || account.plan
    ? "This limit is fixed. Other data, or other people, need a tenant of their own: ask the operator."
    : account.current_limit
      ? `The operator can raise the current limit of epsilon ${account.current_limit.epsilon} up to ${account.limit.epsilon}, the guarantee.`
      : "The limit is the guarantee, which nobody can raise. Other data need a tenant of their own: ask the operator.";
  return [...smaller, limit];
}

/** An account as people read it: the hash of a subject is cut. */
export function shortAccount(account) {
  if (!account.subject_hash) return account.account;
  const [tenant, unit, hash] = account.account.split("/");
  return `${tenant}/${unit}/${hash.slice(0, 8)}…`;
}
