// A list of probably missing facts: one ranking after another, the most probable facts first.

import { limitRows, request } from "/api.js";
import { bar, factText, h, probability, visible } from "/dom.js";
import { link } from "/navigation.js";

export const PRIOR = 0.01; // most candidates are false
export const ASSUMPTION = "assuming 1\u00a0% of candidates are true";
const MIN_PROBABILITY = 0.02;

/** The request for the missing answers of one query. */
export const missingFactsRequest = ({ query, restrict_to }, top) => ({ query, restrict_to, top, known: "exclude", prior: PRIOR });

/** The same in Python. */
export function missingFactsLine({ query, restrict_to }, top, literal) {
  return `print(model.answers(${literal(query)}, top=${top}, known="exclude", restrict_to=${literal(restrict_to)}, prior=${PRIOR}))`;
}

/**
 * Fill a list as replies arrive; return its length. `toFact` turns an answer into the fact and the address of its
 * explanation; `perQuery` is the most answers shown of one query. A query that the server refuses is skipped.
 */
export async function fillMissingFacts(list, queries, { perQuery, count, toFact, signal }) {
  let best = [];
  for (const query of queries) {
    const body = missingFactsRequest(query, await limitRows(perQuery + 3));
    const { answers } = await request("/api/answers", { body, signal }).catch((error) => {
      if (error.name === "AbortError") throw error;
      return { answers: [] };
    });
    const likely = answers.filter((answer) => answer.probability >= MIN_PROBABILITY).map((answer) => ({ ...answer, ...toFact(query, answer.names) }));
    best.push(...likely.filter(({ fact }) => new Set(fact.objects).size === fact.objects.length).slice(0, perQuery)); // no r(a, a)
    best.sort((one, other) => other.probability - one.probability);
    best = best.slice(0, count);
    list.replaceChildren(...best.map(row));
  }
  return best.length;
}

function row({ fact, why, probability: value, standard_error }) {
  const anchor = h("a", { href: link(why) }, factText(fact, (name) => h("bdi", {}, visible(name))));
  return h("li", {}, anchor, h("span", { class: "chance" }, bar(value, standard_error, "predicted"), h("span", { class: "figure" }, probability(value))));
}
