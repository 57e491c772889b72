// How many objects have how many neighbours, drawn with both axes in powers of ten.

import { ask } from "/api.js";
import { code } from "/code.js";
import { h, number, s } from "/dom.js";
import { objectLink } from "/place.js";

const [WIDTH, HEIGHT, LEFT, BOTTOM, EDGE] = [640, 300, 52, 44, 14];

/** The view of the distribution. */
export async function degreesView(page, state, signal) {
  const found = await ask("/api/degrees", { signal });
  const rows = [["objects", number(found.objects)], ["edges", number(found.edges)], ["without neighbours", number(found.isolated)], ["mean", found.mean_degree.toFixed(1)], ["median", number(found.median_degree)], ["largest", number(found.largest_degree)]];
  const most = found.most_connected === null ? null : h("p", {}, "The most connected object is ", objectLink(found.most_connected), ".");
  const cells = found.degrees.map(([degree, count]) => h("tr", {}, h("td", { class: "right" }, number(degree)), h("td", { class: "right" }, number(count))));
  const head = ["neighbours", "objects"].map((name) => h("th", { scope: "col", class: "right" }, name));
  page.append(
    h("h1", {}, "How connected objects are"),
    h("p", { class: "lead" }, "Two objects are neighbours when they stand in one fact together: the Gaifman graph."),
    h("dl", { class: "figures" }, rows.map(([name, value]) => h("div", {}, h("dd", {}, value), h("dt", {}, name)))),
    chart(found),
    most,
    h("details", {}, h("summary", {}, "The same as a table"), h("div", { class: "scroll" }, h("table", { class: "sum" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, cells)))),
    code("/api/degrees", { lines: ["print(gaifman.graph_of(kb).summary())"] }),
  );
}

/** The drawing. */
export function chart(found) {
  const points = found.degrees.filter(([degree, count]) => degree > 0 && count > 0);
  if (!points.length) return h("p", { class: "soft" }, "No object has a neighbour.");
  const [far, high] = [Math.max(...points.map(([degree]) => degree), 10), Math.max(...points.map(([, count]) => count), 10)];
  const x = (degree) => LEFT + (Math.log10(degree) / Math.log10(far)) * (WIDTH - LEFT - EDGE);
  const y = (count) => HEIGHT - BOTTOM - (Math.log10(count) / Math.log10(high)) * (HEIGHT - BOTTOM - EDGE);
  const dots = points.map(([degree, count]) => s("circle", { class: "dot", cx: x(degree).toFixed(1), cy: y(count).toFixed(1), r: 3.5 }, s("title", {}, `${number(count)} objects with ${number(degree)} neighbours`)));
  const label = `${number(found.objects)} objects; most have about ${number(found.median_degree)} neighbours, one has ${number(found.largest_degree)}`;
  return s(
    "svg",
    { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label },
    powers(far).map((value) => [s("line", { class: "grid", x1: x(value), x2: x(value), y1: EDGE, y2: HEIGHT - BOTTOM }), s("text", { x: x(value), y: HEIGHT - BOTTOM + 18, "text-anchor": "middle" }, number(value))]),
    powers(high).map((value) => [s("line", { class: "grid", x1: LEFT, x2: WIDTH - EDGE, y1: y(value), y2: y(value) }), s("text", { x: LEFT - 8, y: y(value) + 4, "text-anchor": "end" }, number(value))]),
    dots,
    s("text", { class: "axis", x: WIDTH - EDGE, y: HEIGHT - 6, "text-anchor": "end" }, "neighbours →"),
    s("text", { class: "axis", x: LEFT + 6, y: EDGE + 8 }, "↑ objects"),
  );
}

const powers = (most) => Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, power) => 10 ** power);
