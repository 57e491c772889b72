// A list of probably missing facts: one ranking after another, the most probable facts first.

import { limitRows, request } from "/api.js";
import { bar, factText, h, probability, visible } from "/dom.js";
import { link } from "/navigation.js";
import { literal, snippets } from "/snippets.js";

export const PRIOR = 0.01; // most candidates are false
export const ASSUMPTION = "assuming 1\u00a0% of candidates are true";
const MIN_PROBABILITY = 0.02;

/** The parameters of the request for the missing answers of a query. */
const missingFactsRequest = (query, top) => ({ query, top, known: "exclude", prior: PRIOR });

/** The same request as snippets. */
export function missingFactsSnippets(query, top) {
  const line = `print(model.answers(${literal(query)}, top=${top}, known="exclude", prior=${PRIOR}))`;
  return snippets("/api/answers", { parameters: missingFactsRequest(query, top), model: true, lines: [line] });
}

/**
 * Fill a list as replies arrive; return its length. `toFact` turns an answer into the fact and the address of its
 * explanation; `perQuery` is the most answers shown of one query. A query that the server refuses is skipped.
 */
export async function fillMissingFacts(list, queries, { perQuery, count, toFact, signal }) {
  let best = [];
  for (const row of queries) {
    const parameters = missingFactsRequest(row.query, await limitRows(perQuery + 3));
    const { answers } = await request("/api/answers", { parameters, signal }).catch((error) => {
      if (error.name === "AbortError") throw error;
      return { answers: [] };
    });
    const likely = answers.filter((answer) => answer.probability >= MIN_PROBABILITY).map((answer) => ({ ...answer, ...toFact(row, answer.names) }));
    best.push(...likely.filter(({ fact }) => new Set(fact.objects).size === fact.objects.length).slice(0, perQuery)); // no r(a, a)
    best.sort((one, other) => other.probability - one.probability);
    best = best.slice(0, count);
    list.replaceChildren(...best.map(listItem));
  }
  return best.length;
}

function listItem({ fact, why, probability: value, standard_error }) {
  const anchor = h("a", { href: link(why) }, factText(fact, (name) => h("bdi", {}, visible(name))));
  return h("li", {}, anchor, h("span", { class: "chance" }, bar(value, standard_error, "predicted"), h("span", { class: "figure" }, probability(value))));
}
