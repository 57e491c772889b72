// How many objects have how many neighbours, drawn with both axes in powers of ten.

import { ask } from "/api.js";
import { code } from "/code.js";
import { h, number, s, some } from "/dom.js";
import { objectLink } from "/place.js";

const [LEFT, BOTTOM, TOP, EDGE] = [56, 44, 30, 14];

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
    h("section", { "aria-label": "Distribution" }, chart(found), most),
    h("details", {}, h("summary", {}, "The same as a table"), h("div", { class: "scroll" }, h("table", { class: "sum" }, h("thead", {}, h("tr", {}, head)), h("tbody", {}, cells)))),
    code("/api/degrees", { lines: ["from gaifman.graph import graph_of", "print(graph_of(kb).summary())"] }),
  );
}

/** The drawing, in whatever room it has: its words stay as large as others. */
export function chart(found) {
  const points = found.degrees.filter(([degree, count]) => degree > 0 && count > 0);
  if (!points.length) return h("p", { class: "soft" }, "No object has a neighbour.");
  const place = h("div", { class: "chart" }, drawn(found, points, 640));
  new ResizeObserver(([entry]) => {
    const width = Math.round(entry.contentRect.width);
    if (width > 100 && place.firstChild.getAttribute("width") !== String(width)) place.replaceChildren(drawn(found, points, width));
  }).observe(place);
  return place;
}

function drawn(found, points, width) {
  const height = Math.round(Math.min(420, Math.max(220, 0.5 * width)));
  const [far, high] = [Math.max(...points.map(([degree]) => degree), 10), Math.max(...points.map(([, count]) => count), 10)];
  const x = (degree) => LEFT + (Math.log10(degree) / Math.log10(far)) * (width - LEFT - EDGE);
  const y = (count) => height - BOTTOM - (Math.log10(count) / Math.log10(high)) * (height - BOTTOM - TOP);
  const dots = points.map(([degree, count]) => s("circle", { class: "dot", cx: x(degree).toFixed(1), cy: y(count).toFixed(1), r: 4 }, s("title", {}, `${some(count, "object")} with ${some(degree, "neighbour")}`)));
  const label = `${number(found.objects)} objects; half of them have at most ${some(found.median_degree, "neighbour")}, one has ${number(found.largest_degree)}`;
  return s(
    "svg",
    { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    powers(far).map((value) => [s("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: height - BOTTOM }), s("text", { x: x(value), y: height - BOTTOM + 18, "text-anchor": "middle" }, number(value))]),
    powers(high).map((value) => [s("line", { class: "grid", x1: LEFT, x2: width - EDGE, y1: y(value), y2: y(value) }), s("text", { x: LEFT - 10, y: y(value) + 4, "text-anchor": "end" }, number(value))]),
    dots,
    s("text", { class: "axis", x: width - EDGE, y: height - 6, "text-anchor": "end" }, "neighbours →"),
    s("text", { class: "axis", x: 4, y: 14 }, "↑ objects"),
  );
}

const powers = (most) => Array.from({ length: Math.floor(Math.log10(most)) + 1 }, (_, power) => 10 ** power);
