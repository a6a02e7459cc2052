// Calculations for privacy plans: POST /accounting/compare and /accounting/calibrate.
import { api, attempt } from "./api.js";
import { el, field, number, rowForm, select, table } from "./elements.js";
import { facts, given, numberField, typed } from "./parts.js";

const QUESTIONS = [
  ["noise", "What noise reaches a target?"],
  ["steps", "How many steps reach a target?"],
  ["epsilon", "What epsilon has a plan?"],
];
const MECHANISMS = [
  ["gaussian", "Gaussian"],
  ["subsampled_gaussian", "subsampled Gaussian"],
  ["laplace", "Laplace"],
  ["pure", "any pure mechanism"],
];

export function planForm() {
  const question = select("question", QUESTIONS, "noise");
  const mechanism = select("kind", MECHANISMS, "gaussian");
  const inputs = {
    epsilon: numberField("epsilon", "1", { id: "plan-epsilon" }),
    delta: numberField("delta", "1e-6", { id: "plan-delta" }),
    sampling_rate: numberField("sampling rate", "1", { id: "plan-rate" }),
    noise_multiplier: numberField("noise multiplier", "5", { id: "plan-noise" }),
    steps: numberField("steps", "10", { id: "plan-steps", inputmode: "numeric" }),
  };
  const fields = {
    mechanism: field("Mechanism", mechanism),
    epsilon: field("Epsilon", inputs.epsilon),
    delta: field("Delta", inputs.delta),
    sampling_rate: field("Sampling rate", inputs.sampling_rate),
    noise_multiplier: field("Noise multiplier", inputs.noise_multiplier),
    steps: field("Steps", inputs.steps),
  };
  const fit = () => {
    const used = usedBy(question.value, mechanism.value);
    for (const [name, part] of Object.entries(fields)) part.hidden = !used.includes(name);
  };
  question.addEventListener("change", fit);
  mechanism.addEventListener("change", fit);
  fit();
  const ask = el("button", { type: "submit" }, "Calculate the plan");
  const result = el("div", { "aria-live": "polite", id: "plan" });
  const work = async () => {
    const used = usedBy(question.value, mechanism.value);
    const values = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, used.includes(name) ? typed(input) : null]));
    result.replaceChildren();
    const parts = question.value === "epsilon" ? await compared(mechanism.value, values) : await calibrated(values);
    result.replaceChildren(...parts);
  };
  const form = rowForm(() => attempt(ask, work), field("Question", question), Object.values(fields), ask);
  return el("div", {}, form, result);
}

function usedBy(question, mechanism) {
  if (question === "noise") return ["epsilon", "delta", "sampling_rate", "steps"];
  if (question === "steps") return ["epsilon", "delta", "sampling_rate", "noise_multiplier"];
  const own = {
    gaussian: ["noise_multiplier"],
    subsampled_gaussian: ["noise_multiplier", "sampling_rate"],
    laplace: ["epsilon"],
    pure: ["epsilon"],
  };
  return ["mechanism", "delta", "steps", ...own[mechanism]];
}

async function compared(kind, { delta, steps, ...own }) {
  const found = await api("POST", "/accounting/compare", given({ mechanism: given({ kind, ...own }), steps, delta }));
  return [accountants(found.accountants, found.delta)];
}

async function calibrated({ epsilon, delta, ...own }) {
  const found = await api("POST", "/accounting/calibrate", given({ target: { epsilon, delta }, ...own }));
  const certificate = found.certificate;
  return [
    facts([
      ["Noise multiplier", number(found.noise_multiplier)],
      ["Steps", number(found.steps)],
      ["Certified epsilon", certificate && number(certificate.epsilon)],
      ["Adjacency", certificate && certificate.adjacency],
    ]),
    certificate ? null : el("p", { class: "notice" }, "No certificate: no such plan was found."),
    found.accountants.length ? accountants(found.accountants, delta) : null,
  ].filter(Boolean);
}

function accountants(rows, delta) {
  return table(
    `Epsilon at delta ${delta} by each accountant`,
    [
      { title: "Accountant", cell: (row) => (row.order === undefined ? row.name : `${row.name}, order ${row.order}`) },
      { title: "Epsilon", cell: (row) => number(row.epsilon), key: (row) => row.epsilon, number: true },
      { title: "Kind", cell: (row) => row.kind, key: (row) => row.kind },
      { title: "Note", cell: (row) => row.note || "" },
    ],
    rows,
  );
}
