// The forms of the endpoints that a document can be tried on.
import { api } from "./api.js";
import { el, field, select } from "./elements.js";
import { given, numberField } from "./parts.js";
import { presetBody } from "./requests.js";

const COUNTED = "-"; // stands for the document in an estimate, so that its text is sent by the click alone
const PRICED_FILLS = ["metric_dp", "dp"];
const FREE = "This fill costs nothing.";

/**
 * One form for each endpoint: `path`; `fields`; `fit()` shows the fields that count; `body(text, subject)` of the
 * endpoint; `estimate(subject)`: the body of POST /budget/estimate; `isFree(error)`: whether there is nothing to pay, by
 * what was chosen or by the error of an estimate; `openai`: whether an OpenAI client can send it.
 */
export async function tryForms() {
  const [catalogue, served, domains, policies] = await Promise.all([
    api("GET", "/models"),
    api("GET", "/v1/models"),
    api("GET", "/domains"),
    api("GET", "/policies"),
  ]);
  const role = (name) => catalogue.models.find((each) => each.role === name) || {};
  return [
    sentences(role("embed").mechanisms || ["sentence_codes"], domains.domains),
    sanitised([...(role("sanitize").fills || ["class_marker"]), ...(role("fill").fills || [])], policies.policies),
    embeddings(served.data.filter((each) => each.preset)),
  ];
}

function sentences(mechanisms, domains) {
  const mechanism = select("mechanism", mechanisms.map((name) => [name, name]));
  mechanism.id = "try-mechanism";
  const epsilon = numberField("epsilon", "10", { id: "try-epsilon" });
  const domain = select("domain", domains.filter((each) => each.usable !== false).map((each) => [each.name, each.name]), "general");
  const body = (text, subject) =>
    given({ documents: [{ text }], epsilon: Number(epsilon.value), mechanism: mechanism.value, domain: domain.value, subject });
  return {
    path: "/embed/sentdp",
    fields: [field("Mechanism", mechanism), field("Epsilon", epsilon), field("Domain", domain)],
    fit: () => {},
    body,
    estimate: (subject) => body(COUNTED, subject),
    isFree: () => false,
    openai: false,
  };
}

function sanitised(fills, policies) {
  const usual = policies.find((each) => each.default);
  const policy = select("policy", [["", usual ? `the default, ${usual.name}` : "none"], ...policies.map((each) => [each.name, each.name])]);
  const mode = select("fill", [...new Set(fills)].map((name) => [name, name]), "class_marker");
  const epsilon = numberField("epsilon", "10", { id: "fill-epsilon" });
  const modeField = field("Fill", mode);
  const epsilonField = field("Epsilon of the fill", epsilon);
  const own = () => !policy.value && !(usual && usual.enforced);
  const isPriced = () => own() && PRICED_FILLS.includes(mode.value);
  const body = (text, subject) => ({
    documents: [given({ text, subject })],
    ...given({ policy: policy.value }),
    ...(own() ? { fill: given({ mode: mode.value, epsilon: isPriced() ? Number(epsilon.value) : null }) } : {}),
  });
  return {
    path: "/sanitize",
    fields: [field("Policy", policy), modeField, epsilonField],
    fit: () => {
      modeField.hidden = !own();
      epsilonField.hidden = !isPriced();
    },
    body,
    // without a fill, the estimate takes the body for one of another endpoint
    estimate: (subject) => ({ policy: null, ...body(COUNTED, subject) }),
    isFree: (error) => (error ? Boolean(error.content) && error.content.detail === FREE : own() && !isPriced()),
    openai: false,
  };
}

function embeddings(presets) {
  const model = select("model", presets.map((each) => [each.id, each.id]));
  const preset = () => presets.find((each) => each.id === model.value).preset;
  return {
    path: "/v1/embeddings",
    fields: [field("Model", model), el("p", { class: "hint" }, "A preset fixes the mechanism and epsilon.")],
    fit: () => {},
    body: (input, user) => given({ model: model.value, input, user }),
    estimate: (subject) => presetBody(preset())({ count: 1, subject }),
    isFree: () => false,
    openai: true,
  };
}
