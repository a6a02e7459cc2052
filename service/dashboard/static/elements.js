// Elements of pages. Every value from the gateway becomes text, never markup.

/** An element. `attributes`: names to values; `on...` to a listener; a value of null or false is left out. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children) {
    if (Array.isArray(child)) append(parent, child);
    else if (child !== null && child !== undefined) parent.append(child instanceof Node ? child : String(child));
  }
}

/** A number as people read it; its exact value is the title. */
export function number(value) {
  if (value === null || value === undefined) return "–";
  const shown = value.toLocaleString(undefined, { maximumSignificantDigits: 6 });
  return el("span", { title: String(value), "data-value": String(value) }, shown);
}

/** A sum of amounts without the rounding of floating point: epsilons are multiples of 1e-9. */
export function exact(sum) {
  return Math.round(sum * 1e9) / 1e9;
}

/** A time in the local zone; UTC is the title. */
export function time(ms) {
  if (ms === null || ms === undefined) return "–";
  const at = new Date(ms);
  const shown = at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return el("time", { datetime: at.toISOString(), title: at.toISOString() }, shown);
}

/** The start of a long id. A click shows and copies the whole. */
export function identifier(value) {
  if (value === null || value === undefined || value === "") return "–";
  const text = String(value);
  if (text.length <= 10) return el("code", { "data-value": text }, text);
  const shown = el("button", { type: "button", class: "id", title: text, "data-value": text }, `${text.slice(0, 8)}…`);
  shown.addEventListener("click", async () => {
    shown.textContent = text;
    shown.classList.add("whole");
    await navigator.clipboard?.writeText(text).catch(() => {}); // without the right to copy, the text can be selected
  });
  return shown;
}

/** A length of time. */
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const units = [["d", 86400e3], ["h", 3600e3], ["min", 60e3], ["s", 1e3]];
  const [name, size] = units.find((each) => ms >= each[1]) || ["ms", 1];
  return `${(ms / size).toLocaleString(undefined, { maximumFractionDigits: 1 })} ${name}`;
}

/** A share of 1 as a bar. The colour alone says nothing: the text beside it has the figure. */
export function bar(share) {
  const width = Math.max(0, Math.min(1, share)) * 100;
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 1");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const rect = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  rect.setAttribute("width", String(width));
  rect.setAttribute("height", "1");
  svg.append(rect);
  return el("div", { class: "bar" }, svg);
}

export function card(label, value, more) {
  return el("div", { class: "card" }, el("div", { class: "label" }, label), el("div", { class: "value" }, value), more);
}

/**
 * A table that sorts by a click on a heading.
 * columns: `{title, cell(row), key?(row), number?, wide?}`; `key` gives what to sort by, and without it a column does not
 * sort. `wide`: takes a whole line where a row is a block. `filtered`: with a field that hides rows, and its own scroll bar.
 */
export function table(caption, columns, rows, { filtered = false } = {}) {
  // The roles remain on a narrow screen, where the style sheet makes a block of each row.
  const body = el("tbody", { role: "rowgroup" });
  let order = null;
  const fill = () => {
    const sorted = order === null ? rows : [...rows].sort((a, b) => compare(order.key(a), order.key(b)) * order.sign);
    body.replaceChildren(
      ...sorted.map((row) =>
        el("tr", { role: "row" }, columns.map((column) => cellOf(column, row))),
      ),
    );
  };
  const heads = columns.map((column) => {
    const head = el("th", { scope: "col", role: "columnheader", class: column.number ? "number" : null });
    if (!column.key) {
      head.append(column.title);
      return head;
    }
    const sort = () => {
      const sign = order !== null && order.column === column ? -order.sign : column.number ? -1 : 1;
      order = { column, key: column.key, sign };
      heads.forEach((each) => each.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", sign > 0 ? "ascending" : "descending");
      fill();
    };
    head.append(el("button", { type: "button", onclick: sort }, column.title));
    return head;
  });
  fill();
  const top = el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, heads));
  const made = el("table", { role: "table" }, el("caption", {}, caption), top, body);
  const region = el("div", { class: filtered ? "scroll tall" : "scroll", tabindex: "0", role: "region", "aria-label": caption }, made);
  if (!filtered) return region;
  const words = el("input", { type: "search", "aria-label": `Filter: ${caption}`, placeholder: "Filter" });
  words.addEventListener("input", () => {
    const wanted = words.value.trim().toLowerCase();
    for (const row of body.rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
  });
  return el("div", {}, words, region);
}

/** Columns of a table by what they show and sort by, `of(row)`. `more`: further members of the column. */
export function textColumn(title, of, more = {}) {
  return { title, cell: of, key: of, ...more };
}

export function codeColumn(title, of, more = {}) {
  return { title, cell: (row) => el("code", {}, of(row)), key: of, ...more };
}

export function timeColumn(title, of) {
  return { title, cell: (row) => time(of(row)), key: of };
}

export function numberColumn(title, of) {
  return { title, cell: (row) => number(of(row)), key: of, number: true };
}

function cellOf(column, row) {
  const attributes = { role: "cell", class: column.number ? "number" : column.wide ? "wide" : null, "data-label": column.title };
  return el("td", attributes, column.cell(row));
}

function compare(a, b) {
  if (a === b) return 0;
  if (a === null || a === undefined) return -1;
  if (b === null || b === undefined) return 1;
  return a < b ? -1 : 1;
}

/** A field with its label. */
export function field(label, input) {
  const id = input.id || `field-${label.toLowerCase().replace(/[^a-z0-9]+/g, "-")}`;
  input.id = id;
  return el("div", {}, el("label", { for: id }, label), input);
}

export function select(name, options, chosen) {
  return el(
    "select",
    { name },
    options.map(([value, text]) => el("option", { value, selected: value === chosen }, text)),
  );
}

/** Boxes to check under one heading, each with its value as its label. */
export function checks(legend, boxes) {
  const choices = boxes.map((box) => el("span", { class: "choice" }, box, el("label", { for: box.id }, box.value)));
  return el("fieldset", {}, el("legend", {}, legend), choices);
}

/** A form whose fields stand in a row; `work` is done when it is submitted. */
export function rowForm(work, ...children) {
  const submit = (event) => {
    event.preventDefault();
    work();
  };
  return el("form", { class: "row", onsubmit: submit }, children);
}

/** Ask before something that cannot be undone. Resolves to whether the person agreed. */
export function confirmed(question, action) {
  return new Promise((resolve) => {
    const dialog = el(
      "dialog",
      { "aria-label": question },
      el("p", {}, question),
      el(
        "form",
        { method: "dialog", class: "row" },
        el("button", { value: "yes", class: "danger" }, action),
        el("button", { value: "no", autofocus: true }, "Cancel"),
      ),
    );
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "yes");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}
