// One document in, the private answer beside it. The text stays in this page: no address, storage or history has it.
// As code, texts are quoted for the language that they are in; the key is a variable of the environment.
import { api, attempt, showProblem } from "../api.js";
import { card, el, field, number, select } from "../elements.js";
import { copyButton, given, numberField } from "../parts.js";
import { namesSubjects, presetBody } from "../requests.js";

const PAUSE_MS = 300;
const NUMBERS_SHOWN = 16;
const COUNTED = "-"; // stands for the document in an estimate, so that its text is sent by the click alone
const PRICED_FILLS = ["metric_dp", "dp"];
const FREE = "This fill costs nothing.";
const KEY = "PRIVACY_GATEWAY_KEY";

export async function show(main) {
  const [forms, subjects] = await Promise.all([tryForms(), namesSubjects()]);
  const text = el("textarea", { id: "document", autocomplete: "off", spellcheck: "false", rows: 8 });
  const subject = el("input", { autocomplete: "off", spellcheck: "false", maxlength: 256 });
  const endpoint = select("endpoint", forms.map((form) => [form.path, form.path]));
  const places = forms.map((form) => el("div", { class: "fields" }, form.fields));
  const price = el("p", { id: "price", "aria-live": "polite" });
  const release = el("button", { type: "submit", disabled: true }, "Release");
  const result = el("div", { id: "answer", "aria-live": "polite" }, el("p", { class: "hint" }, "No answer yet."));
  const code = codePart(() => ({ form: chosen(), body: body(text.value) }));
  const chosen = () => forms.find((form) => form.path === endpoint.value);
  const body = (document) => chosen().body(document, subjects ? subject.value : "");

  let asked = 0;
  let busy = false; // a release is on its way, and must not be sent twice
  let waiting = null;
  const ask = async () => {
    const mine = ++asked;
    const found = await priced(chosen(), subjects ? subject.value : "");
    if (mine !== asked) return; // the form has changed since
    price.replaceChildren(...found.shown);
    price.className = found.kind;
    release.textContent = found.cost === null ? "Release" : found.cost ? `Release and charge epsilon ${found.cost}` : "Send, at no charge";
    release.disabled = busy || !found.possible;
  };
  const changed = () => {
    places.forEach((place, index) => (place.hidden = forms[index] !== chosen()));
    forms.forEach((form) => form.fit());
    code.draw();
    release.disabled = true;
    asked += 1; // a price that is on its way is that of the form before
    clearTimeout(waiting);
    waiting = setTimeout(ask, PAUSE_MS);
  };
  text.addEventListener("input", () => code.draw());
  const work = async () => {
    const answer = await api("POST", chosen().path, body(text.value));
    result.replaceChildren(...shown(answer));
  };
  const form = el(
    "form",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        result.replaceChildren(el("p", { class: "hint" }, "Waiting for the answer…"));
        busy = true;
        const answered = await attempt(release, async () => (await work(), true));
        busy = false;
        if (!answered) result.replaceChildren(el("p", { class: "hint" }, "No answer: see the problem above. A request that failed may have been charged; the journal has it."));
        await ask().catch(showProblem);
      },
    },
    el("div", { class: "fields" }, field("Endpoint", endpoint), subjects ? field("Subject", subject) : null),
    places,
    el(
      "div",
      { class: "beside" },
      el("div", {}, field("Document", text), price, release),
      el("section", { "aria-label": "Answer" }, el("h2", {}, "Answer"), result),
    ),
  );
  form.addEventListener("change", (event) => event.target !== text && changed());
  main.append(
    form,
    el("h2", {}, "The same call as code"),
    el("p", { class: "hint" }, "Put an API key into the variable ", el("code", {}, KEY), ". Running the code sends the document again, and pays again."),
    code.place,
  );
  changed();
  return ask; // the price beside what is left, after each change of the budget
}

/** What the click will cost, as a sentence; `cost` is null where the gateway gave no price. */
async function priced(form, subject) {
  const free = { shown: ["This charges nothing, and has no mathematical guarantee."], kind: "hint", cost: 0, possible: true };
  if (form.isFree()) return free;
  try {
    const found = await api("POST", "/budget/estimate", form.estimate(subject));
    const accounts = found.accounts.map((row) => [
      el("code", {}, row.account),
      " pays epsilon ",
      number(row.cost.epsilon),
      " of ",
      number(row.remaining.epsilon),
      " left. ",
    ]);
    const { guarantee, unit } = found.privacy;
    const cost = Math.max(...found.accounts.map((row) => row.cost.epsilon));
    const last = found.allowed ? `Guarantee: ${guarantee}, for one ${unit}.` : "The budget does not admit it.";
    return {
      shown: ["This charges the budget and cannot be undone. ", accounts, last].flat(3),
      kind: found.allowed ? "notice" : "error",
      cost,
      possible: found.allowed,
    };
  } catch (error) {
    if (form.isFree(error)) return free;
    return { shown: [`No price: ${error.message}`], kind: "error", cost: null, possible: false };
  }
}

function shown(answer) {
  const row = answer.data[0];
  const { guarantee, unit, epsilon } = answer.privacy;
  const left = answer.budget && [number(answer.budget.remaining.epsilon), el("span", { class: "hint" }, " epsilon")];
  return [
    row.text === undefined ? vector(row.embedding) : el("pre", { class: "output", id: "private-text", tabindex: "0" }, row.text),
    el(
      "div",
      { class: "cards" },
      card("Epsilon", epsilon === undefined ? "none" : number(epsilon)),
      card("Guarantee", guarantee, unit && el("div", { class: "hint" }, `for one ${unit}`)),
      left && card(`Left in ${answer.budget.account}`, left),
    ),
    answer.privacy.note ? el("p", { class: "hint" }, answer.privacy.note) : null,
    el("details", {}, el("summary", {}, "Whole answer"), el("pre", { class: "output", tabindex: "0" }, JSON.stringify(answer, null, 1))),
  ].filter(Boolean);
}

function vector(values) {
  const first = values.slice(0, NUMBERS_SHOWN).map((value) => value.toFixed(4));
  return el("pre", { class: "output", tabindex: "0" }, `${first.join("  ")}  …\n${values.length} numbers`);
}

function codePart(request) {
  const language = select("language", []);
  language.id = "language";
  const place = el("pre", { id: "code", tabindex: "0", class: "output" });
  const draw = () => {
    const { form, body } = request();
    const makers = {
      curl: () => curlCode(location.origin, form.path, body),
      "Python, httpx": () => httpxCode(location.origin, form.path, body),
      ...(form.openai ? { "Python, OpenAI SDK": () => openaiCode(location.origin, body) } : {}),
    };
    const names = Object.keys(makers);
    const wanted = names.includes(language.value) ? language.value : names[0];
    if (language.options.length !== names.length) language.replaceChildren(...names.map((name) => el("option", { value: name }, name)));
    language.value = wanted;
    place.textContent = makers[wanted]();
  };
  language.addEventListener("change", draw);
  const row = el("div", { class: "fields" }, field("Language", language), copyButton(() => place.textContent, "Copy the code"));
  return { place: el("div", {}, row, place), draw };
}

/**
 * One form for each endpoint: `path`; `fields`; `fit()` shows the fields that count; `body(text, subject)` of the
 * endpoint; `estimate(subject)`: the body of POST /budget/estimate; `isFree(error)`: whether there is nothing to pay, by
 * what was chosen or by the error of an estimate; `openai`: whether an OpenAI client can send it.
 */
async function tryForms() {
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

/** A word of a POSIX shell. Nothing in single quotes is special but the quote itself. */
function shellWord(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

/** A Python literal. JSON's escapes in strings are all escapes of Python, with the same meaning. */
function pythonLiteral(value, indent = 0) {
  const inner = " ".repeat(indent + 4);
  const end = " ".repeat(indent);
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (Array.isArray(value)) {
    return `[\n${value.map((each) => `${inner}${pythonLiteral(each, indent + 4)},\n`).join("")}${end}]`;
  }
  if (typeof value === "object") {
    const members = Object.entries(value).map(([name, each]) => `${inner}${JSON.stringify(name)}: ${pythonLiteral(each, indent + 4)},\n`);
    return `{\n${members.join("")}${end}}`;
  }
  return JSON.stringify(value);
}

function curlCode(origin, path, body) {
  return [
    `curl -sS ${shellWord(origin + path)} \\`,
    `  -H "Authorization: Bearer $${KEY}" \\`,
    `  -H 'Content-Type: application/json' \\`,
    `  --data-binary ${shellWord(JSON.stringify(body))}`,
  ].join("\n");
}

function httpxCode(origin, path, body) {
  return `import os

import httpx

answer = httpx.post(
    ${JSON.stringify(origin + path)},
    headers={"Authorization": f"Bearer {os.environ['${KEY}']}"},
    json=${pythonLiteral(body, 4)},
    timeout=60,
)
answer.raise_for_status()
print(answer.json())`;
}

/** For /v1/embeddings alone. */
function openaiCode(origin, body) {
  const members = Object.entries(body).map(([name, value]) => `    ${name}=${pythonLiteral(value, 4)},\n`);
  return `import os

from openai import OpenAI

client = OpenAI(base_url=${JSON.stringify(`${origin}/v1`)}, api_key=os.environ["${KEY}"])
answer = client.embeddings.create(
${members.join("")})
print(answer.data[0].embedding[:4], answer.model_extra["budget"]["remaining"])`;
}
