// The explanation of an answer: formulas for and against it, a neighbourhood, and a counterfactual.

import { request } from "/api.js";
import { bar, countNoun, factText, h, labels, number, probability, s, visible } from "/dom.js";
import { link, objectLink, queryLink } from "/navigation.js";
import { literal, snippets } from "/snippets.js";

const TOP = 5;
const TITLE_HEIGHT = 58; // the title and legend inside a picture, which this page shows above it
const MIN_SCALE = 0.62; // names are 13 units high: they stay readable
const MIN_WIDTH = 640; // pixels of a picture that has to be scaled down
const SVG_ELEMENTS = new Set(["svg", "g", "rect", "path", "polygon", "line", "text", "tspan", "title", "circle"]);
const SVG_ATTRIBUTES = "viewBox width height class d x y x1 y1 x2 y2 cx cy r rx points fill stroke-width font-size font-weight text-anchor".split(" ");

/** Append the panel of the answer that the address names. */
export async function explanationPanel(split, state, signal) {
  const answer = state.why.filter((name) => name !== " ");
  const panel = h("section", { class: "panel", "aria-busy": "true", "aria-label": "Explanation" }, h("p", { class: "muted" }, "Explaining …"));
  split.append(panel);
  const parameters = { query: state.q, answer, top: TOP, prior: state.prior };
  const found = await request("/api/explanations", { parameters, signal });
  const lines = [`explanation = model.explain_answer(${literal(state.q)}, {}, ${literal(answer)}${state.prior ? `, prior=${state.prior}` : ""})`, "print(explanation)"];
  const close = h("a", { href: queryLink(state), "aria-label": "Close the explanation" }, "close ×");
  const figure = picture(found);
  panel.addEventListener("keydown", (event) => event.key === "Escape" && close.click());
  const title = h("h2", { tabindex: "-1", id: "why" }, "Why ", h("code", {}, visible(found.query_labels ?? found.query)), "?");
  const parts = [
    h("p", { class: "close" }, close),
    title,
    h("div", { class: "both" }, verdict(found), counterfactual(found)),
    figure,
    h(
      "div",
      { class: "both" },
      reasonList("Evidence for", found.reasons.filter((reason) => reason.effect > 0), found.draws),
      reasonList("Evidence against", found.reasons.filter((reason) => reason.effect < 0), found.draws),
    ),
    logOddsTable(found),
    snippets("/api/explanations", { parameters, model: true, lines }),
  ];
  panel.replaceChildren(...parts.filter(Boolean));
  panel.removeAttribute("aria-busy");
  const scroll = figure?.querySelector(".scroll");
  if (scroll) scroll.scrollLeft = (scroll.scrollWidth - scroll.clientWidth) / 2; // the tuple is in the middle
  title.focus();
}

const plusMinus = (found) => probability(found.probability) + (found.standard_error === null ? "" : ` ± ${found.standard_error.toFixed(3)}`);

function verdict(found) {
  const kind = found.known ? "known" : "predicted";
  const known = found.hidden ? "Known; hidden while it was scored." : "Known from facts that cannot be hidden; scored with them.";
  return h("div", { class: "verdict" }, h("strong", { class: "figure" }, plusMinus(found)), bar(found.probability, found.standard_error, kind), h("p", { class: "muted" }, found.known ? known : "Not known: predicted."), found.covered ? null : h("p", { class: "muted" }, `Little to go on: ${visible(found.uncovered_reason)}.`));
}

function reasonList(title, reasons, draws) {
  if (!reasons.length) return null;
  const largest = Math.max(...reasons.map((reason) => Math.abs(reason.effect)));
  return h("div", { class: "reasons" }, h("h3", {}, title), h("ol", {}, reasons.map((reason) => reasonItem(reason, largest, draws))));
}

function reasonItem(reason, largest, draws) {
  const sign = reason.effect > 0 ? "for" : "against";
  const weight = h("span", { class: `weight ${sign}`, "aria-hidden": "true" });
  weight.style.inlineSize = `${((100 * Math.abs(reason.effect)) / largest).toFixed(1)}%`;
  const effect = `${reason.effect > 0 ? "+" : "−"}${Math.abs(reason.effect).toFixed(2)} log-odds`;
  const where = draws < 2 ? "" : reason.draws === draws ? ", in every sampled neighbourhood" : `, in ${number(reason.draws)} of ${countNoun(draws, "sampled neighbourhood")}`;
  return h(
    "li",
    {},
    h("span", { class: "track" }, weight),
    h("p", { class: "description" }, visible(reason.description)),
    h("code", { class: "formula" }, visible(reason.labelled ?? reason.formula)),
    h("p", {}, `${oddsText(reason.effect)}${isConstraint(reason) ? "" : where}`, h("span", { class: "muted" }, ` (${effect})`)),
    witnesses(reason),
  );
}

const isConstraint = (reason) => reason.kind === "constraint";

function oddsText(effect) {
  const factor = Math.exp(Math.abs(effect));
  if (factor < 1.05) return effect > 0 ? "raises the odds slightly" : "lowers the odds slightly";
  const text = factor >= 1000 ? "more than 1,000" : factor.toPrecision(factor >= 100 ? 3 : 2);
  return `${effect > 0 ? "multiplies" : "divides"} the odds by ${text}`;
}

function witnesses(reason) {
  if (!reason.facts.length && isConstraint(reason)) return null;
  if (!reason.facts.length) return h("p", { class: "muted" }, `no supporting facts; value ${Number(reason.value.toPrecision(4))}`);
  const facts = reason.facts.map((fact) => h("li", {}, factText(fact, objectLink)));
  if (facts.length <= 3) return h("ul", { class: "facts" }, facts);
  const rest = h("details", {}, h("summary", {}, countNoun(facts.length - 3, "more fact")), h("ul", { class: "facts" }, facts.slice(3)));
  return h("div", {}, h("ul", { class: "facts" }, facts.slice(0, 3)), rest);
}

function counterfactual(found) {
  const other = found.counterfactual;
  if (!other) return h("div", { class: "without" }, h("h3", {}, "Without the decisive facts"), h("p", {}, "No decisive facts were found."));
  const row = (label, one, kind) => [h("span", { class: "muted" }, label), bar(one.probability, one.standard_error, kind)];
  return h(
    "div",
    { class: "without" },
    h("h3", {}, "Without these facts"),
    h("ul", { class: "facts" }, other.facts.map((fact) => h("li", {}, factText(fact, objectLink)))),
    h("p", {}, "The probability would be ", h("strong", {}, plusMinus(other)), " instead of ", h("strong", {}, plusMinus(found)), "."),
    h("div", { class: "pair" }, row("with", found, found.known ? "known" : "predicted"), row("without", other, "against")),
  );
}

function logOddsTable(found) {
  const { parts } = found;
  const rows = [
    [found.reasons.some(isConstraint) ? "constraints and formulas above" : "formulas above", found.reasons.reduce((sum, reason) => sum + reason.effect, 0)],
    [countNoun(parts.others.count, "other formula"), parts.others.effect],
    ["base: nothing is known", parts.base],
    ["interactions of formulas", parts.interactions],
    [`averaging over ${countNoun(found.draws, "draw")}`, parts.averaging],
    ["calibration", parts.calibration],
    ["competition: the other candidates", parts.competition],
    ["log-odds of the probability", found.log_odds],
  ].filter(([, effect]) => effect !== null);
  const cells = rows.map(([name, effect]) => h("tr", {}, h("td", {}, name), h("td", { class: "right" }, `${effect < 0 ? "−" : "+"}${Math.abs(effect).toFixed(3)}`)));
  return h("details", {}, h("summary", {}, "Sum of log-odds"), h("table", { class: "sum" }, h("tbody", {}, cells)));
}

// The picture

function picture(found) {
  if (!found.picture) return null;
  const svg = sanitizeSvg(new DOMParser().parseFromString(found.picture, "image/svg+xml").documentElement, new Map(found.diagram.members.flatMap(titlesOf)));
  if (!svg) return null;
  svg.setAttribute("role", "img");
  const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
  const size = { viewBox: `0 ${TITLE_HEIGHT} ${width} ${height - TITLE_HEIGHT}`, width, height: height - TITLE_HEIGHT };
  for (const [name, value] of Object.entries(size)) svg.setAttribute(name, value);
  svg.style.minInlineSize = `${Math.round(Math.min(0.8 * width, Math.max(MIN_SCALE * width, MIN_WIDTH)))}px`; // on a phone it scrolls
  svg.style.maxInlineSize = `${Math.round(1.25 * width)}px`;
  const what = found.draws < 2 ? "The objects of these facts" : "One sampled neighbourhood";
  const caption = `${what}; facts that the formulas use are highlighted.`;
  return h("figure", {}, h("figcaption", {}, caption), h("div", { class: "scroll picture", tabindex: "0", role: "group", "aria-label": "Picture of the neighbourhood" }, svg));
}

/** The titles that the box of an object can have: its name, its label, or both. */
const titlesOf = (name) => [name, labels.get(name), `${labels.get(name)} (${name})`].map((title) => [title, name]);

/** A copy with the allowed elements and attributes only; names of objects become links. */
function sanitizeSvg(node, members) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (!SVG_ELEMENTS.has(node.localName)) return null;
  const attributes = SVG_ATTRIBUTES.filter((name) => node.hasAttribute(name)).map((name) => [name, node.getAttribute(name)]);
  const children = [...node.childNodes].map((child) => sanitizeSvg(child, members));
  const element = s(node.localName, Object.fromEntries(attributes), children);
  const title = node.getAttribute("class") === "gaifman-name" && node.querySelector("title")?.textContent;
  const name = title && members.get(title);
  return name ? s("a", { href: link({ object: name }) }, element) : element;
}
