// A list of probably missing facts: one ranking after another, the most probable facts first.

import { limitRows, request } from "/api.js";
import { bar, factText, h, percent, probability, shown } from "/dom.js";
import { link } from "/navigation.js";
import { literal, snippets } from "/snippets.js";

const MIN_PROBABILITY = 0.02;

/** What probabilities assume: ranked lists have their own share of missing facts, a network needs a prior. */
export async function assumption() {
  const { missing } = (await request("/api/about")).model;
  if (missing === null) return { prior: 0.01, text: "assuming 1\u00a0% of candidates are true" };
  return { prior: null, text: `assuming ${percent(missing)} of the facts are missing` };
}

/** The parameters of the request for the missing answers of a query. */
const missingFactsRequest = (query, top, prior) => ({ query, top, known: "exclude", ...(prior && { prior }) });

/** The same request as snippets. */
export async function missingFactsSnippets(query, top) {
  const { prior } = await assumption();
  const line = `print(model.answers(${literal(query)}, top=${top}, known="exclude"${prior ? `, prior=${prior}` : ""}))`;
  return snippets("/api/answers", { parameters: missingFactsRequest(query, top, prior), model: true, lines: [line] });
}

/**
 * Fill a list as replies arrive; return its length. `toFact` turns an answer into the fact and the address of its
 * explanation; `perQuery` is the most answers shown of one query. A query that the server refuses is skipped.
 */
export async function fillMissingFacts(list, queries, { perQuery, count, toFact, signal }) {
  let best = [];
  const { prior } = await assumption();
  for (const row of queries) {
    const parameters = missingFactsRequest(row.query, await limitRows(perQuery + 3), prior);
    const { answers } = await request("/api/answers", { parameters, signal }).catch((error) => {
      if (error.name === "AbortError") throw error;
      return { answers: [] };
    });
    const likely = answers.filter((answer) => answer.probability >= MIN_PROBABILITY).map((answer) => ({ ...answer, ...toFact(row, answer.names, prior) }));
    best.push(...likely.filter(({ fact }) => new Set(fact.objects).size === fact.objects.length).slice(0, perQuery)); // no r(a, a)
    best.sort((one, other) => other.probability - one.probability);
    best = best.slice(0, count);
    list.replaceChildren(...best.map(listItem));
  }
  return best.length;
}

function listItem({ fact, why, probability: value, standard_error }) {
  const anchor = h("a", { href: link(why) }, factText(fact, (name) => h("bdi", {}, shown(name))));
  return h("li", {}, anchor, h("span", { class: "chance" }, bar(value, standard_error, "predicted"), h("span", { class: "figure" }, probability(value))));
}
