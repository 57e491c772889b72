// The page of an object: what the model finds missing, and what is known of it.

import { ask, limited } from "/api.js";
import { code, literal } from "/code.js";
import { brief, chips, factText, h, number, shown, some, words } from "/dom.js";
import { body, filled, PRIOR } from "/missing.js";
import { link, objectLink } from "/place.js";

const ROWS = 200;
const QUESTIONS = 12;
const SHOWN = 12;
const CHIPS = 16;

/** The view of an object. */
export async function objectView(page, state, signal) {
  const name = state.object;
  const [{ model }, about] = await Promise.all([ask("/api/about", { signal }), ask("/api/object", { parameters: { name }, signal })]);
  const parameters = { object: name, relation: state.relation, skip: state.skip || "", rows: await limited(ROWS) };
  const facts = await ask("/api/facts", { parameters, signal });
  const tags = about.types.map((type) => h("span", { class: "tag" }, words(type)));
  const values = [...Object.entries(about.values), ["facts", about.facts], ["neighbours", about.degree]];
  const missing = h("section", { class: "panel", "aria-label": "Predicted missing facts", "aria-busy": "true" });
  const known = h(
    "section",
    { "aria-label": "Known facts" },
    h("h2", {}, "Known"),
    facts.count < about.facts || facts.truncated || facts.skipped ? relations(about, state) : null,
    groups(facts.facts, name),
    pages(facts, state, parameters.rows),
    code("/api/facts", { parameters, lines: [`print(*kb.facts(obj=${literal(name)}${state.relation ? `, relation=${literal(state.relation)}` : ""}), sep="\\n")`] }),
  );
  page.append(
    h("h1", {}, h("bdi", {}, shown(name)), " ", tags),
    h("dl", { class: "values" }, values.map(([attribute, value]) => h("div", {}, h("dt", {}, words(attribute)), " ", h("dd", {}, number(value))))),
    model ? h("div", { class: "split" }, missing, known) : known,
  );
  if (model) await fill(missing, name, signal);
}

/** Where there are too many facts for one page, each relation has pages of its own. */
function relations(about, state) {
  const chip = (relation, count, text) => h("a", { class: "chip", title: shown(relation), href: link({ object: state.object, relation }), "aria-current": state.relation === relation ? "true" : null }, text, h("span", { class: "soft" }, ` ${number(count)}`));
  const rows = Object.entries(about.relations).sort(([, one], [, other]) => other - one);
  return chips([chip("", about.facts, "all"), ...rows.map(([relation, count]) => chip(relation, count, brief(relation)))], CHIPS, "relation");
}

function pages(facts, state, rows) {
  const to = (skip, text) => h("a", { class: "button", href: link({ object: state.object, relation: state.relation, skip: skip || "" }) }, text);
  if (!facts.truncated && !facts.skipped) return null;
  const said = h("span", { class: "soft" }, `${number(facts.skipped + 1)} to ${number(facts.skipped + facts.facts.length)} of ${number(facts.count)}`);
  return h("p", { class: "pages" }, facts.skipped > 0 && to(Math.max(0, facts.skipped - rows), "Before"), facts.truncated && to(facts.skipped + facts.facts.length, "Following"), said);
}

function groups(facts, name) {
  const found = Map.groupBy(facts, (fact) => fact.relation);
  const linked = (other) => (other === name ? h("bdi", { class: "self" }, shown(other)) : objectLink(other));
  return [...found].map(([relation, rows]) => {
    const list = h("ul", { class: "facts" }, rows.map((fact) => h("li", {}, factText(fact, linked))));
    const title = [words(relation), " ", h("span", { class: "soft" }, number(rows.length))];
    if (rows.length <= 12 || found.size === 1) return h("div", { class: "group" }, h("h3", {}, title), list);
    return h("details", { class: "group" }, h("summary", {}, title), list);
  });
}

// What is missing

async function fill(panel, name, signal) {
  const { examples } = await ask("/api/examples", { parameters: { object: name }, signal });
  const questions = examples.slice(0, QUESTIONS);
  const list = h("ul", { class: "missing" });
  const note = h("p", { class: "soft" }, "Asking the model …");
  panel.append(h("h2", {}, "Predicted, and missing"), list, note);
  const count = await filled(list, questions, { each: 3, most: SHOWN, told, signal });
  const none = examples.length ? "Nothing that is missing is likely." : "The model says nothing of objects like this.";
  note.textContent = count ? `The most probable facts that are not known, if one candidate in 100 were right: from ${some(questions.length, "question")} to the model.` : none;
  if (questions.length) {
    const [first] = questions;
    const lines = [`print(model.answers(${literal(first.query)}, top=6, known="leave out", among=${literal(first.among)}, prior=${PRIOR}))`];
    panel.append(code("/api/answers", { body: body(first, await limited(6)), model: true, lines }));
  }
  panel.removeAttribute("aria-busy");
}

/** The fact: the names of an answer stand at the places that the question leaves open. */
function told({ query, relation, objects }, names) {
  const open = [...names];
  return { fact: { relation, objects: objects.map((name) => name ?? open.shift()) }, why: { q: query, prior: PRIOR, why: names } };
}
