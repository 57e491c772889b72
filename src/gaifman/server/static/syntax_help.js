// The query syntax, with relations of this knowledge base.

import { h, visible } from "/dom.js";
import { link } from "/navigation.js";

/** A table of examples; empty without a binary relation. */
export function syntaxHelp(relations, about) {
  const pair = relations.find((row) => row.arity === 2 && row.query.length <= 40) ?? relations.find((row) => row.arity === 2);
  if (!pair) return "";
  const name = pair.query.slice(0, pair.query.lastIndexOf("("));
  const rows = [
    [`${name}(x, y)`, "all pairs; x and y are variables"],
    [`${name}('…', y)`, "names of objects are quoted"],
    [`exists y. ${name}(x, y)`, "for some y; also ∃"],
    [`${name}(x, y) & ~${name}(y, x)`, "and, not; also ∧ ¬; | is or"],
    [`forall y. ${name}(x, y) -> ${name}(y, x)`, "for all y, if … then"],
    [`${name}(x, y) & x != y`, "different objects"],
  ];
  const example = (text) => {
    const code = h("code", {}, visible(text));
    return text.includes("…") ? code : h("a", { href: link({ q: text, mode: about.model ? "exact" : "" }) }, code);
  };
  const row = ([text, meaning]) => h("tr", {}, h("td", {}, example(text)), h("td", { class: "muted" }, meaning));
  const table = h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map(row))));
  return h("section", { class: "syntax", "aria-label": "Query syntax" }, h("h2", {}, "Query syntax"), table);
}
