// The cost of a request, and calculations for plans. Nothing is charged.
import { api, attempt, parameters, remember } from "../api.js";
import { card, el, field, number, rowForm, select, table } from "../elements.js";
import { numberField, setOptions, typed, yesNo } from "../parts.js";
import { planForm } from "../plans.js";
import { namesSubjects, requestKinds } from "../requests.js";

const DOCUMENTS_MAX = 10000; // one request's own limit is far below

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
        { title: "Account", cell: (row) => el("code", {}, row.account), key: (row) => row.account },
        { title: "Unit", cell: (row) => row.unit, key: (row) => row.unit },
        { title: "Cost, epsilon", cell: (row) => number(row.cost.epsilon), key: (row) => row.cost.epsilon, number: true },
        { title: "Cost, delta", cell: (row) => number(row.cost.delta), key: (row) => row.cost.delta, number: true },
        { title: "Left now", cell: (row) => number(row.remaining.epsilon), key: (row) => row.remaining.epsilon, number: true },
        {
          title: "Left after",
          cell: (row) => number(row.remaining_after && row.remaining_after.epsilon),
          key: (row) => row.remaining_after && row.remaining_after.epsilon,
          number: true,
        },
        {
          title: "Delta left after",
          cell: (row) => number(row.remaining_after && row.remaining_after.delta),
          key: (row) => row.remaining_after && row.remaining_after.delta,
          number: true,
        },
        { title: "Allowed", cell: (row) => yesNo(row.allowed), key: (row) => row.allowed },
        { title: "Requests that fit", cell: (row) => number(row.fits), key: (row) => row.fits, number: true },
      ],
      found.accounts,
    ),
    el("p", { class: "hint" }, "Nothing was charged. “Left” is epsilon by basic composition; an account with a delta may admit more, which the number of requests counts."),
  ];
}
