// Add a fact, where the server allows it, and see what changes.

import { ask, forget, limited } from "/api.js";
import { code } from "/code.js";
import { h, shown, trouble } from "/dom.js";
import { link } from "/place.js";

let token = ""; // of this window alone, and gone with it
let last = "";

/** Remember what was asked, to ask it again. */
export const asking = (q) => (last = q);

/** The view of the form. */
export async function addingView(page, state, signal) {
  const about = await ask("/api/about", { signal });
  page.append(h("h1", {}, "Add a fact"));
  if (!about.edit) return void page.append(h("p", {}, "This server adds no facts. One that does is started with ", h("code", {}, "--allow-edit"), "."));
  const { relations } = await ask("/api/relations", { parameters: { rows: await limited(1000) }, signal });
  const names = relations.map((row) => h("option", { value: row.name }, shown(row.name)));
  const relation = h("input", { id: "relation", list: "relations", required: true, autocomplete: "off", value: state.relation || relations[0]?.name });
  const places = h("div", { class: "places" });
  const laid = () => {
    const arity = relations.find((row) => row.name === relation.value)?.arity ?? (places.children.length || 2);
    if (places.children.length !== arity) places.replaceChildren(...inputs(arity, state.objects)); // else keep what is typed
  };
  relation.addEventListener("input", laid);
  laid();
  const sure = h("input", { id: "confidence", type: "number", min: "0.01", max: "1", step: "0.01", value: "1" });
  const fresh = h("input", { id: "fresh", type: "checkbox" });
  const secret = h("input", { id: "token", type: "password", required: true, autocomplete: "off", value: token });
  const said = h("div", { id: "said", "aria-live": "polite" });
  const fact = () => ({ relation: relation.value, objects: [...places.querySelectorAll("input")].map((one) => one.value), confidence: Number(sure.value) });
  const send = async (event) => {
    event.preventDefault();
    token = secret.value;
    said.replaceChildren(await sent({ facts: [fact()], new_objects: fresh.checked }));
  };
  page.append(
    h("p", { class: "lead" }, "The next answer knows it, without training again."),
    h(
      "form",
      { class: "form", id: "add", onsubmit: send },
      h("datalist", { id: "relations" }, names),
      field("relation", "Relation", relation),
      places,
      field("confidence", "Confidence", sure),
      h("div", { class: "field" }, h("label", { for: "fresh" }, fresh, " objects may be new")),
      field("token", "Token of the server", secret),
      h("button", { class: "main", type: "submit" }, "Add the fact"),
    ),
    said,
    code("/api/facts", { body: { facts: [{ relation: "…", objects: ["…", "…"] }], new_objects: false }, token: true, lines: ['kb = kb.with_facts([("…", "…", "…")])'] }),
  );
}

const field = (id, text, input) => h("div", { class: "field" }, h("label", { for: id }, text), input);

function inputs(arity, given) {
  return Array.from({ length: arity }, (_, place) => {
    const id = `place-${place + 1}`;
    const list = h("datalist", { id: `${id}-names` });
    const input = h("input", { id, list: list.id, required: true, autocomplete: "off", value: given[place] ?? "" });
    input.addEventListener("input", async () => {
      const { objects } = await ask("/api/objects", { parameters: { text: input.value, rows: await limited(8) } }).catch(() => ({ objects: [] }));
      list.replaceChildren(...objects.map((row) => h("option", { value: row.name })));
    });
    return h("div", { class: "field" }, h("label", { for: id }, `Object ${place + 1}`), input, list);
  });
}

async function sent(body) {
  try {
    const found = await ask("/api/facts", { body, token });
    forget();
    const again = last ? h("p", {}, h("a", { class: "button", href: link({ q: last }) }, "Ask again: ", h("code", {}, shown(last)))) : null;
    return h("div", { class: "done" }, h("p", {}, found.added ? "Added." : "This was known already."), again);
  } catch (error) {
    return trouble(error.fields ?? { message: error.message });
  }
}
