// The charging requests that a tenant can make, as bodies of POST /budget/estimate. Documents are counted, not read.
import { api } from "./api.js";
import { given } from "./parts.js";

const COUNTED = "-"; // stands for a document's text

/** Endpoint to its choices, `[value, title, body({epsilon, count, subject})]`. A preset fixes its epsilon. */
export async function requestKinds() {
  const [catalogue, served] = await Promise.all([api("GET", "/models"), api("GET", "/v1/models")]);
  const embedder = catalogue.models.find((each) => each.role === "embed") || {};
  const sanitiser = catalogue.models.find((each) => each.role === "sanitize") || {};
  const presets = served.data.filter((each) => each.preset);
  const kinds = {
    "embed/sentdp": (embedder.mechanisms || []).map((name) => [name, name, sentences({ mechanism: name })]),
    "embed/vector": (embedder.vector_mechanisms || []).map((name) => [name, name, vectors({ mechanism: name })]),
    "v1/embeddings": presets.map((each) => [each.id, each.id, presetBody(each.preset)]),
    sanitize: [
      ...(sanitiser.word_mechanisms || []).map((name) => [`metric_dp ${name}`, `metric_dp, ${name}`, words({ mode: "metric_dp", mechanism: name })]),
      ["dp slot", "dp, each masked place", words({ mode: "dp", scope: "slot" })],
      ["dp document", "dp, the whole document", words({ mode: "dp", scope: "document" })],
    ],
  };
  return Object.fromEntries(Object.entries(kinds).filter(([, choices]) => choices.length));
}

/** What POST /budget/estimate takes for a request by a preset. */
export function presetBody(preset) {
  const { endpoint, subject: rule, epsilon: fixed, ...parameters } = preset;
  const make = endpoint === "sentdp" ? sentences(parameters) : vectors(parameters);
  return ({ count, subject }) => make({ epsilon: fixed, count, subject: rule === "none" ? null : subject });
}

function sentences(parameters) {
  return ({ epsilon, count, subject }) => given({ documents: filled(count, { text: COUNTED }), epsilon, ...parameters, subject });
}

function vectors(parameters) {
  return ({ epsilon, count, subject }) => given({ texts: filled(count, COUNTED), epsilon, ...parameters, subject });
}

function words(fill) {
  return ({ epsilon, count, subject }) => ({
    documents: filled(count, given({ text: COUNTED, subject })),
    mask: { techniques: ["all"] },
    fill: given({ ...fill, epsilon }),
  });
}

function filled(count, value) {
  return Array(count).fill(value);
}

/** Whether the tenant's releases must name a subject. */
export async function namesSubjects() {
  try {
    await api("POST", "/budget/estimate", { documents: [{ text: COUNTED }], epsilon: 1 });
    return false;
  } catch (error) {
    return error.code === "subject-required";
  }
}
