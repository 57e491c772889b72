// The view of an object: probably missing facts, and known ones.

import { limitRows, request } from "/api.js";
import { brief, chips, countNoun, factText, h, humanize, labels, number, pageLinks, shown, visible } from "/dom.js";
import { assumption, fillMissingFacts, missingFactsSnippets } from "/missing_facts.js";
import { link, objectLink } from "/navigation.js";
import { literal, snippets } from "/snippets.js";

const ROWS = 200;
const MAX_QUERIES = 12;
const MAX_MISSING = 12;
const MAX_CHIPS = 16;
const UNFOLDED = 12;

/** The view of an object. */
export async function objectView(page, state, signal) {
  const [{ model }, about] = await Promise.all([request("/api/about", { signal }), request("/api/object", { parameters: { name: state.object }, signal })]);
  const { name } = about; // the address can have a label
  const parameters = { object: name, relation: state.relation, skip: state.skip || "", rows: await limitRows(ROWS) };
  const facts = await request("/api/facts", { parameters, signal });
  const tags = about.types.map((type) => h("span", { class: "tag" }, humanize(type)));
  const values = [...Object.entries(about.values), ["facts", about.facts], ["neighbours", about.degree]];
  const missing = h("section", { class: "panel", "aria-label": "Probably missing", "aria-busy": "true" });
  const known = h(
    "section",
    { "aria-label": "Known facts" },
    h("h2", {}, "Known facts"),
    facts.count < about.facts || facts.truncated || facts.skipped ? relationChips(about, state) : null,
    groups(facts.facts, name),
    pages(facts, state, parameters.rows),
    snippets("/api/facts", { parameters, lines: [`print(*kb.facts(obj=${literal(name)}${state.relation ? `, relation=${literal(state.relation)}` : ""}), sep="\\n")`] }),
  );
  page.append(
    h("h1", {}, h("bdi", {}, shown(name)), " ", labels.has(name) ? h("small", { class: "muted" }, visible(name), " ") : null, tags),
    h("dl", { class: "values" }, values.map(([attribute, value]) => h("div", {}, h("dt", {}, humanize(attribute)), " ", h("dd", {}, number(value))))),
    model ? h("div", { class: "split" }, missing, known) : known,
  );
  if (model) await missingFacts(missing, name, signal);
}

/** Links to the facts of each relation, if there are too many for one page. */
function relationChips(about, state) {
  const chip = (relation, count, text) => h("a", { class: "chip", title: visible(relation), href: link({ object: state.object, relation }), "aria-current": state.relation === relation ? "true" : null }, text, h("span", { class: "muted" }, ` ${number(count)}`));
  const rows = Object.entries(about.relations).sort(([, one], [, other]) => other - one);
  return chips([chip("", about.facts, "all"), ...rows.map(([relation, count]) => chip(relation, count, brief(relation)))], MAX_CHIPS, "relation");
}

function pages(facts, state, rows) {
  if (!facts.truncated && !facts.skipped) return null;
  const to = (skip) => link({ object: state.object, relation: state.relation, skip });
  const range = `${number(facts.skipped + 1)} to ${number(facts.skipped + facts.facts.length)} of ${number(facts.count)}`;
  return h("p", { class: "pages" }, pageLinks(facts, facts.facts.length, rows, to), h("span", { class: "muted" }, range));
}

function groups(facts, name) {
  const byRelation = Map.groupBy(facts, (fact) => fact.relation);
  const linked = (other) => (other === name ? h("bdi", { class: "self" }, shown(other)) : objectLink(other));
  return [...byRelation].map(([relation, rows]) => {
    const list = h("ul", { class: "facts" }, rows.map((fact) => h("li", {}, factText(fact, linked))));
    const title = [humanize(relation), " ", h("span", { class: "muted" }, number(rows.length))];
    if (rows.length <= UNFOLDED || byRelation.size === 1) return h("div", { class: "group" }, h("h3", {}, title), list);
    return h("details", { class: "group" }, h("summary", {}, title), list);
  });
}

// Probably missing facts

async function missingFacts(panel, name, signal) {
  const { examples } = await request("/api/examples", { parameters: { object: name }, signal });
  const queries = examples.slice(0, MAX_QUERIES);
  const list = h("ul", { class: "missing" });
  const note = h("p", { class: "muted" }, "Asking the model …");
  panel.append(h("h2", {}, "Probably missing"), list, note);
  const count = await fillMissingFacts(list, queries, { perQuery: 3, count: MAX_MISSING, toFact, signal });
  const none = examples.length ? "No missing fact is likely." : "The model has no relation for objects like this.";
  note.textContent = count ? `Best missing facts of ${countNoun(queries.length, "relation")}, ${(await assumption()).text}.` : none;
  if (queries.length) panel.append(await missingFactsSnippets(queries[0].query, await limitRows(6)));
  panel.removeAttribute("aria-busy");
}

/** The names of an answer fill the positions that the query leaves open. */
function toFact({ query, relation, objects }, names, prior) {
  const open = [...names];
  return { fact: { relation, objects: objects.map((name) => name ?? open.shift()) }, why: { q: query, prior, why: names } };
}
