// A text, what a language model would see of it, and what comes back. Texts stay in this page, as in `try.js`.
import { api, attempt } from "../api.js";
import { embeddingPart } from "../embedding.js";
import { el, field, number, select, table, textColumn } from "../elements.js";
import { given } from "../parts.js";

const SAMPLES = [
  [
    "A customer writes",
    `Hi, this is Maren Holloway. My order 4471-889 went to my old address, 18 Larkfield Road, Leeds LS6 2QT.
Please call me on 0113 496 0182 or write to maren.holloway@mail.example. I paid with IBAN GB33BUKB20201555555555.`,
  ],
  [
    "Ein Brief auf Deutsch",
    `Sehr geehrte Frau Dr. Tannhoff,
Ihr Patient Jonas Winterberg, geboren am 14.03.1971, wohnt jetzt in der Lindenallee 7, 01309 Dresden.
Seine Telefonnummer ist 0351 4972113. Der Morbus Parkinson ist stabil.`,
  ],
  [
    "A chat with a question",
    `Agent: What is your passport number?
Noor: 533380006
Agent: And who travels with you?
Noor: my brother Idris, idris.vance@post.example`,
  ],
  [
    "A log with secrets",
    `2026-03-04 09:12:07 INFO login user=t.okafor ip=203.0.113.77
2026-03-04 09:12:09 WARN retry DATABASE_URL=postgres://app:Hn7-kelp-Tundra@db.internal:5432/orders
2026-03-04 09:12:10 INFO image web-frontend:3.11.0 started`,
  ],
];
const FILLS = [
  ["surrogate", "surrogates"],
  ["class_marker", "types"],
  ["marker", "markers"],
];
const OWN = "own"; // a mask and a fill of this form, in place of a policy

export async function show(main) {
  const [catalogue, policies] = await Promise.all([api("GET", "/entities"), api("GET", "/policies")]);
  const text = el("textarea", { autocomplete: "off", spellcheck: "false", rows: 8 });
  text.value = SAMPLES[0][1];
  const sample = select("sample", SAMPLES.map(([name], index) => [String(index), name]));
  sample.addEventListener("change", () => (text.value = SAMPLES[sample.value][1]));
  const policy = select("policy", [[OWN, "none: choose here"], ...policies.policies.map((each) => [each.name, each.name])]);
  const profile = select("profile", [["", "all usual types"], ...Object.keys(catalogue.profiles).map((name) => [name, `profile ${name}`])]);
  const fill = select("fill", FILLS);
  const own = [field("What is masked", profile), field("What replaces it", fill)];
  policy.addEventListener("change", () => own.forEach((each) => (each.hidden = policy.value !== OWN)));
  const result = el("div", { id: "seen", "aria-live": "polite" });
  const button = el("button", { type: "submit" }, "Show what a model would see");
  const body = () => ({
    documents: [{ text: text.value }],
    return_spans: true,
    reversible: true,
    ...(policy.value === OWN ? { mask: given({ profile: profile.value }), fill: { mode: fill.value } } : { policy: policy.value }),
  });
  const work = async () => {
    result.replaceChildren();
    const sent = text.value;
    const answer = await api("POST", "/sanitize", body());
    result.replaceChildren(...seen(sent, answer));
  };
  main.append(
    el(
      "form",
      { onsubmit: (event) => (event.preventDefault(), attempt(button, work)) },
      el("div", { class: "fields" }, field("Sample", sample), field("Policy", policy), own),
      field("Text", text),
      el("p", {}, button),
    ),
    result,
    ...(await embeddingPart()),
  );
}

function seen(text, answer) {
  const row = answer.data[0];
  const letters = [...text]; // positions are in code points
  const spans = (row.spans || []).filter((each) => each.original_start !== undefined);
  const reply = el("textarea", { rows: 8, autocomplete: "off", spellcheck: "false" });
  reply.value = row.text;
  const back = el("pre", { class: "output", id: "restored", tabindex: "0" });
  const restore = async () => {
    const restored = await api("POST", "/restore", { texts: [reply.value], restore_token: answer.restore_token });
    back.textContent = restored.data[0].text;
  };
  const again = el("button", { type: "button" }, "Put the originals back");
  again.addEventListener("click", () => attempt(again, restore));
  attempt(again, restore);
  return [
    el(
      "div",
      { class: "pair" },
      el("section", { "aria-label": "Your text" }, el("h2", {}, "Your text, with what was found"), marked(letters, spans)),
      el(
        "section",
        { "aria-label": "What the model sees" },
        el("h2", {}, "What the model sees"),
        el("pre", { class: "output", id: "model-text", tabindex: "0" }, row.text),
      ),
    ),
    el("p", { class: "notice" }, answer.privacy.note || "Masking has no mathematical guarantee: what is not found leaves."),
    found(letters, spans),
    el("h2", {}, "What comes back"),
    el("p", { class: "hint" }, "The model answers with what it saw. Write an answer of your own; the gateway puts the originals back."),
    el("div", { class: "pair" }, el("div", {}, field("The model's answer", reply), el("p", {}, again)), el("section", { "aria-label": "Restored" }, back)),
  ];
}

/** The text with each find as a mark that names its type. */
function marked(letters, spans) {
  const shown = [];
  let read = 0;
  for (const span of [...spans].sort((a, b) => a.original_start - b.original_start)) {
    shown.push(letters.slice(read, span.original_start).join(""));
    const find = letters.slice(span.original_start, span.original_end).join("");
    shown.push(el("mark", { title: reason(span) }, find, el("span", { class: "type" }, span.type)));
    read = span.original_end;
  }
  shown.push(letters.slice(read).join(""));
  return el("pre", { class: "output", id: "marked", tabindex: "0" }, shown);
}

function reason(span) {
  const score = span.score === undefined ? "" : `, score ${span.score}`;
  return `${span.type}${score}${span.recogniser ? `, found by ${span.recogniser}` : ""}`;
}

function found(letters, spans) {
  if (!spans.length) return el("p", {}, "Nothing was found.");
  const columns = [
    textColumn("Found", (span) => letters.slice(span.original_start, span.original_end).join(""), { wide: true }),
    textColumn("Type", (span) => span.type),
    { title: "Score", cell: (span) => number(span.score), key: (span) => span.score ?? 0, number: true },
    textColumn("Found by", (span) => span.recogniser || "–"),
  ];
  return table("What was found, and why", columns, spans);
}
