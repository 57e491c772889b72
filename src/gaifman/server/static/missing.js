// Facts that are not known and probable, one question to the model after another, the best ones first.

import { ask, limited } from "/api.js";
import { bar, factText, h, share, shown } from "/dom.js";
import { link } from "/place.js";

export const PRIOR = 0.01; // most of what is not known is not true
const LIKELY = 0.02;

/** What is asked of the model for one question. */
export const body = ({ query, among }, top) => ({ query, among, top, known: "leave out", prior: PRIOR });

/**
 * Fill a list while answers come. `told` makes of an answer the fact and where its reasons are; `each` is how many
 * answers of one question are shown at most. A question that the server refuses is left out.
 */
export async function filled(list, questions, { each, most, told, signal }) {
  let found = [];
  for (const question of questions) {
    const { answers } = await ask("/api/answers", { body: body(question, await limited(each + 3)), signal }).catch((error) => {
      if (error.name === "AbortError") throw error;
      return { answers: [] };
    });
    const likely = answers.filter((answer) => answer.probability >= LIKELY).map((answer) => ({ ...answer, ...told(question, answer.names) }));
    found.push(...likely.filter(({ fact }) => new Set(fact.objects).size === fact.objects.length).slice(0, each)); // not of an object and itself
    found.sort((one, other) => other.probability - one.probability);
    found = found.slice(0, most);
    list.replaceChildren(...found.map(row));
  }
  return found.length;
}

function row({ fact, why, probability, error }) {
  const said = h("a", { href: link(why) }, factText(fact, (name) => h("bdi", {}, shown(name))));
  return h("li", {}, said, h("span", { class: "chance" }, bar(probability, error, "predicted"), h("span", { class: "figure" }, share(probability))));
}
