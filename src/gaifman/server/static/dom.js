// Elements from plain values. A text becomes a text node, never markup, so no name can be more than a name.

const SVG = "http://www.w3.org/2000/svg";

/** An element with attributes, listeners (`onclick`) and children: elements, texts, lists of these, or nothing. */
export function h(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/** The same in SVG. */
export function s(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

function filled(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** What does not print is written out: a name can neither hide nor turn the text around it. */
export function shown(name) {
  return String(name).replace(/[\p{C}\p{Zl}\p{Zp}]/gu, (c) => {
    const code = c.codePointAt(0).toString(16);
    return code.length > 4 ? `\\U${code.padStart(8, "0")}` : `\\u${code.padStart(4, "0")}`;
  });
}

/** A name that leaves room for others: its middle is left out where it is long. */
export function brief(name) {
  const text = [...shown(name)];
  return text.length <= 44 ? text.join("") : [...text.slice(0, 14), "…", ...text.slice(-28)].join("");
}

/** A name in quotes, as formulas have it. */
export function quoted(name) {
  return `'${shown(name.replace(/['\\]/g, "\\$&"))}'`;
}

/** A word for people from the name of a relation. */
export const words = (name) => shown(name).replaceAll("_", " ");

export const number = (value) => value.toLocaleString("en");

/** A probability, which is never shown as certain. */
export function share(value) {
  if (value > 0.9995) return ">0.999";
  return value < 0.0005 ? "<0.001" : value.toFixed(3);
}

/** `some(1, "fact")` is "1 fact". */
export const some = (count, noun) => `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

/** A fact as formulas write it, with its objects as links. */
export function factText(fact, linked) {
  const objects = fact.objects.flatMap((name, place) => [place ? ", " : "", linked(name)]);
  const sure = fact.confidence < 1 ? h("span", { class: "soft" }, ` (${fact.confidence})`) : null;
  return h("span", { class: "fact" }, h("span", { class: "relation" }, shown(fact.relation)), "(", objects, ")", sure);
}

/** A list of chips; those after the first few are there when they are wanted. */
export function chips(items, most, noun) {
  const list = (some) => h("ul", { class: "chips" }, some.map((item) => h("li", {}, item)));
  if (items.length <= most) return list(items);
  return h("div", { class: "folded" }, list(items.slice(0, most)), h("details", {}, h("summary", {}, some(items.length - most, `more ${noun}`)), list(items.slice(most))));
}

/** A bar as long as a probability, with its standard error. */
export function bar(value, error, kind) {
  const full = h("span", { class: `fill ${kind}` });
  full.style.inlineSize = `${(100 * value).toFixed(2)}%`;
  const parts = [full];
  if (error) {
    const [from, to] = [Math.max(0, value - error), Math.min(1, value + error)];
    const whisker = h("span", { class: "whisker" });
    whisker.style.insetInlineStart = `${(100 * from).toFixed(2)}%`;
    whisker.style.inlineSize = `${(100 * (to - from)).toFixed(2)}%`;
    parts.push(whisker);
  }
  return h("span", { class: "probability", "aria-hidden": "true" }, parts);
}

/** What went wrong, in the words of the server. */
export function trouble(error) {
  return h(
    "div",
    { class: "trouble", role: "alert" },
    h("p", {}, h("strong", {}, error.message)),
    error.caret ? h("pre", { class: "caret" }, error.caret) : null,
    error.near?.length ? h("p", {}, `near: ${error.near.map(shown).join(", ")}`) : null,
    error.hint ? h("p", { class: "soft" }, error.hint) : null,
  );
}
