// The cost of a request, and calculations for plans (POST /accounting/compare and /accounting/calibrate). Nothing is charged.
import { api, attempt, parameters, remember } from "../api.js";
import { card, codeColumn, el, field, number, numberColumn, rowForm, select, table, textColumn } from "../elements.js";
import { facts, given, numberField, setOptions, typed, yesNo } from "../parts.js";
import { namesSubjects, requestKinds } from "../requests.js";

const DOCUMENTS_MAX = 10000; // one request's own limit is far below
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

export async function show(main) {
  const [kinds, subjects] = await Promise.all([requestKinds(), namesSubjects()]);
  const request = requestForm(kinds, subjects);
  main.append(
    el("h2", {}, "A request"),
    request.place,
    el("h2", {}, "A plan"),
    el("p", { class: "hint" }, "For noise that you add yourself. It concerns no account of this gateway."),
    planForm(),
  );
  if (!subjects) await request.again();
  return request.again;
}

function requestForm(kinds, subjects) {
  const asked = parameters();
  const endpoint = select("endpoint", Object.keys(kinds).map((name) => [name, `/${name}`]), asked.get("endpoint"));
  const mechanism = select("mechanism", []);
  const epsilon = numberField("epsilon", asked.get("epsilon") || "1");
  const count = numberField("documents", asked.get("documents") || "1", { inputmode: "numeric", size: 6 });
  const subject = el("input", { name: "subject", autocomplete: "off", spellcheck: "false", maxlength: 256 });
  const ask = el("button", { type: "submit" }, "Calculate");
  const result = el("div", { "aria-live": "polite", id: "estimate" });
  const epsilonField = field("Epsilon of a document", epsilon);
  const fit = (wanted) => {
    setOptions(mechanism, (kinds[endpoint.value] || []).map(([value, title]) => [value, title]), wanted);
    epsilonField.hidden = endpoint.value === "v1/embeddings";
  };
  fit(asked.get("mechanism"));
  endpoint.addEventListener("change", () => fit());

  const work = async () => {
    const make = kinds[endpoint.value].find(([value]) => value === mechanism.value)[2];
    const documents = typed(count);
    if (!(Number.isInteger(documents) && documents > 0 && documents <= DOCUMENTS_MAX)) {
      throw new Error(`The number of documents is between 1 and ${DOCUMENTS_MAX}.`);
    }
    const body = make({ epsilon: typed(epsilon), count: documents, subject: subject.value });
    remember({ endpoint: endpoint.value, mechanism: mechanism.value, epsilon: epsilon.value, documents: count.value });
    let shown = []; // a figure of another request must not stay beside a problem
    try {
      shown = answer(await api("POST", "/budget/estimate", body));
    } finally {
      result.replaceChildren(...shown);
    }
  };
  const form = rowForm(
    () => attempt(ask, work),
    field("Endpoint", endpoint),
    field("Mechanism or preset", mechanism),
    epsilonField,
    field("Documents", count),
    subjects ? field("Subject", subject) : null,
    ask,
  );
  const again = async () => {
    if (subjects && !subject.value) return;
    await attempt(ask, work);
  };
  return { place: el("div", {}, form, result), again };
}

function answer(found) {
  const verdict = found.allowed ? el("span", { class: "good" }, "yes") : el("span", { class: "bad" }, "no");
  const { guarantee, unit, mechanism, adjacency } = found.privacy;
  return [
    el(
      "div",
      { class: "cards" },
      card("Allowed now", verdict),
      card("Such requests that fit", number(found.fits)),
      card("Guarantee", guarantee, el("div", { class: "hint" }, `${mechanism}, for one ${unit}`)),
    ),
    el("p", { class: "hint" }, `What it hides: ${adjacency}.`),
    table(
      "What each account pays",
      [
        codeColumn("Account", (row) => row.account),
        textColumn("Unit", (row) => row.unit),
        numberColumn("Cost, epsilon", (row) => row.cost.epsilon),
        numberColumn("Cost, delta", (row) => row.cost.delta),
        numberColumn("Left now", (row) => row.remaining.epsilon),
        numberColumn("Left after", (row) => row.remaining_after && row.remaining_after.epsilon),
        numberColumn("Delta left after", (row) => row.remaining_after && row.remaining_after.delta),
        { title: "Allowed", cell: (row) => yesNo(row.allowed), key: (row) => row.allowed },
        numberColumn("Requests that fit", (row) => row.fits),
      ],
      found.accounts,
    ),
    el("p", { class: "hint" }, "Nothing was charged. “Left” is epsilon by basic composition; an account with a delta may admit more, which the number of requests counts."),
  ];
}

function planForm() {
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
      numberColumn("Epsilon", (row) => row.epsilon),
      textColumn("Kind", (row) => row.kind),
      { title: "Note", cell: (row) => row.note || "" },
    ],
    rows,
  );
}
