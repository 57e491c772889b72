// The model card: renders the Markdown that cards use.

import { request } from "/api.js";
import { h } from "/dom.js";
import { snippets } from "/snippets.js";

/** The view of the model card. */
export async function modelCardView(page, state, signal) {
  const { card } = await request("/api/model-card", { signal });
  const article = h("article", { class: "prose" }, blocks(card));
  page.append(h("section", { class: "card-sheet", "aria-label": "Model card" }, article), snippets("/api/model-card", { model: true, lines: ["print(model.meta)"] }));
}

function blocks(text) {
  return text.split(/\n{2,}/).filter((part) => part.trim()).map(block);
}

function block(text) {
  const lines = text.trimEnd().split("\n");
  const heading = /^(#+) (.*)/.exec(lines[0]);
  if (heading && lines.length === 1) return h(`h${Math.min(heading[1].length, 4)}`, {}, inline(heading[2]));
  if (lines[0].startsWith("```")) return h("pre", {}, lines.filter((line) => !line.startsWith("```")).join("\n"));
  if (lines.every((line) => line.startsWith("|"))) return table(lines);
  if (lines.every((line) => /^[-*] /.test(line))) return h("ul", {}, lines.map((line) => h("li", {}, inline(line.slice(2)))));
  return h("p", {}, inline(lines.join(" ")));
}

function table(lines) {
  const [head, , ...rows] = lines.map((line) => line.replace(/^\||\|$/g, "").split(/(?<!\\)\|/).map((cell) => cell.trim()));
  const row = (cells, tag, attributes = {}) => h("tr", {}, cells.map((cell) => h(tag, attributes, inline(cell))));
  return h("div", { class: "scroll" }, h("table", { class: "sum" }, h("thead", {}, row(head, "th", { scope: "col" })), h("tbody", {}, rows.map((cells) => row(cells, "td")))));
}

/** `code`, **bold** and escaped punctuation. */
function inline(text) {
  const plain = (part) => part.replace(/\\([\\`*_{}[\]()#+.!|<>~-])/g, "$1");
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
    if (part.startsWith("`") && part.length > 1) return h("code", {}, part.slice(1, -1));
    return part.startsWith("**") ? h("strong", {}, plain(part.slice(2, -2))) : plain(part);
  });
}
