// The first view: what is served, and what is worth asking.

import { ask } from "/api.js";
import { code } from "/code.js";
import { chart } from "/degrees.js";
import { h, number, shown } from "/dom.js";
import { link } from "/place.js";

/** The first view. */
export async function homeView(page, state, signal) {
  const [about, { examples }, { relations }] = await Promise.all([
    ask("/api/about", { signal }),
    ask("/api/examples", { signal }),
    ask("/api/relations", { parameters: { rows: 60 }, signal }),
  ]);
  const ranked = examples.filter((example) => example.ranked);
  const exact = examples.filter((example) => !example.ranked);
  page.append(
    h("div", { class: "hero" }, h("h1", {}, about.model ? "What is missing, and why?" : "What is known?"), h("p", { class: "lead" }, lead(about))),
    figures(about),
    ranked.length ? cards("Ask the model", ranked) : "",
    exact.length ? cards("Ask what is known", exact) : "",
    h(
      "div",
      { class: "split even" },
      h("section", { "aria-label": "Relations" }, h("h2", {}, "Relations"), h("ul", { class: "chips" }, relations.map(chip))),
      h("section", { "aria-label": "Degrees" }, h("h2", {}, h("a", { href: link({ view: "degrees" }) }, "How connected objects are")), chart(await ask("/api/degrees", { signal }))),
    ),
    code("/api/about", { lines: ["print(kb)"] }),
  );
}

function lead(about) {
  if (!about.model) return "A knowledge base that can be browsed, and asked any first-order query. With a model it also says what is missing.";
  return "A model has learnt from these facts. Ask it for facts that are not there: each comes with a probability, and with the facts that speak for it.";
}

function figures(about) {
  const trained = about.model?.relations ?? null;
  const rows = [["objects", about.objects], ["facts", about.facts], ["relations", about.relations], ["attributes", about.attributes]];
  if (trained) rows.push(["learnt", trained]);
  return h("dl", { class: "figures" }, rows.map(([name, value]) => h("div", {}, h("dd", {}, number(value)), h("dt", {}, name))));
}

function cards(title, examples) {
  const card = (example) => h("li", {}, h("a", { class: "card", href: link({ q: example.query }) }, h("code", {}, shown(example.query)), h("span", {}, shown(example.words))));
  return h("section", { "aria-label": title }, h("h2", {}, title), h("ul", { class: "cards" }, examples.map(card)));
}

function chip(relation) {
  const how = relation.trained ? "" : "exact";
  const text = [shown(relation.name), h("span", { class: "soft" }, ` ${number(relation.facts)}`)];
  return h("li", {}, h("a", { class: `chip${relation.trained ? " learnt" : ""}`, href: link({ q: relation.query, how: how && "exact" }) }, text));
}
