// The start view: probably missing facts, example queries, relations.

import { limitRows, request } from "/api.js";
import { chart } from "/degrees.js";
import { brief, chips, h, labels, number, quoted, visible } from "/dom.js";
import { assumption, fillMissingFacts, missingFactsSnippets } from "/missing_facts.js";
import { link } from "/navigation.js";
import { snippets } from "/snippets.js";
import { syntaxHelp } from "/syntax_help.js";

const MAX_QUERIES = 12;
const MAX_MISSING = 6;
const MAX_CHIPS = 24;

/** The start view. */
export async function homeView(page, state, signal) {
  const [about, { relations }] = await Promise.all([request("/api/about", { signal }), request("/api/relations", { parameters: { rows: await limitRows(1000) }, signal })]);
  relations.sort((one, other) => other.facts - one.facts);
  const beside = h("section", { class: "beside", "aria-label": about.model ? "Probably missing" : "Degrees", "aria-busy": "true" });
  const title = about.model ? "What is missing, and why?" : "What is known?";
  const opening = h("div", {}, h("div", { class: "hero" }, h("h1", {}, title), h("p", { class: "lead" }, lead(about)), figures(about)));
  page.append(h("div", { class: "split opening" }, opening, beside));
  const degrees = async () => [h("h2", {}, h("a", { href: link({ view: "degrees" }) }, "Degree distribution")), chart(await request("/api/degrees", { signal }))];
  if (!about.model) beside.append(...(await degrees()));
  const { examples } = await request("/api/examples", { signal });
  const known = h("section", { "aria-label": "Relations" }, h("h2", {}, "Relations"), chips(relations.map(chip), MAX_CHIPS, "relation"));
  const aside = about.model ? h("section", { "aria-label": "Degrees" }, await degrees()) : syntaxHelp(relations, about);
  const [first, ...others] = [cards("Ask the model", examples.filter((row) => row.rankable)), cards("Exact queries", examples.filter((row) => !row.rankable))].filter(Boolean);
  opening.append(first ?? "");
  page.append(
    ...others,
    h("div", { class: "split even" }, known, aside),
    about.model ? syntaxHelp(relations, about) : "",
    snippets("/api/about", { lines: ["print(kb)"] }),
  );
  if (about.model) await missingFacts(beside, about, relations, signal);
  beside.removeAttribute("aria-busy");
}

function lead(about) {
  if (about.model) return "A model trained on these facts predicts missing ones, each with a probability and an explanation.";
  return "Browse this knowledge base and ask any first-order query. With a model, the server also predicts missing facts.";
}

function figures(about) {
  const rows = [["objects", about.objects], ["facts", about.facts], ["relations", about.relations], ["attributes", about.attributes]];
  rows.push(["relations with a model", about.model?.relations]);
  return h("dl", { class: "figures" }, rows.filter(([, value]) => value).map(([name, value]) => h("div", {}, h("dd", {}, number(value)), h("dt", {}, name))));
}

// Probably missing facts

/** Of a completion, the best missing fact of each of the largest relations; of another model, its best answers. */
async function missingFacts(panel, about, relations, signal) {
  const list = h("ul", { class: "missing" });
  const note = h("p", { class: "muted" }, "Asking the model …");
  panel.append(h("h2", {}, "Probably missing"), list, note);
  const own = about.model.query;
  const trained = relations.filter((row) => row.trained && row.arity > 1).slice(0, MAX_QUERIES);
  const queries = own ? [{ query: own }] : trained.map(({ query, name }) => ({ query, relation: name }));
  const options = own ? { perQuery: MAX_MISSING, toFact: wholeAnswer } : { perQuery: 1, toFact: relationFact };
  const count = await fillMissingFacts(list, queries, { ...options, count: MAX_MISSING, signal });
  const what = own ? "Best missing answers" : "Best missing fact per relation";
  note.textContent = count ? `${what}, ${(await assumption()).text}. Select one for its explanation.` : "No missing fact is likely.";
  if (queries.length) panel.append(await missingFactsSnippets(queries[0].query, await limitRows(4)));
}

/** The explanation of a fact is shown beside the other answers for its first object. */
function relationFact({ query, relation }, names, prior) {
  const open = query.lastIndexOf("(") + 1;
  const q = query.slice(0, open) + query.slice(open).replace(/^[^,)]+/, () => quoted(labels.get(names[0]) ?? names[0]));
  return { fact: { relation, objects: names }, why: { q, prior, why: names.slice(1) } };
}

/** An answer of a model of one query has no relation. */
const wholeAnswer = ({ query }, names, prior) => ({ fact: { relation: "", objects: names }, why: { q: query, prior, why: names } });

// Example queries and relations

function cards(title, examples) {
  if (!examples.length) return null;
  const card = (example) => h("li", {}, h("a", { class: "card", href: link({ q: example.query }) }, h("code", {}, visible(example.query)), h("span", {}, visible(example.description))));
  return h("section", { "aria-label": title }, h("h2", {}, title), h("ul", { class: "cards" }, examples.map(card)));
}

function chip(relation) {
  const text = [brief(relation.name), h("span", { class: "muted" }, ` ${number(relation.facts)}`)];
  const href = link({ q: relation.query, mode: relation.trained ? "" : "exact" });
  return h("a", { class: `chip${relation.trained ? " trained" : ""}`, href, title: visible(relation.name) }, text);
}
