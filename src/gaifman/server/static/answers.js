// The answers of a query: ranked by the model, known and predicted told apart, or exact.

import { ask, limited } from "/api.js";
import { code, literal } from "/code.js";
import { bar, h, number, s, share, shown, some, words } from "/dom.js";
import { link, objectLink, priorOf } from "/place.js";
import { reasons } from "/reasons.js";
import { writing } from "/writing.js";

const ROWS = 50;
let left = null; // the answer whose reasons were just closed

/** The view of a query. */
export async function answersView(page, state, signal) {
  const read = await ask("/api/reading", { body: { query: state.q }, signal });
  page.append(h("h1", { class: "query" }, h("code", {}, shown(state.q))));
  if (read.error) return mistaken(page, signal);
  const ranked = read.ranked && state.how !== "exact";
  if (read.ranked) page.append(ways(state, ranked));
  const split = h("div", { class: state.why && ranked ? "split told" : ranked ? "split told waiting" : "whole" });
  page.append(split);
  if (ranked) await predicted(split, state, read.among, signal);
  else await exact(split, state, read, signal);
}

/** What is wrong stands below the box, with its carets: here stands how it can be put right. */
async function mistaken(page, signal) {
  const [about, { relations }] = await Promise.all([ask("/api/about", { signal }), ask("/api/relations", { parameters: { rows: await limited(100) }, signal })]);
  page.append(h("p", { class: "lead" }, "This cannot be read as a query: what is wrong with it is marked above."), writing(relations, about));
}

function ways(state, ranked) {
  const way = (how, text, on) => h("a", { href: link({ q: state.q, how }), "aria-current": on ? "true" : null }, text);
  return h("p", { class: "ways" }, way("", "Known and predicted", ranked), way("exact", "Known only", !ranked));
}

// Ranked

async function predicted(split, state, fitting, signal) {
  const among = state.any ? {} : fitting;
  const top = await limited(state.top);
  const body = { query: state.q, top, among, ...priorOf(state) };
  const found = await ask("/api/answers", { body, signal });
  const names = found.variables;
  const rows = found.answers.map((answer) => row(answer, names, state));
  const known = found.answers.filter((answer) => answer.known).length;
  const head = [...(names.length ? names : ["fact"]), "probability", "known?", "reasons"].map((name) => h("th", { scope: "col" }, name));
  const table = h(
    "table",
    { class: "answers" },
    h("caption", {}, `${some(found.answers.length, "answer")}: ${number(known)} known, ${number(found.answers.length - known)} predicted`),
    h("thead", {}, h("tr", {}, head)),
    h("tbody", {}, rows),
  );
  const more = found.truncated && top === state.top && h("a", { class: "button", href: link({ q: state.q, top: state.top * 2, prior: state.prior, any: state.any ? "1" : "" }) }, "More answers");
  const ground = names.length ? "" : " This very fact is judged, as if it were not known.";
  split.append(
    h(
      "section",
      { "aria-label": "Answers", class: "listed" },
      Object.keys(fitting).length ? kinds(state, fitting) : null,
      found.answers.length ? h("div", { class: "scroll" }, table) : h("p", {}, "There is no answer."),
      h("p", { class: "soft" }, "Looked at: ", shown(found.considered.words), ".", ground, " A known answer is judged as if it were not known.", ` Beforehand, ${Number(((state.prior || 0.5) * 100).toPrecision(3))}\u00a0% of all candidates are held to be answers.`),
      more ? h("p", {}, more) : null,
      code("/api/answers", { body, model: true, lines: [`print(model.answers(${literal(state.q)}, top=${top}, among=${literal(among)}${state.prior ? `, prior=${state.prior}` : ""}))`] }),
    ),
  );
  if (state.why) {
    left = JSON.stringify([state.q, state.why]);
    await reasons(split, state, signal);
  } else {
    const back = found.answers.findIndex((answer) => JSON.stringify([state.q, whyOf(answer)]) === left);
    rows[back]?.querySelector("a.why")?.focus();
    left = null;
    split.append(h("aside", { class: "soft hint" }, icon(), h("p", {}, "Choose an answer: here stands what speaks for it and against it, the neighbourhood in which it was seen, and what if those facts were not known.")));
  }
}

const whyOf = (answer) => (answer.names.length ? answer.names : [" "]);

function icon() {
  return s("svg", { viewBox: "0 0 120 70", width: 120, height: 70, "aria-hidden": "true" }, s("path", { d: "M20 50 L60 15 L100 50" }), s("path", { d: "M20 50 L100 50", class: "asked" }), [[20, 50], [60, 15], [100, 50]].map(([cx, cy]) => s("circle", { cx, cy, r: 9 })));
}

/** What is looked at: objects of the type that facts have there, or any. */
function kinds(state, fitting) {
  const said = Object.entries(fitting).map(([variable, type]) => h("span", { class: "tag" }, `${variable}: ${state.any ? "any object" : words(type)}`));
  const other = link({ q: state.q, top: state.top === 15 ? "" : state.top, prior: state.prior, any: state.any ? "" : "1" });
  return h("p", {}, said.flatMap((tag) => [tag, " "]), h("a", { class: "why", href: other }, state.any ? "only of the fitting type" : "look at any object"));
}

function row(answer, variables, state) {
  const why = link({ q: state.q, top: state.top === 15 ? "" : state.top, prior: state.prior, any: state.any ? "1" : "", why: whyOf(answer) });
  const open = same(state.why, answer.names);
  const kind = answer.known ? "known" : "predicted";
  const cells = answer.names.map((name, place) => h("td", { "data-name": variables[place] }, objectLink(name)));
  const error = answer.error === null ? "" : ` ± ${answer.error.toFixed(3)}`;
  const label = `Why ${answer.names.map(shown).join(", ") || shown(state.q)}?`;
  const link_ = answer.draws ? h("a", { class: "why", href: why, "aria-label": label, "aria-current": open ? "true" : null }, "why?") : h("span", { class: "soft" }, "no model");
  return h(
    "tr",
    { class: `${kind}${open ? " open" : ""}`, onclick: (event) => answer.draws && !event.target.closest("a") && link_.click() },
    cells.length ? cells : h("td", {}, h("code", {}, shown(state.q))),
    h("td", { class: "chance" }, bar(answer.probability, answer.error, kind), h("span", { class: "figure" }, share(answer.probability), h("small", {}, error))),
    h("td", {}, h("span", { class: `tag ${kind}` }, kind)),
    h("td", { class: "last" }, link_),
  );
}

const same = (why, names) => why !== null && JSON.stringify(why.filter((name) => name !== " ")) === JSON.stringify(names);

// Exact

async function exact(split, state, read, signal) {
  const body = { query: state.q, skip: state.skip, rows: await limited(ROWS), count: true, why: state.facts };
  const found = await ask("/api/query", { body, signal });
  const section = h("section", { "aria-label": "Answers", class: "listed" });
  split.append(section);
  if (!found.variables.length) section.append(h("p", { class: "verdict" }, found.answers.length ? "true" : "false"));
  else section.append(h("div", { class: "scroll" }, listed(found)), pages(found, state, body.rows));
  if (found.facts && !found.variables.length) section.append(found.facts.map(behind));
  const facts = found.answers.length && !state.facts;
  section.append(
    read.why_not ? h("p", { class: "soft" }, `Exact answers, from known facts alone: ${shown(read.why_not)}.`) : "",
    found.note ? h("p", { class: "soft" }, shown(found.note)) : "",
    facts ? h("p", {}, h("a", { class: "button", href: link({ q: state.q, how: state.how, skip: state.skip || "", facts: "1" }) }, "Show the facts behind")) : "",
    code("/api/query", { body, lines: [`print(gaifman.query(kb, ${literal(state.q)}))`] }),
  );
}

function listed(found) {
  const head = [...found.variables, ...(found.facts ? ["because"] : [])].map((name) => h("th", { scope: "col" }, name));
  const rows = found.answers.map((names, at) =>
    h("tr", {}, names.map((name, place) => h("td", { "data-name": found.variables[place] }, objectLink(name))), found.facts ? h("td", { "data-name": "because" }, behind(found.facts[at])) : null),
  );
  const caption = found.count === 0 ? "No answer: nothing that is known makes it true" : some(found.count, "answer");
  return h("table", { class: "answers exact" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

const behind = (ways) => h("div", { class: "behind" }, ways.map((facts) => h("code", {}, facts.map(shown).join(" "))));

function pages(found, state, rows) {
  const to = (skip, text) => h("a", { class: "button", href: link({ q: state.q, how: state.how, skip: skip || "", facts: state.facts ? "1" : "" }) }, text);
  const back = found.skipped > 0 && to(Math.max(0, found.skipped - rows), "Before");
  const on = found.truncated && to(found.skipped + found.answers.length, "Following");
  return back || on ? h("p", { class: "pages" }, back, on) : "";
}
