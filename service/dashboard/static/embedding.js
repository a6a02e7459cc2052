// The public sentences nearest to an embedding, with and without noise. Texts, sentences and draws are public samples
// (`training/neighbours.py`), so that nothing is charged.
import { api } from "./api.js";
import { el, field, numberColumn, select, table, textColumn } from "./elements.js";

export async function embeddingPart() {
  const { epsilons, public: sentences, samples } = await api("GET", "/dashboard/static/neighbours.json");
  const sample = select("embedded", samples.map((each, index) => [String(index), each.name]));
  const slider = el("input", { type: "range", min: 0, max: epsilons.length - 1, value: epsilons.indexOf(3) });
  const steps = el("div", { class: "steps", "aria-hidden": "true" }, epsilons.map((each) => el("span", {}, each)));
  const again = el("button", { type: "button" }, "Draw again");
  const text = el("pre", { class: "output", id: "embedded-text", tabindex: "0" });
  const lists = el("div", { class: "pair" });
  const meaning = el("p", { id: "epsilon-meaning", "aria-live": "polite" });
  let draw = 0;

  const list = (caption, rows) =>
    table(
      caption,
      [
        textColumn("Sentence", ([place]) => sentences[place]),
        numberColumn("Cosine", ([, percent]) => percent / 100),
      ],
      rows,
    );
  const show = () => {
    const chosen = samples[sample.value];
    const draws = chosen.drawn[slider.value];
    const epsilon = epsilons[slider.value];
    const rows = draws[draw % draws.length];
    const kept = rows.filter(([place]) => chosen.without.some(([other]) => other === place)).length;
    slider.setAttribute("aria-valuetext", `epsilon ${epsilon}`);
    text.textContent = chosen.text;
    lists.replaceChildren(
      list("Nearest public sentences without noise, which has no guarantee", chosen.without),
      list(`Nearest with noise at epsilon ${epsilon}, draw ${(draw % draws.length) + 1} of ${draws.length}`, rows),
    );
    meaning.textContent = `${kept} of ${rows.length} sentences are the same. ${promise(epsilon)}`;
  };
  const first = () => {
    draw = 0;
    show();
  };
  sample.addEventListener("change", first);
  slider.addEventListener("input", first);
  again.addEventListener("click", () => {
    draw += 1;
    show();
  });
  show();
  return [
    el("h2", {}, "An embedding, with and without noise"),
    el(
      "p",
      { class: "hint" },
      "These texts and sentences are public samples, and their releases were drawn in advance by ",
      el("code", {}, "sentence_codes"),
      " with the pack ",
      el("code", {}, "general"),
      ": nothing that you do in this part charges your budget. Of a text of your own, the gateway releases the embedding only with noise, ",
      el("a", { href: "/dashboard/try" }, "at a price that it shows before"),
      ".",
    ),
    el("div", { class: "fields" }, field("Sample text", sample)),
    text,
    el("div", { class: "fields" }, el("div", { class: "slider" }, field("Epsilon", slider), steps), again),
    meaning,
    lists,
  ];
}

/** What epsilon means in the worst case: docs/concepts/which-epsilon.md. */
function promise(epsilon) {
  const odds = Math.exp(epsilon);
  const percent = Math.ceil((1000 * odds) / (1 + odds)) / 10;
  const certain = percent < 99.9 ? `${percent} %` : "nearly 100 %";
  return (
    `Epsilon ${epsilon} promises for one release: an attacker who knows all but one sentence, and is undecided between two for it, sees ` +
    `the odds change at most ${odds.toLocaleString(undefined, { maximumSignificantDigits: 3 })}-fold, from a certainty of 50 % to at most ${certain}.`
  );
}
