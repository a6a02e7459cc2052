// How far the ledger is sealed and audited, what is open, and what was lost: of one tenant, or of all for the operator.
import { api } from "../api.js";
import { card, codeColumn, duration, el, number, numberColumn, table, textColumn, time, timeColumn } from "../elements.js";
import { action, given, paged, regularly, statementLinks, yesNo } from "../parts.js";

const PAGE = 50;
const SEALS = [
  "A seal is a keyed hash over every entry since the seal before, so a change of an entry or an older copy is found. ",
  "A ledger in which nothing happens is not sealed again. As of ",
];

export async function show(main, session) {
  if (session.operator) return showAll(main);
  const result = el("div");
  const fill = async () => result.replaceChildren(...shown(await api("GET", "/budget/integrity")));
  main.append(result, el("h2", {}, "Statement for an auditor"), statementLinks("/budget/statement"));
  await fill();
  return fill;
}

function shown(found) {
  return [
    el("div", { class: "cards" }, sealCard(found), journalCard(found.journal), holdsCard(found), auditCard(found.last_audit, found.journal.entries, found.at_ms)),
    el("h2", {}, "Spent without an output"),
    el("p", { class: "hint" }, "Charged for work whose result was lost: the gateway had drawn noise, or could not know that it had not."),
    table(
      "Epsilon spent without an output, by unit",
      [
        textColumn("Unit", (row) => row.unit),
        numberColumn("Epsilon", (row) => row.epsilon),
        numberColumn("Delta", (row) => row.delta),
        numberColumn("Releases", (row) => row.releases),
      ],
      found.spent_without_output,
    ),
    el("p", { class: "hint" }, SEALS, time(found.at_ms), "."),
  ];
}

async function showAll(main) {
  const cards = el("div", { class: "cards" });
  const result = el("div");
  const asOf = el("p", { class: "hint" });
  const ask = (cursor) => api("GET", `/admin/integrity?${new URLSearchParams(given({ limit: PAGE, cursor }))}`);
  const now = action("Audit now", async () => {
    await api("POST", "/admin/integrity/audit");
    do {
      await new Promise((resolve) => setTimeout(resolve, 1000));
      await list.restart();
    } while (list.page.auditing);
  });
  const list = paged("More tenants", "tenants", ask, (tenants, page) => {
    const cardOfAudit = auditCard(page.last_audit, page.entries, page.at_ms, page.auditing);
    cards.replaceChildren(sealCard(page), cardOfAudit, ...(page.last_audit ? auditCards(page.last_audit) : []));
    result.replaceChildren(tenantTable(tenants, page.next_cursor !== null));
    asOf.replaceChildren(...SEALS, time(page.at_ms), ".");
  });
  main.append(cards, el("p", {}, now), result, list.more, asOf);
  await list.restart();
  regularly(async () => {
    if (list.pages === 1 && !result.contains(document.activeElement)) await list.restart(); // a table in use stays as it is
  });
}

function auditCards(audit) {
  const faulty = audit.faulty.length;
  return [
    card("The chain of seals is whole", yesNo(audit.chain_ok), el("div", { class: "hint" }, number(audit.seals), " seals were read")),
    card("Tenants with faults", number(faulty), el("div", { class: faulty ? "bad" : "hint" }, faulty ? audit.faulty.join(", ") : ["of ", number(audit.tenants), " tenants"])),
  ];
}

/** `isCut`: whether there are more tenants than these. */
function tenantTable(tenants, isCut) {
  const releases = (row) => row.spent_without_output.reduce((sum, each) => sum + each.releases, 0);
  return table(
    `${isCut ? "The first tenants" : "All tenants"}, ${tenants.length}`,
    [
      codeColumn("Tenant", (row) => row.tenant),
      numberColumn("Entries", (row) => row.journal.entries),
      numberColumn("Not sealed", (row) => row.journal.unsealed),
      numberColumn("Open holds", (row) => row.open_holds.number),
      timeColumn("First deadline", (row) => row.open_holds.earliest_deadline_ms),
      { title: "Spent without an output", cell: (row) => lost(row.spent_without_output), key: releases, wide: true },
    ],
    tenants,
  );
}

/** The units in which something was lost. */
function lost(rows) {
  const found = rows.filter((row) => row.releases > 0);
  if (!found.length) return "nothing";
  return found.map((row) => el("div", {}, `${row.unit}: epsilon `, number(row.epsilon), row.delta ? [", delta ", number(row.delta)] : null, " in ", number(row.releases), row.releases === 1 ? " release" : " releases"));
}

function sealCard(found) {
  if (found.sealed_at_ms === null) return card("Last seal", "none yet");
  return card("Last seal", [el("span", { "data-value": String(found.seal_age_s) }, duration(found.seal_age_s * 1000)), " ago"], [
    el("div", { class: "hint" }, "epoch ", number(found.epoch), ", ", time(found.sealed_at_ms)),
  ]);
}

function journalCard(journal) {
  const waits = journal.unsealed > 0;
  return card("Entries sealed", [number(journal.sealed), el("span", { class: "hint" }, " of "), number(journal.entries)], [
    waits
      ? el("div", { class: "label-warn" }, number(journal.unsealed), " not sealed yet")
      : el("div", { class: "label-good", "data-value": "0" }, "all sealed"),
    journal.seal === null ? null : el("div", { class: "hint" }, "the last one in seal ", number(journal.seal)),
  ]);
}

function holdsCard(found) {
  const holds = found.open_holds;
  const deadline = holds.earliest_deadline_ms;
  if (!holds.number) return card("Open holds", number(holds.number), el("div", { class: "hint" }, "nothing is in flight"));
  return card("Open holds", number(holds.number), [
    el("div", { class: "hint" }, deadline === null ? "no deadline" : ["the first counts as spent at ", time(deadline)]),
  ]);
}

/** What the last audit found, how many of the `entries` of now it has read, and its age. Good is what it read whole. */
function auditCard(audit, entries, at_ms, isRunning = false) {
  const running = isRunning ? el("div", { class: "hint" }, "an audit runs now") : null;
  if (audit === null) return card("Last audit", "none yet", running || el("div", { class: "hint" }, "the operator audits the ledger"));
  const word = audit.ok ? (audit.entries < entries ? "label-warn" : "label-good") : "bad";
  return card("Last audit", el("span", { class: word }, audit.ok ? "no fault" : "faults found"), [
    el("div", { class: audit.entries < entries ? "label-warn" : "hint" }, "in ", number(audit.entries), " of ", number(entries), " entries"),
    el("div", { class: "hint" }, el("span", {}, duration(Math.max(0, at_ms - audit.at_ms))), " ago, ", time(audit.at_ms)),
    running,
  ]);
}
