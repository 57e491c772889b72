// A form to add a fact, if the server allows it.

import { clearCache, limitRows, request } from "/api.js";
import { errorBox, h, labels, visible } from "/dom.js";
import { link } from "/navigation.js";
import { snippets } from "/snippets.js";

let token = ""; // kept in this window only
let lastQuery = "";

/** Remember the last query, to ask it again. */
export const rememberQuery = (q) => (lastQuery = q);

/** The view of the form. */
export async function addFactView(page, state, signal) {
  const about = await request("/api/about", { signal });
  page.append(h("h1", {}, "Add a fact"));
  if (!about.editable) return void page.append(h("p", {}, "This server is read-only. Start it with ", h("code", {}, "--allow-edit"), " to add facts."));
  const { relations } = await request("/api/relations", { parameters: { rows: await limitRows(1000) }, signal });
  const options = relations.map((row) => h("option", { value: row.name }, visible(row.name)));
  const relation = h("input", { id: "relation", list: "relations", required: true, autocomplete: "off", value: state.relation || relations[0]?.name });
  const objects = h("div", { class: "objects" });
  const layOut = () => {
    const arity = relations.find((row) => row.name === relation.value)?.arity ?? (objects.children.length || 2);
    if (objects.children.length !== arity) objects.replaceChildren(...objectInputs(arity, state.objects)); // else keep what is typed
  };
  relation.addEventListener("input", layOut);
  layOut();
  const confidence = h("input", { id: "confidence", type: "number", min: "0.01", max: "1", step: "0.01", value: "1" });
  const allowNew = h("input", { id: "allow-new", type: "checkbox" });
  const secret = h("input", { id: "token", type: "password", required: true, autocomplete: "off", value: token });
  const result = h("div", { id: "result", "aria-live": "polite" });
  const fact = () => ({ relation: relation.value, objects: [...objects.querySelectorAll("input")].map((input) => input.value), confidence: Number(confidence.value) });
  const submit = async (event) => {
    event.preventDefault();
    token = secret.value;
    result.replaceChildren(await send({ facts: [fact()], new_objects: allowNew.checked }));
  };
  page.append(
    h("p", { class: "lead" }, "An added fact counts from the next query on, without retraining."),
    h(
      "form",
      { class: "form", id: "add", onsubmit: submit },
      h("datalist", { id: "relations" }, options),
      field("relation", "Relation", relation),
      objects,
      field("confidence", "Confidence", confidence),
      h("div", { class: "field" }, h("label", { for: "allow-new" }, allowNew, " allow new objects")),
      field("token", "Server token", secret),
      h("button", { class: "main", type: "submit" }, "Add fact"),
    ),
    result,
    snippets("/api/facts", { body: { facts: [{ relation: "…", objects: ["…", "…"] }], new_objects: false }, token: true, lines: ['kb = kb.with_facts([("…", "…", "…")])'] }),
  );
}

const field = (id, text, input) => h("div", { class: "field" }, h("label", { for: id }, text), input);

function objectInputs(arity, names) {
  return Array.from({ length: arity }, (_, position) => {
    const id = `object-${position + 1}`;
    const list = h("datalist", { id: `${id}-names` });
    const input = h("input", { id, list: list.id, required: true, autocomplete: "off", value: names[position] ?? "" });
    input.addEventListener("input", async () => {
      const { objects } = await request("/api/objects", { parameters: { text: input.value, rows: await limitRows(8) } }).catch(() => ({ objects: [] }));
      list.replaceChildren(...objects.map((row) => h("option", { value: labels.get(row.name) ?? row.name })));
    });
    return h("div", { class: "field" }, h("label", { for: id }, `Object ${position + 1}`), input, list);
  });
}

async function send(body) {
  try {
    const { added } = await request("/api/facts", { body, token });
    clearCache();
    const again = lastQuery ? h("p", {}, h("a", { class: "button", href: link({ q: lastQuery }) }, "Ask again: ", h("code", {}, visible(lastQuery)))) : null;
    return h("div", { class: "done" }, h("p", {}, added ? "Added." : "Already known."), again);
  } catch (error) {
    return errorBox(error.fields ?? { message: error.message });
  }
}
