// The first view: what the model finds missing, and what is worth asking.

import { ask, limited } from "/api.js";
import { code, literal } from "/code.js";
import { chart } from "/degrees.js";
import { brief, chips, h, number, quoted, shown, some } from "/dom.js";
import { body, filled, PRIOR } from "/missing.js";
import { link } from "/place.js";
import { writing } from "/writing.js";

const QUESTIONS = 12;
const SHOWN = 6;
const CHIPS = 24;

/** The first view. */
export async function homeView(page, state, signal) {
  const [about, { relations }] = await Promise.all([ask("/api/about", { signal }), ask("/api/relations", { parameters: { rows: await limited(1000) }, signal })]);
  relations.sort((one, other) => other.facts - one.facts);
  const beside = h("section", { class: "beside", "aria-label": about.model ? "Missing facts" : "Degrees", "aria-busy": "true" });
  const hero = h("div", { class: "hero" }, h("h1", {}, about.model ? "What is missing, and why?" : "What is known?"), h("p", { class: "lead" }, lead(about)), figures(about));
  const opening = h("div", {}, hero);
  page.append(h("div", { class: "split opening" }, opening, beside));
  const connected = async () => [h("h2", {}, h("a", { href: link({ view: "degrees" }) }, "How connected objects are")), chart(await ask("/api/degrees", { signal }))];
  if (!about.model) beside.append(...(await connected()));
  const { examples } = await ask("/api/examples", { signal });
  const ranked = examples.filter((example) => example.ranked);
  const exact = examples.filter((example) => !example.ranked);
  const known = h("section", { "aria-label": "Relations" }, h("h2", {}, "Relations"), chips(relations.map(chip), CHIPS, "relation"));
  const drawn = about.model ? h("section", { "aria-label": "Degrees" }, await connected()) : writing(relations, about);
  const asked = [...(ranked.length ? [cards("Ask the model", ranked)] : []), ...(exact.length ? [cards("Ask what is known", exact)] : [])];
  opening.append(...asked.splice(0, 1));
  page.append(
    ...asked,
    h("div", { class: "split even" }, known, drawn),
    about.model ? writing(relations, about) : "",
    code("/api/about", { lines: ["print(kb)"] }),
  );
  if (about.model) await missing(beside, about, relations, signal);
  beside.removeAttribute("aria-busy");
}

function lead(about) {
  if (!about.model) return "A knowledge base that can be browsed, and asked any first-order query. With a model it also says what is missing.";
  return "A model has learnt from these facts. It finds facts that are not there: each comes with a probability, and with what speaks for it.";
}

function figures(about) {
  const trained = about.model?.relations ?? null;
  const rows = [["objects", about.objects], ["facts", about.facts], ["relations", about.relations], ["attributes", about.attributes]];
  if (trained) rows.push(["learnt", trained]);
  return h("dl", { class: "figures" }, rows.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dd", {}, number(value)), h("dt", {}, name))));
}

// What the model finds missing

/** Several of the relations that were learnt: for each, its most probable missing fact. */
async function missing(panel, about, relations, signal) {
  const learnt = about.model.query ? [] : relations.filter((row) => row.trained && row.arity > 1).slice(0, QUESTIONS);
  const list = h("ul", { class: "missing" });
  const note = h("p", { class: "soft" }, "Asking the model …");
  panel.append(h("h2", {}, "Not known, and probable"), list, note);
  const types = async ({ query, name }) => ({ query, name, among: (await ask("/api/reading", { body: { query }, signal })).among });
  const questions = await Promise.all(learnt.map(types));
  if (about.model.query) questions.push({ query: about.model.query, among: {}, name: null });
  const own = about.model.query ? { each: SHOWN, told: whole } : { each: 1, told: begun };
  const count = await filled(list, questions, { ...own, most: SHOWN, signal });
  const asked = questions.length === 1 ? "" : ` The first of each relation, from ${some(questions.length, "question")} to the model.`;
  note.textContent = count ? `If one candidate in 100 were right.${asked} Choose one for its reasons.` : "Nothing that is missing is likely.";
  if (!questions.length) return;
  const [first] = questions;
  const line = `print(model.answers(${literal(first.query)}, top=4, known="leave out", among=${literal(first.among)}, prior=${PRIOR}))`;
  panel.append(code("/api/answers", { body: body(first, await limited(4)), model: true, lines: [line] }));
}

/** The reasons of a fact stand beside the other answers for its first object. */
function begun({ query, name }, names) {
  const open = query.lastIndexOf("(") + 1;
  const q = query.slice(0, open) + query.slice(open).replace(/^[^,)]+/, () => quoted(names[0]));
  return { fact: { relation: name, objects: names }, why: { q, prior: PRIOR, why: names.slice(1) } };
}

/** A model of one query: what it answers has no name of its own. */
const whole = ({ query }, names) => ({ fact: { relation: "", objects: names }, why: { q: query, prior: PRIOR, why: names } });

// What is worth asking

function cards(title, examples) {
  const card = (example) => h("li", {}, h("a", { class: "card", href: link({ q: example.query }) }, h("code", {}, shown(example.query)), h("span", {}, shown(example.words))));
  return h("section", { "aria-label": title }, h("h2", {}, title), h("ul", { class: "cards" }, examples.map(card)));
}

function chip(relation) {
  const text = [brief(relation.name), h("span", { class: "soft" }, ` ${number(relation.facts)}`)];
  const href = link({ q: relation.query, how: relation.trained ? "" : "exact" });
  return h("a", { class: `chip${relation.trained ? " learnt" : ""}`, href, title: shown(relation.name) }, text);
}
