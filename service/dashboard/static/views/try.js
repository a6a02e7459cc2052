// One document in, the private answer beside it. The text stays in this page: no address, storage or history has it.
import { api, attempt, showProblem } from "../api.js";
import { card, el, field, number, select } from "../elements.js";
import { copyButton } from "../parts.js";
import { namesSubjects } from "../requests.js";
import { curlCode, httpxCode, KEY, openaiCode } from "../try_code.js";
import { tryForms } from "../try_forms.js";

const PAUSE_MS = 300;
const NUMBERS_SHOWN = 16;

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
