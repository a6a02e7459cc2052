// Policies, presets, models, domains and entities: what is installed and which rules apply.
import { api } from "../api.js";
import { el, numberColumn, table } from "../elements.js";
import { flag, yesNo } from "../parts.js";

export async function show(main) {
  const [policies, models, served, domains, entities] = await Promise.all([
    api("GET", "/policies"),
    api("GET", "/models"),
    api("GET", "/v1/models"),
    api("GET", "/domains"),
    api("GET", "/entities"),
  ]);
  main.append(
    el("h2", {}, "Policies of /sanitize"),
    policies.policies.length ? policyTable(policies.policies) : el("p", {}, "The operator has set none for this tenant."),
    el("h2", {}, "Presets and served models"),
    modelTable(served.data),
    el("h2", {}, "Workers' models"),
    workerTable(models.models),
    models.fine_tuned.length ? el("details", {}, el("summary", {}, "Fine-tuned models"), json(models.fine_tuned)) : "",
    el("h2", {}, "Domains of /embed/sentdp"),
    domainTable(domains.domains),
    el("h2", {}, "Entities that /sanitize recognises"),
    entityTable(entities.entities),
  );
}

function named(title, name) {
  return { title, cell: (row) => row[name] ?? "–", key: (row) => row[name] };
}

function long(text) {
  return el("span", { class: "long" }, text);
}

function json(value) {
  return el("pre", { class: "output", tabindex: "0" }, JSON.stringify(value, null, 1));
}

function short(value) {
  return Object.entries(value)
    .map(([name, each]) => `${name}: ${typeof each === "object" ? JSON.stringify(each) : each}`)
    .join("; ");
}

function policyTable(rows) {
  return table(
    "Policies",
    [
      { title: "Policy", cell: (row) => el("code", { class: "name" }, row.name), key: (row) => row.name },
      { title: "Default", cell: (row) => flag(row.default), key: (row) => row.default },
      { title: "Enforced", cell: (row) => flag(row.enforced), key: (row) => row.enforced },
      { title: "Mask", cell: (row) => long(short(row.mask)), wide: true },
      { title: "Fill", cell: (row) => long(short(row.fill)), wide: true },
      { title: "Recognisers", cell: (row) => row.recognisers.map((each) => each.name).join(", "), wide: true },
    ],
    rows,
    { filtered: true },
  );
}

function modelTable(rows) {
  const preset = (row) => row.preset || {};
  return table(
    "Models that an OpenAI client can name",
    [
      { title: "Model", cell: (row) => el("code", { class: "name" }, row.id), key: (row) => row.id },
      named("From", "owned_by"),
      { title: "Endpoint", cell: (row) => preset(row).endpoint || "–", key: (row) => preset(row).endpoint },
      { title: "Mechanism", cell: (row) => preset(row).mechanism || "–", key: (row) => preset(row).mechanism },
      numberColumn("Epsilon", (row) => preset(row).epsilon),
      { title: "Domain", cell: (row) => preset(row).domain || "–", key: (row) => preset(row).domain },
    ],
    rows,
  );
}

function workerTable(rows) {
  const encoder = (row) => (row.encoder ? `${row.encoder.name}, ${row.encoder.dimension} dimensions, ${row.encoder.device}` : "");
  const tagger = (row) => (row.tagger ? `tagger ${row.tagger.name || ""}` : "");
  const infill = (row) => (row.infill ? `language model ${row.infill.name || ""}` : "");
  return table(
    "Roles of workers",
    [
      named("Role", "role"),
      { title: "Ready", cell: (row) => yesNo(row.ready), key: (row) => row.ready },
      named("Stage", "stage"),
      { title: "Model", cell: (row) => [encoder(row), tagger(row), infill(row)].filter(Boolean).join("; ") || "–" },
      { title: "Mechanisms and fills", cell: (row) => long([...(row.mechanisms || []), ...(row.vector_mechanisms || []), ...(row.fills || [])].join(", ")), wide: true },
    ],
    rows,
  );
}

function domainTable(rows) {
  return table(
    "Domains",
    [
      { title: "Domain", cell: (row) => el("code", { class: "name" }, row.name), key: (row) => row.name },
      named("Scope", "scope"),
      { title: "Usable", cell: (row) => yesNo(row.usable), key: (row) => row.usable },
      numberColumn("Dimension", (row) => row.dimension),
      { title: "Source", cell: (row) => long(row.source ?? "–"), wide: true },
      { title: "Licence", cell: (row) => long(row.licence ?? "–"), wide: true },
    ],
    rows,
  );
}

function entityTable(rows) {
  return table(
    `${rows.length} entities`,
    [
      { title: "Entity", cell: (row) => el("code", { class: "name" }, row.name), key: (row) => row.name },
      { title: "By default", cell: (row) => flag(row.default), key: (row) => row.default },
      numberColumn("Threshold", (row) => row.threshold),
      { title: "Found by", cell: (row) => row.recognisers.join(", "), key: (row) => row.recognisers.join() },
      { title: "Languages", cell: (row) => row.languages.join(", "), key: (row) => row.languages.join() },
    ],
    rows,
    { filtered: true },
  );
}
