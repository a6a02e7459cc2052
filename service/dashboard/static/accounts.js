// The accounts of the tenant, and the choice of one.
import { pages, parameters, remember } from "./api.js";
import { el, field, select } from "./elements.js";

/** The tenant's own accounts, one for each unit. */
export async function ownAccounts() {
  const accounts = await pages("/budget", "accounts", 200);
  return accounts.filter((each) => !each.subject_hash);
}

/** The account that the address names, else the first. */
export function chosenAccount(accounts) {
  const wanted = parameters().get("account");
  return accounts.find((each) => each.account === wanted) || accounts[0];
}

/** A form that chooses the account of a page; `show(account)` is called for each choice. */
export function accountChoice(accounts, show) {
  const choice = select("account", accounts.map((each) => [each.account, each.account]), chosenAccount(accounts).account);
  choice.addEventListener("change", () => {
    remember({ account: choice.value });
    show(accounts.find((each) => each.account === choice.value));
  });
  return el("form", { class: "row", onsubmit: (event) => event.preventDefault() }, field("Account", choice));
}
