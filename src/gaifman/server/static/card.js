// What the model is, from its card: the few kinds of Markdown that cards have.

import { ask } from "/api.js";
import { code } from "/code.js";
import { h } from "/dom.js";

/** The view of the model's card. */
export async function cardView(page, state, signal) {
  const { card } = await ask("/api/model", { signal });
  page.append(h("section", { class: "card-sheet", "aria-label": "Model" }, h("article", { class: "prose" }, blocks(card))), code("/api/model", { model: true, lines: ["print(model.meta)"] }));
}

function blocks(text) {
  return text.split(/\n{2,}/).filter((part) => part.trim()).map(block);
}

function block(text) {
  const lines = text.trimEnd().split("\n");
  const head = /^(#+) (.*)/.exec(lines[0]);
  if (head && lines.length === 1) return h(`h${Math.min(head[1].length, 4)}`, {}, inline(head[2]));
  if (lines[0].startsWith("```")) return h("pre", {}, lines.filter((line) => !line.startsWith("```")).join("\n"));
  if (lines.every((line) => line.startsWith("|"))) return table(lines);
  if (lines.every((line) => /^[-*] /.test(line))) return h("ul", {}, lines.map((line) => h("li", {}, inline(line.slice(2)))));
  return h("p", {}, inline(lines.join(" ")));
}

function table(lines) {
  const [head, , ...rows] = lines.map((line) => line.replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim()));
  const first = h("tr", {}, head.map((cell) => h("th", { scope: "col" }, inline(cell))));
  return h("div", { class: "scroll" }, h("table", { class: "sum" }, h("thead", {}, first), h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell) => h("td", {}, inline(cell))))))));
}

/** Code between backticks, bold between stars; a backslash before a sign is not shown. */
function inline(text) {
  const plain = (part) => part.replace(/\\([\\`*_{}[\]()#+.!|<>~-])/g, "$1");
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
    if (part.startsWith("`") && part.length > 1) return h("code", {}, part.slice(1, -1));
    return part.startsWith("**") ? h("strong", {}, plain(part.slice(2, -2))) : plain(part);
  });
}
