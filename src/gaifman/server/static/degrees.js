// The degree distribution, drawn with logarithmic axes.

import { request } from "/api.js";
import { countNoun, h, number, s } from "/dom.js";
import { objectLink } from "/navigation.js";
import { snippets } from "/snippets.js";

const [LEFT, BOTTOM, TOP, EDGE] = [56, 44, 30, 14];

/** The view of the distribution. */
export async function degreesView(page, state, signal) {
  const found = await request("/api/degrees", { signal });
  const figures = [["objects", number(found.objects)], ["edges", number(found.edges)], ["isolated objects", number(found.isolated)], ["mean degree", found.mean_degree.toFixed(1)], ["median", number(found.median_degree)], ["maximum", number(found.largest_degree)]];
  const hub = found.most_connected === null ? null : h("p", {}, "The object with most neighbours is ", objectLink(found.most_connected), ".");
  const cells = found.degrees.map(([degree, count]) => h("tr", {}, h("td", { class: "right" }, number(degree)), h("td", { class: "right" }, number(count))));
  const head = ["neighbours", "objects"].map((name) => h("th", { scope: "col", class: "right" }, name));
  const table = h("table", { class: "sum" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, cells));
  page.append(
    h("h1", {}, "Degree distribution"),
    h("p", { class: "lead" }, "Two objects are neighbours in the Gaifman graph if one fact contains both."),
    h("dl", { class: "figures" }, figures.map(([name, value]) => h("div", {}, h("dd", {}, value), h("dt", {}, name)))),
    h("section", { "aria-label": "Distribution" }, chart(found), hub),
    h("details", {}, h("summary", {}, "As a table"), h("div", { class: "scroll" }, table)),
    snippets("/api/degrees", { lines: ["from gaifman.kb.gaifman_graph import build_graph", "print(build_graph(kb).summary())"] }),
  );
}

/** The chart, redrawn to the width it has: its labels keep their size. */
export function chart(found) {
  const points = found.degrees.filter(([degree, count]) => degree > 0 && count > 0);
  if (!points.length) return h("p", { class: "muted" }, "No object has a neighbour.");
  const box = h("div", { class: "chart" }, draw(found, points, 640));
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width > 100 && box.firstChild.getAttribute("width") !== String(width)) box.replaceChildren(draw(found, points, width));
  }).observe(box);
  return box;
}

function draw(found, points, width) {
  const height = Math.round(Math.min(420, Math.max(220, 0.5 * width)));
  const [maxDegree, maxCount] = [Math.max(...points.map(([degree]) => degree), 10), Math.max(...points.map(([, count]) => count), 10)];
  const x = (degree) => LEFT + (Math.log10(degree) / Math.log10(maxDegree)) * (width - LEFT - EDGE);
  const y = (count) => height - BOTTOM - (Math.log10(count) / Math.log10(maxCount)) * (height - BOTTOM - TOP);
  const dots = points.map(([degree, count]) => s("circle", { class: "dot", cx: x(degree).toFixed(1), cy: y(count).toFixed(1), r: 4 }, s("title", {}, `${countNoun(count, "object")} with ${countNoun(degree, "neighbour")}`)));
  const label = `${number(found.objects)} objects; half of them have at most ${countNoun(found.median_degree, "neighbour")}, one has ${number(found.largest_degree)}`;
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    powers(maxDegree).map((value) => [s("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: height - BOTTOM }), s("text", { x: x(value), y: height - BOTTOM + 18, "text-anchor": "middle" }, number(value))]),
    powers(maxCount).map((value) => [s("line", { class: "grid", x1: LEFT, x2: width - EDGE, y1: y(value), y2: y(value) }), s("text", { x: LEFT - 10, y: y(value) + 4, "text-anchor": "end" }, number(value))]),
    dots,
    s("text", { class: "axis", x: width - EDGE, y: height - 6, "text-anchor": "end" }, "neighbours →"),
    s("text", { class: "axis", x: 4, y: 14 }, "↑ objects"),
  );
}

/** 1, 10, 100 … up to `limit`. */
const powers = (limit) => Array.from({ length: Math.floor(Math.log10(limit)) + 1 }, (_, power) => 10 ** power);
