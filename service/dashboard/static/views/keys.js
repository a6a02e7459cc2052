// The keys of a tenant: a list, and forms that create, rotate and revoke. Each change is asked for twice.
import { api, attempt } from "../api.js";
import { checks, confirmed, el, field, rowForm, select, table, textColumn, time, timeColumn } from "../elements.js";
import { copyButton, numberField, typed } from "../parts.js";

const ROLES = ["release", "read", "jobs", "admin"];
const USUAL = ["release", "read", "jobs"];
const DAY_S = 86400;
const OVERLAPS = [
  ["0", "at once"],
  ["3600", "after an hour"],
  ["86400", "after a day"],
  ["604800", "after 7 days"],
];

export async function show(main, session) {
  const panel = keyPanel("/keys", session.tenant);
  main.append(panel.place);
  await panel.read();
}

/** `path`: where the keys are in the API. `place` is shown; `read()` reads the keys again. */
export function keyPanel(path, tenant) {
  const list = el("div", { class: "tight" });
  const fresh = el("div", { role: "status" });
  const overlap = select("overlap", OVERLAPS, "86400");
  const read = async () => {
    const { keys } = await api("GET", path);
    list.replaceChildren(keyTable(tenant, keys, rotate, revoke));
  };
  const change = async (button, question, action, work) => {
    await attempt(button, async () => {
      if (!(await confirmed(question, action))) return;
      fresh.replaceChildren();
      const made = await work();
      if (made && made.key) fresh.replaceChildren(newKey(made));
      await read();
    });
  };
  const rotate = (key, button) => {
    const when = overlap.options[overlap.selectedIndex].text;
    const question = `Rotate the key ${key.key_id} (${key.label || "no label"}) of ${tenant}? The old key ends ${when}.`;
    return change(button, question, "Rotate the key", () => api("POST", `${path}/${key.key_id}/rotate`, { overlap_s: Number(overlap.value) }));
  };
  const revoke = (key, button) => {
    const question = `Revoke the key ${key.key_id} (${key.label || "no label"}) of ${tenant}? Whoever uses it is refused from now on.`;
    return change(button, question, "Revoke the key", () => api("DELETE", `${path}/${key.key_id}`));
  };
  const place = el(
    "div",
    {},
    fresh,
    list,
    el("p", { class: "hint" }, "A key that has ended is listed for 30 days."),
    el("div", { class: "fields" }, field("A rotated key ends", overlap)),
    el("h2", {}, "Create a key"),
    createForm(path, tenant, change),
  );
  return { place, read };
}

function createForm(path, tenant, change) {
  const label = el("input", { name: "label", maxlength: 64, autocomplete: "off" });
  const purpose = el("input", { name: "purpose", maxlength: 64, autocomplete: "off" });
  const recipient = el("input", { name: "recipient", maxlength: 64, autocomplete: "off" });
  const days = numberField("days", "", { placeholder: "never", size: 6 });
  const boxes = ROLES.map((role) => el("input", { type: "checkbox", id: `role-${role}`, value: role, checked: USUAL.includes(role) }));
  const create = el("button", { type: "submit" }, "Create");
  const submit = () => {
    const roles = boxes.filter((box) => box.checked).map((box) => box.value);
    const life = days.value.trim() ? `expires after ${days.value.trim()} days` : "does not expire";
    const question = `Create a key of ${tenant} with the roles ${roles.join(", ") || "none"}? It ${life}.`;
    return change(create, question, "Create the key", () => {
      const count = typed(days);
      const body = { label: label.value, purpose: purpose.value, recipient: recipient.value, roles };
      if (count !== null) body.expires_s = Math.round(count * DAY_S);
      return api("POST", path, body);
    });
  };
  return rowForm(
    submit,
    field("Label", label),
    field("Purpose", purpose),
    field("Recipient", recipient),
    checks("Roles", boxes),
    field("Expires after days", days),
    create,
  );
}

/** A key at its creation, the only time that it can be read. */
export function newKey(made) {
  return el(
    "div",
    { class: "notice" },
    el("p", {}, `The new key ${made.key_id || ""} is shown this once. Copy it now; it cannot be read again.`),
    el("p", {}, el("code", { class: "secret", id: "new-key" }, made.key)),
    copyButton(() => made.key, "Copy the key"),
  );
}

function keyTable(tenant, keys, rotate, revoke) {
  const act = (text, name, key, work) => {
    const button = el("button", { type: "button", class: name, "aria-label": `${text} ${key.key_id}` }, text);
    button.addEventListener("click", () => work(key, button));
    return button;
  };
  return table(
    `Keys of ${tenant}`,
    [
      { title: "Label", cell: (key) => key.label || "–", key: (key) => key.label },
      textColumn("Purpose", (key) => key.purpose || "–"),
      textColumn("Recipient", (key) => key.recipient || "–"),
      { title: "Key", cell: (key) => el("code", { class: "name" }, key.key_id), key: (key) => key.key_id },
      { title: "Roles", cell: (key) => key.roles.join(", "), key: (key) => key.roles.join() },
      { title: "State", cell: (key) => state(key), key: (key) => state(key) },
      timeColumn("Created", (key) => key.created_ms),
      { title: "Expires", cell: (key) => (key.expires_ms === null ? "never" : time(key.expires_ms)), key: (key) => key.expires_ms },
      { title: "Last use", cell: (key) => (key.last_used_ms === null ? "never" : time(key.last_used_ms)), key: (key) => key.last_used_ms },
      {
        title: "Change",
        wide: true,
        cell: (key) => (state(key) === "valid" ? el("span", { class: "actions" }, act("Rotate", null, key, rotate), act("Revoke", "danger", key, revoke)) : ""),
      },
    ],
    keys,
  );
}

function state(key) {
  if (key.revoked_ms !== null) return "revoked";
  return key.expires_ms !== null && key.expires_ms <= Date.now() ? "expired" : "valid";
}
