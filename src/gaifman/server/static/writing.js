// How queries are written, with relations of this very knowledge base.

import { h, shown } from "/dom.js";
import { link } from "/place.js";

/** A small table of the language. */
export function writing(relations, about) {
  const pair = relations.find((row) => row.arity === 2 && row.query.length <= 40) ?? relations.find((row) => row.arity === 2);
  if (!pair) return "";
  const name = pair.query.slice(0, pair.query.lastIndexOf("("));
  const rows = [
    [`${name}(x, y)`, "all pairs; x and y are variables"],
    [`${name}('…', y)`, "an object stands in quotes"],
    [`exists y. ${name}(x, y)`, "some y: also ∃"],
    [`${name}(x, y) & ~${name}(y, x)`, "and, not: also ∧ ¬, and | for or"],
    [`forall y. ${name}(x, y) -> ${name}(y, x)`, "for every y, if one then the other"],
    [`${name}(x, y) & x != y`, "two objects are not the same"],
  ];
  const row = ([text, said]) => h("tr", {}, h("td", {}, text.includes("…") ? h("code", {}, shown(text)) : h("a", { href: link({ q: text, how: about.model ? "exact" : "" }) }, h("code", {}, shown(text)))), h("td", { class: "soft" }, said));
  return h("section", { class: "writing", "aria-label": "How queries are written" }, h("h2", {}, "How queries are written"), h("div", { class: "scroll" }, h("table", {}, h("tbody", {}, rows.map(row)))));
}
