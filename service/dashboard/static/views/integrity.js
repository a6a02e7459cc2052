// How far the ledger is sealed and audited, what is open, and what was lost.
import { api } from "../api.js";
import { card, duration, el, number, table, time } from "../elements.js";

export async function show(main) {
  const fill = async () => main.replaceChildren(...shown(await api("GET", "/budget/integrity")));
  await fill();
  return fill;
}

function shown(found) {
  return [
    el("div", { class: "cards" }, sealCard(found), journalCard(found.journal), holdsCard(found), auditCard(found)),
    el("h2", {}, "Spent without an output"),
    el("p", { class: "hint" }, "Charged for work whose result was lost: the gateway had drawn noise, or could not know that it had not."),
    table(
      "Epsilon spent without an output, by unit",
      [
        { title: "Unit", cell: (row) => row.unit, key: (row) => row.unit },
        { title: "Epsilon", cell: (row) => number(row.epsilon), key: (row) => row.epsilon, number: true },
        { title: "Delta", cell: (row) => number(row.delta), key: (row) => row.delta, number: true },
        { title: "Releases", cell: (row) => number(row.releases), key: (row) => row.releases, number: true },
      ],
      found.spent_without_output,
    ),
    el("p", { class: "hint" }, "A seal is a keyed hash over every entry since the seal before, so a change of an entry or an older copy is found. ",
      "A ledger in which nothing happens is not sealed again. As of ", time(found.at_ms), "."),
  ];
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

function auditCard(found) {
  const audit = found.last_audit;
  if (audit === null) {
    return card("Last audit", "none yet", el("div", { class: "hint" }, "run ", el("code", {}, "privacy-gateway ledger audit")));
  }
  const result = audit.ok ? el("span", { class: "label-good" }, "no fault") : el("span", { class: "bad" }, "faults found");
  return card("Last audit", result, el("div", { class: "hint" }, time(audit.at_ms)));
}
