// The subjects of whom least remains.
import { accountChoice, shortAccount } from "../accounts.js";
import { accountPath, api, attempt, parameters, remember } from "../api.js";
import { bar, el, field, number, numberColumn, rowForm, table } from "../elements.js";
import { given, paged } from "../parts.js";

const PAGE = 50;

export async function show(main) {
  const choice = await accountChoice(main, () => attempt(ask, list.restart), { fits: (each) => !each.subject_hash });
  if (!choice) return undefined;
  const result = el("div", { "aria-live": "polite" });
  const near = el("input", { name: "near", inputmode: "decimal", value: parameters().get("near") || "", size: 8 });
  const ask = el("button", { type: "submit" }, "Show");
  const page = (cursor) => {
    const query = new URLSearchParams(given({ limit: PAGE, near: near.value.trim(), cursor }));
    return api("GET", accountPath(choice.account.account, `/subjects?${query}`));
  };
  const list = paged("More subjects", "subjects", page, (rows, last) => result.replaceChildren(...shown(last, rows, near.value.trim())));
  const form = rowForm(
    () => {
      remember({ near: near.value.trim() });
      attempt(ask, list.restart);
    },
    choice.place,
    field("Less left than epsilon", near),
    ask,
  );
  main.append(form, result, list.more);
  await list.restart();
  return list.restart;
}

function shown(page, rows, near) {
  const parts = [];
  if (!page.up_to_date) {
    parts.push(el("p", { class: "notice" }, "Spending of the last seconds is not in the order yet."));
  }
  if (!rows.length) {
    const which = near ? `No subject has less than epsilon ${near} left.` : "No subject has spent anything.";
    parts.push(el("p", {}, `${which} Tenants in subject mode have accounts of subjects.`));
    return parts;
  }
  parts.push(
    table(
      `Subjects of ${page.account}, the least remaining first`,
      [
        { title: "Subject", cell: (row) => el("code", { class: "short", title: row.account }, shortAccount(row).split("/")[2]) },
        numberColumn("Epsilon left", (row) => row.remaining.epsilon),
        numberColumn("Limit", (row) => row.limit.epsilon),
        numberColumn("Reserved", (row) => row.reserved.epsilon),
        { title: "Left", cell: (row) => bar(row.limit.epsilon ? row.remaining.epsilon / row.limit.epsilon : 0) },
        { title: "More of it", cell: links },
      ],
      rows,
    ),
    el("p", { class: "hint" }, "The quota of the tenant has epsilon ", number(page.remaining.epsilon), " left for all subjects together. ",
      "A subject is shown by a keyed hash, which the gateway cannot turn back into its name."),
  );
  return parts;
}

function links(row) {
  const query = `?account=${encodeURIComponent(row.account)}`;
  return ["headroom", "journal", "bounds"].map((name, index) => [
    index ? ", " : "",
    el("a", { href: `/dashboard/${name}${query}` }, name),
  ]);
}
