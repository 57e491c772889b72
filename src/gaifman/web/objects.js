// The page of an object: what is known of it, and what the model finds missing.

import { ask } from "/api.js";
import { code, literal } from "/code.js";
import { bar, factText, h, number, share, shown, some, words } from "/dom.js";
import { link, objectLink } from "/place.js";

const ROWS = 200;
const QUESTIONS = 12;
const LIKELY = 0.02;
const PRIOR = 0.01; // most of what is not known is not true
const SHOWN = 12;

/** The view of an object. */
export async function objectView(page, state, signal) {
  const name = state.object;
  const about = await ask("/api/object", { parameters: { name }, signal });
  const facts = await ask("/api/facts", { parameters: { object: name, rows: ROWS }, signal });
  const tags = about.types.map((type) => h("span", { class: "tag" }, words(type)));
  const values = Object.entries(about.values).map(([attribute, value]) => [h("dt", {}, words(attribute)), h("dd", {}, number(value))]);
  const missing = h("section", { class: "panel", "aria-label": "Predicted missing facts", "aria-busy": "true" });
  const parameters = { object: name, rows: ROWS };
  page.append(
    h("h1", {}, h("bdi", {}, shown(name)), " ", tags),
    h("dl", { class: "values" }, values, h("dt", {}, "facts"), h("dd", {}, number(about.facts)), h("dt", {}, "neighbours"), h("dd", {}, number(about.degree))),
    h(
      "div",
      { class: "split" },
      h(
        "section",
        { "aria-label": "Known facts" },
        h("h2", {}, "Known"),
        groups(facts.facts, name),
        facts.truncated ? h("p", { class: "soft" }, `the first ${number(facts.facts.length)} of ${number(facts.count)}`) : null,
        code("/api/facts", { parameters, lines: [`print(*kb.facts(obj=${literal(name)}), sep="\\n")`] }),
      ),
      missing,
    ),
  );
  await fill(missing, name, signal);
}

function groups(facts, name) {
  const found = Map.groupBy(facts, (fact) => fact.relation);
  const linked = (other) => (other === name ? h("bdi", { class: "self" }, shown(other)) : objectLink(other));
  return [...found].map(([relation, rows]) => {
    const list = h("ul", { class: "facts" }, rows.map((fact) => h("li", {}, factText(fact, linked))));
    const title = [words(relation), " ", h("span", { class: "soft" }, number(rows.length))];
    if (rows.length <= 12) return h("div", { class: "group" }, h("h3", {}, title), list);
    return h("details", { class: "group" }, h("summary", {}, title), list);
  });
}

// What is missing

async function fill(panel, name, signal) {
  const about = await ask("/api/about", { signal });
  panel.append(h("h2", {}, "Predicted, and missing"));
  if (!about.model) {
    panel.append(h("p", {}, "There is no model here: gaifman serve KB MODEL has one."));
    return void panel.removeAttribute("aria-busy");
  }
  const { examples } = await ask("/api/examples", { parameters: { object: name }, signal });
  const list = h("ul", { class: "missing" });
  const note = h("p", { class: "soft" }, "Asking the model …");
  panel.append(list, note);
  const found = [];
  for (const { query, among } of examples.slice(0, QUESTIONS)) {
    const { answers } = await ask("/api/answers", { body: { query, among, top: 3, known: "leave out", prior: PRIOR }, signal });
    found.push(...answers.filter((answer) => answer.probability >= LIKELY).map((answer) => ({ query, ...answer })));
    found.sort((one, other) => other.probability - one.probability);
    list.replaceChildren(...found.slice(0, SHOWN).map(row));
  }
  const none = examples.length ? "Nothing that is missing is likely." : "The model says nothing of objects like this.";
  note.textContent = found.length ? `The most probable facts that are not known, if one candidate in 100 were right: from ${some(Math.min(examples.length, QUESTIONS), "question")} to the model.` : none;
  if (examples.length) {
    const [{ query, among }] = examples;
    const lines = [`print(model.answers(${literal(query)}, top=3, known="leave out", among=${literal(among)}, prior=${PRIOR}))`];
    panel.append(code("/api/answers", { body: { query, among, top: 3, known: "leave out", prior: PRIOR }, model: true, lines }));
  }
  panel.removeAttribute("aria-busy");
}

function row(answer) {
  const why = link({ q: answer.query, prior: PRIOR, why: answer.names });
  return h(
    "li",
    {},
    h("a", { href: why }, h("code", {}, shown(filled(answer.query, answer.names)))),
    h("span", { class: "chance" }, bar(answer.probability, answer.error, "predicted"), h("span", { class: "figure" }, share(answer.probability))),
  );
}

/** The question with the names of an answer for its variables: x, y and z stand only there. */
function filled(query, names) {
  let next = 0;
  return query.replace(/(?<=[(,] ?)(?:[xyz]|x\d)(?=[,)])/g, () => names[next++] ?? "?");
}
