// The answers of a query: ranked by the model, or exact.

import { limitRows, request } from "/api.js";
import { bar, countNoun, h, humanize, number, pageLinks, percent, probability, s, shown, visible } from "/dom.js";
import { explanationPanel } from "/explanation.js";
import { link, objectLink, queryLink } from "/navigation.js";
import { literal, snippets } from "/snippets.js";
import { syntaxHelp } from "/syntax_help.js";

const ROWS = 50;
const DEFAULT_PRIOR = 0.5;
const MAX_SET_NAMES = 8;
let lastExplained = null; // the answer whose explanation was open last

/** The view of a query. */
export async function answersView(page, state, signal) {
  const parsed = await request("/api/parse", { body: { query: state.q }, signal });
  page.append(h("h1", { class: "query" }, h("code", {}, visible(state.q))));
  if (parsed.error) return syntaxErrorView(page, signal);
  const ranked = parsed.rankable && state.mode !== "exact";
  if (parsed.rankable) page.append(modeLinks(state, ranked));
  const split = h("div", { class: state.why && ranked ? "split explained" : ranked ? "split explained waiting" : "whole" });
  page.append(split);
  if (ranked) await rankedAnswers(split, state, signal);
  else await exactAnswers(split, state, parsed, signal);
}

/** The error itself is shown below the query box; this view shows the syntax. */
async function syntaxErrorView(page, signal) {
  const [about, { relations }] = await Promise.all([request("/api/about", { signal }), request("/api/relations", { parameters: { rows: await limitRows(100) }, signal })]);
  page.append(h("p", { class: "lead" }, "This is not a valid query: the error is marked above."), syntaxHelp(relations, about));
}

function modeLinks(state, ranked) {
  const mode = (value, text, current) => h("a", { href: link({ q: state.q, mode: value }), "aria-current": current ? "true" : null }, text);
  return h("p", { class: "modes" }, mode("", "Known and predicted", ranked), mode("exact", "Known only", !ranked));
}

// Ranked

async function rankedAnswers(split, state, signal) {
  const top = await limitRows(state.top);
  const parameters = { query: state.q, top, prior: state.prior, candidates: state.candidates };
  const reply = await request("/api/answers", { parameters, signal });
  const rows = reply.answers.map((answer) => answerRow(answer, reply.variables, state));
  const more = reply.truncated && top === state.top && h("a", { class: "button", href: queryLink(state, { top: state.top * 2 }) }, "More answers");
  const options = `top=${top}${state.prior ? `, prior=${state.prior}` : ""}${state.candidates ? `, candidates=${literal(state.candidates)}` : ""}`;
  split.append(
    h(
      "section",
      { "aria-label": "Answers", class: "list" },
      candidateLine(reply, state),
      reply.answers.length ? h("div", { class: "scroll" }, rankedTable(reply, rows)) : h("p", {}, "No answers."),
      answerSetLine(reply),
      h("p", { class: "muted" }, scoringNote(reply, state, await request("/api/about", { signal }))),
      more ? h("p", {}, more) : null,
      snippets("/api/answers", { parameters, model: true, lines: [`print(model.answers(${literal(state.q)}, ${options}))`] }),
    ),
  );
  if (state.why) {
    lastExplained = JSON.stringify([state.q, state.why]);
    await explanationPanel(split, state, signal);
  } else {
    const back = reply.answers.findIndex((answer) => JSON.stringify([state.q, whyField(answer)]) === lastExplained);
    rows[back]?.querySelector("a.why")?.focus();
    lastExplained = null;
    split.append(selectHint());
  }
}

function rankedTable({ answers, variables }, rows) {
  const known = answers.filter((answer) => answer.known).length;
  const head = [...(variables.length ? variables : ["fact"]), "probability", "known?", "explanation"].map((name) => h("th", { scope: "col" }, name));
  const caption = `${countNoun(answers.length, "answer")}: ${number(known)} known, ${number(answers.length - known)} predicted`;
  return h("table", { class: "answers" }, h("caption", {}, caption), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

/** Where a missing answer is, nine times in ten. */
function answerSetLine({ answer_set: found }) {
  if (!found) return null;
  const listed = found.names.slice(0, MAX_SET_NAMES).flatMap((name, i) => (i ? [", ", objectLink(name)] : [objectLink(name)]));
  const more = found.names.length > MAX_SET_NAMES ? `, … and ${number(found.names.length - MAX_SET_NAMES)} more` : "";
  const cases = `in ${Math.round(10 * found.coverage)} of 10 cases`;
  if (found.names.length === 1) return h("p", { class: "answer-set" }, "If an answer is missing, it is ", listed, ` ${cases}.`);
  return h("p", { class: "answer-set" }, `If an answer is missing, it is one of ${number(found.names.length)} ${cases}: `, listed, more);
}

function scoringNote({ variables }, state, about) {
  const scored = variables.length ? "Known answers are scored as if they were not known." : "The fact is scored as if it were not known.";
  if (!state.prior && about.model.missing !== null) return `${scored} Assumed: ${percent(about.model.missing)} of the facts are missing.`;
  return `${scored} Prior: ${percent(state.prior || DEFAULT_PRIOR)} of candidates are true.`;
}

function selectHint() {
  const nodes = [[20, 50], [60, 15], [100, 50]].map(([cx, cy]) => s("circle", { cx, cy, r: 9 }));
  const icon = s("svg", { viewBox: "0 0 120 70", width: 120, height: 70, "aria-hidden": "true" }, s("path", { d: "M20 50 L60 15 L100 50" }), s("path", { d: "M20 50 L100 50", class: "asked" }), nodes);
  return h("aside", { class: "muted hint" }, icon, h("p", {}, "Select an answer to see the evidence for and against it, one of its neighbourhoods, and its probability without the decisive facts."));
}

const whyField = (answer) => (answer.names.length ? answer.names : [" "]); // an empty list would vanish from the address

/** What was ranked, and a link to rank all objects, or only those of the expected type. */
function candidateLine({ considered, variables }, state) {
  if (!variables.length) return null;
  const all = state.candidates === "all";
  const link = all || !considered.description.startsWith("all ") ? h("a", { class: "why", href: queryLink(state, { candidates: all ? "" : "all" }) }, all ? "rank expected objects only" : "rank all objects") : null;
  const leftOut = considered.left_out ? h("span", { class: "muted" }, ` ${number(considered.left_out)} left out by constraints `) : " ";
  return h("p", {}, h("span", { class: "tag" }, `${countNoun(considered.count, "candidate")}: ${humanize(considered.description)}`), leftOut, link);
}

function answerRow(answer, variables, state) {
  const open = isOpen(state.why, answer.names);
  const kind = answer.known ? "known" : "predicted";
  const cells = answer.names.map((name, position) => h("td", { "data-name": variables[position] }, objectLink(name)));
  const standardError = answer.standard_error === null ? "" : ` ± ${answer.standard_error.toFixed(3)}`;
  const label = `Why ${answer.names.map(shown).join(", ") || visible(state.q)}?`;
  const why = answer.draws ? h("a", { class: "why", href: queryLink(state, { why: whyField(answer) }), "aria-label": label, "aria-current": open ? "true" : null }, "why?") : h("span", { class: "muted" }, "no model");
  const conflicts = answer.conflicts.map(({ message }) => h("span", { class: "conflict" }, visible(message)));
  const coverage = answer.covered ? null : h("span", { class: "conflict" }, `little to go on: ${visible(answer.uncovered_reason)}`);
  return h(
    "tr",
    { class: `${kind}${open ? " open" : ""}`, onclick: (event) => answer.draws && !event.target.closest("a") && why.click() },
    cells.length ? cells : h("td", {}, h("code", {}, visible(state.q))),
    h("td", { class: "chance" }, bar(answer.probability, answer.standard_error, kind), h("span", { class: "figure" }, probability(answer.probability), h("small", {}, standardError)), conflicts, coverage),
    h("td", {}, h("span", { class: `tag ${kind}` }, kind)),
    h("td", { class: "last" }, why),
  );
}

const isOpen = (why, names) => why !== null && JSON.stringify(why.filter((name) => name !== " ")) === JSON.stringify(names);

// Exact

async function exactAnswers(split, state, parsed, signal) {
  const body = { query: state.q, skip: state.skip, rows: await limitRows(ROWS), count: true, why: state.facts };
  const reply = await request("/api/query", { body, signal });
  const to = (changes) => queryLink(state, { facts: state.facts ? "1" : "", ...changes });
  const section = h("section", { "aria-label": "Answers", class: "list" });
  split.append(section);
  if (reply.variables.length) section.append(h("div", { class: "scroll" }, exactTable(reply)), h("p", { class: "pages" }, pageLinks(reply, reply.answers.length, body.rows, (skip) => to({ skip }))));
  else section.append(h("p", { class: "verdict" }, reply.answers.length ? "true" : "false"), ...(reply.witnesses_labels ?? reply.witnesses ?? []).map(witnessList));
  section.append(
    parsed.not_rankable_reason ? h("p", { class: "muted" }, `Exact answers from known facts: ${visible(parsed.not_rankable_reason)}.`) : "",
    reply.note ? h("p", { class: "muted" }, visible(reply.note)) : "",
    reply.answers.length && !state.facts ? h("p", {}, h("a", { class: "button", href: to({ skip: state.skip || "", facts: "1" }) }, "Show supporting facts")) : "",
    snippets("/api/query", { body, lines: [`print(gaifman.query(kb, ${literal(state.q)}))`] }),
  );
}

function exactTable({ answers, variables, witnesses: plain, witnesses_labels: labelled, count }) {
  const witnesses = labelled ?? plain;
  const head = [...variables, ...(witnesses ? ["supporting facts"] : [])].map((name) => h("th", { scope: "col" }, name));
  const cells = (names) => names.map((name, position) => h("td", { "data-name": variables[position] }, objectLink(name)));
  const because = (row) => (witnesses ? h("td", { "data-name": "supporting facts" }, witnessList(witnesses[row])) : null);
  const rows = answers.map((names, row) => h("tr", {}, cells(names), because(row)));
  return h("table", { class: "answers exact" }, h("caption", {}, count ? countNoun(count, "answer") : "No answers"), h("thead", {}, h("tr", {}, head)), h("tbody", {}, rows));
}

const witnessList = (witnesses) => h("div", { class: "witnesses" }, witnesses.map((facts) => h("code", {}, facts.map(visible).join(" "))));
