// DOM elements from plain values. Text becomes a text node, never markup, so names cannot inject anything.

const SVG = "http://www.w3.org/2000/svg";
const BRIEF_LENGTH = 44;

/** An HTML element with attributes, listeners (`onclick`) and children: elements, text, lists of these, or null. */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element, in the same way. */
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** `name` with invisible characters escaped: a name can neither hide nor reverse the text around it. */
export function visible(name) {
  return String(name).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => {
    const code = c.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** Object → how it is shown: the labels of all replies. */
export const labels = new Map();

/** The name of an object as it is shown: its label, if it has one. */
export const shown = (name) => visible(labels.get(name) ?? name);

/** A long name without its middle. */
export function brief(name) {
  const text = [...visible(name)];
  return text.length <= BRIEF_LENGTH ? text.join("") : [...text.slice(0, 14), "…", ...text.slice(-28)].join("");
}

/** A name in quotes, as formulas write it. */
export function quoted(name) {
  return `'${visible(name.replace(/['\\]/g, "\\$&"))}'`;
}

/** The name of a relation as words. */
export const humanize = (name) => visible(name).replaceAll("_", " ");

/** A number with separators for thousands. */
export const number = (value) => value.toLocaleString("en");

/** A share as a percentage of three digits. */
export const percent = (share) => `${Number((100 * share).toPrecision(3))}\u00a0%`;

/** A probability; never shown as 0 or 1. */
export function probability(value) {
  if (value > 0.9995) return ">0.999";
  return value < 0.0005 ? "<0.001" : value.toFixed(3);
}

/** `countNoun(1, "fact")` is "1 fact". */
export const countNoun = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A fact as formulas write it; `linked` makes the elements of its objects. */
export function factText(fact, linked) {
  const objects = fact.objects.flatMap((name, position) => [position ? ", " : "", linked(name)]);
  const confidence = fact.confidence < 1 ? h("span", { class: "muted" }, ` (${fact.confidence})`) : null;
  return h("span", { class: "fact" }, h("span", { class: "relation" }, visible(fact.relation)), "(", objects, ")", confidence);
}

/** A list of chips; those after the first `count` are folded. */
export function chips(items, count, noun) {
  const list = (part) => h("ul", { class: "chips" }, part.map((item) => h("li", {}, item)));
  if (items.length <= count) return list(items);
  const rest = h("details", {}, h("summary", {}, countNoun(items.length - count, `more ${noun}`)), list(items.slice(count)));
  return h("div", { class: "folded" }, list(items.slice(0, count)), rest);
}

/** A bar for a probability, with a whisker for its standard error. */
export function bar(value, standardError, kind) {
  const fillBar = h("span", { class: `fill ${kind}` });
  fillBar.style.inlineSize = `${(100 * value).toFixed(2)}%`;
  const parts = [fillBar];
  if (standardError) {
    const [from, to] = [Math.max(0, value - standardError), Math.min(1, value + standardError)];
    const whisker = h("span", { class: "whisker" });
    whisker.style.insetInlineStart = `${(100 * from).toFixed(2)}%`;
    whisker.style.inlineSize = `${(100 * (to - from)).toFixed(2)}%`;
    parts.push(whisker);
  }
  return h("span", { class: "probability", "aria-hidden": "true" }, parts);
}

/** Buttons to the previous and the next page of a list; `to(skip)` is the address of a page. */
export function pageLinks({ skipped, truncated }, shown, rows, to) {
  const button = (skip, text) => h("a", { class: "button", href: to(skip || "") }, text);
  return [skipped > 0 && button(Math.max(0, skipped - rows), "Previous"), truncated && button(skipped + shown, "Next")];
}

/** The fields of an error reply. */
export function errorBox(error) {
  return h(
    "div",
    { class: "error", role: "alert" },
    h("p", {}, h("strong", {}, error.message)),
    error.caret ? h("pre", { class: "caret" }, error.caret) : null,
    error.suggestions?.length ? h("p", {}, `did you mean: ${error.suggestions.map(visible).join(", ")}`) : null,
    error.hint ? h("p", { class: "muted" }, error.hint) : null,
  );
}
