// Why an answer is as probable as it is: reasons in words, the neighbourhood, and what if its facts were not known.

import { ask } from "/api.js";
import { code, literal } from "/code.js";
import { bar, factText, h, number, s, share, shown, some } from "/dom.js";
import { link, objectLink, priorOf } from "/place.js";

const TOP = 5;
const HEAD = 58; // of a picture: its title, and what is said below it
const SMALLEST = 0.62; // names are 13 units high: so they can still be read
const WHOLE = 640; // pixels that a picture has at least where it has to be made smaller than is pleasant
const DRAWN = new Set(["svg", "g", "rect", "path", "polygon", "line", "text", "tspan", "title", "circle"]);
const ATTRIBUTES = "viewBox width height class d x y x1 y1 x2 y2 cx cy r rx points fill stroke-width font-size font-weight text-anchor".split(" ");

/** Add the panel of the answer that is asked about. */
export async function reasons(split, state, signal) {
  const answer = state.why.filter((name) => name !== " ");
  const panel = h("section", { class: "panel", "aria-busy": "true", "aria-label": "Reasons" }, h("p", { class: "soft" }, "Looking for reasons …"));
  split.append(panel);
  const body = { query: state.q, answer, top: TOP, ...priorOf(state) };
  const found = await ask("/api/explanation", { body, signal });
  const lines = [`why = model.explain(*model.tuple_of(${literal(state.q)}, {}, ${literal(answer)})${state.prior ? `, prior=${state.prior}` : ""})`, "print(why)"];
  const close = h("a", { href: link({ q: state.q, top: state.top === 15 ? "" : state.top, prior: state.prior, any: state.any ? "1" : "" }), "aria-label": "Close the reasons" }, "close ×");
  const picture = drawn(found);
  panel.addEventListener("keydown", (event) => event.key === "Escape" && close.click());
  const title = h("h2", { tabindex: "-1", id: "why" }, "Why ", h("code", {}, shown(found.query)), "?");
  const parts = [
    h("p", { class: "close" }, close),
    title,
    h("div", { class: "both" }, verdict(found), without(found)),
    picture,
    h(
      "div",
      { class: "both" },
      spoken("What speaks for it", found.reasons.filter((reason) => reason.effect > 0), found.draws),
      spoken("What speaks against it", found.reasons.filter((reason) => reason.effect < 0), found.draws),
    ),
    sum(found),
    code("/api/explanation", { body, model: true, lines }),
  ];
  panel.replaceChildren(...parts.filter(Boolean));
  panel.removeAttribute("aria-busy");
  const scene = picture?.querySelector(".scroll");
  if (scene) scene.scrollLeft = (scene.scrollWidth - scene.clientWidth) / 2; // the pair is in the middle
  title.focus();
}

const plusMinus = (found) => share(found.probability) + (found.error === null ? "" : ` ± ${found.error.toFixed(3)}`);

function verdict(found) {
  const kind = found.known ? "known" : "predicted";
  const hidden = found.hidden ? "it was hidden, and judged as if it were not." : "by what cannot be hidden, and judged with that.";
  const said = found.known ? `This is known; ${hidden}` : "This is not known; it is predicted.";
  return h("div", { class: "verdict" }, h("strong", { class: "figure" }, plusMinus(found)), bar(found.probability, found.error, kind), h("p", { class: "soft" }, said));
}

function spoken(title, rows, draws) {
  if (!rows.length) return null;
  const most = Math.max(...rows.map((reason) => Math.abs(reason.effect)));
  return h("div", { class: "spoken" }, h("h3", {}, title), h("ol", {}, rows.map((reason) => said(reason, most, draws))));
}

function said(reason, most, draws) {
  const sign = reason.effect > 0 ? "for" : "against";
  const weight = h("span", { class: `weight ${sign}`, "aria-hidden": "true" });
  weight.style.inlineSize = `${((100 * Math.abs(reason.effect)) / most).toFixed(1)}%`;
  const odds = Math.exp(Math.abs(reason.effect));
  const times = odds >= 1000 ? "over 1,000" : odds.toPrecision(odds >= 100 ? 3 : 2);
  const better = sign === "for" ? "better" : "worse";
  const changed = odds < 1.05 ? `makes the odds a little ${better}` : `makes the odds ${times} times ${better}`;
  const held = reason.draws === draws ? "in every drawn neighbourhood" : `in ${number(reason.draws)} of ${some(draws, "drawn neighbourhood")}`;
  return h(
    "li",
    {},
    h("span", { class: "track" }, weight),
    h("p", { class: "said" }, shown(reason.words)),
    h("code", { class: "formula" }, shown(reason.formula)),
    h("p", {}, `${changed}, ${held}`, h("span", { class: "soft" }, ` (${reason.effect > 0 ? "+" : "−"}${Math.abs(reason.effect).toFixed(2)} log-odds)`)),
    witnesses(reason),
  );
}

function witnesses(reason) {
  if (!reason.facts.length) return h("p", { class: "soft" }, `no single fact says it; its value is ${Number(reason.value.toPrecision(4))}`);
  const facts = reason.facts.map((fact) => h("li", {}, factText(fact, objectLink)));
  if (facts.length <= 3) return h("ul", { class: "facts" }, facts);
  const rest = h("details", {}, h("summary", {}, `and ${some(facts.length - 3, "more fact")}`), h("ul", { class: "facts" }, facts.slice(3)));
  return h("div", {}, h("ul", { class: "facts" }, facts.slice(0, 3)), rest);
}

function without(found) {
  const other = found.counterfactual;
  if (!other) return h("div", { class: "without" }, h("h3", {}, "What if"), h("p", {}, "No facts were found that it hangs on."));
  return h(
    "div",
    { class: "without" },
    h("h3", {}, "What if these were not known?"),
    h("ul", { class: "facts" }, other.facts.map((fact) => h("li", {}, factText(fact, objectLink)))),
    h("p", {}, "Then it would be ", h("strong", {}, plusMinus(other)), " instead of ", h("strong", {}, plusMinus(found)), "."),
    h("div", { class: "pair" }, h("span", { class: "soft" }, "with"), bar(found.probability, found.error, found.known ? "known" : "predicted"), h("span", { class: "soft" }, "without"), bar(other.probability, other.error, "against")),
  );
}

function sum(found) {
  const { parts } = found;
  const rows = [
    ["the formulas above", found.reasons.reduce((all, reason) => all + reason.effect, 0)],
    [some(parts.others.count, "other formula"), parts.others.effect],
    ["nothing known at all", parts.base],
    ["what formulas do together", parts.interactions],
    [`averaging over ${some(found.draws, "draw")}`, parts.averaging],
    ["calibration", parts.calibration],
    ["log-odds of the probability", found.log_odds],
  ];
  const cells = rows.map(([words, effect]) => h("tr", {}, h("td", {}, words), h("td", { class: "right" }, `${effect < 0 ? "−" : "+"}${Math.abs(effect).toFixed(3)}`)));
  return h("details", {}, h("summary", {}, "How it adds up, in log-odds"), h("table", { class: "sum" }, h("tbody", {}, cells)));
}

// The picture

function drawn(found) {
  if (!found.picture) return null;
  const picture = copied(new DOMParser().parseFromString(found.picture, "image/svg+xml").documentElement, new Set(found.scene.members));
  if (!picture) return null;
  picture.setAttribute("role", "img");
  const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  const size = { viewBox: `0 ${HEAD} ${width} ${height - HEAD}`, width, height: height - HEAD }; // its title stands above it here
  for (const [name, value] of Object.entries(size)) picture.setAttribute(name, value);
  picture.style.minInlineSize = `${Math.round(Math.min(0.8 * width, Math.max(SMALLEST * width, WHOLE)))}px`; // whole on a desk, to be moved on a phone
  picture.style.maxInlineSize = `${Math.round(1.25 * width)}px`;
  const about = "One drawn neighbourhood: the facts that speak stand out.";
  return h("figure", {}, h("figcaption", {}, about), h("div", { class: "scroll picture", tabindex: "0", role: "group", "aria-label": "Picture of the neighbourhood" }, picture));
}

/** What is known to be a picture, and nothing else; names of objects lead to their pages. */
function copied(node, members) {
  if (node.nodeType === Node.TEXT_NODE) return document.createTextNode(node.data);
  if (!DRAWN.has(node.localName)) return null;
  const kept = ATTRIBUTES.filter((name) => node.hasAttribute(name)).map((name) => [name, node.getAttribute(name)]);
  const children = [...node.childNodes].map((child) => copied(child, members));
  const element = s(node.localName, Object.fromEntries(kept), children);
  const name = node.getAttribute("class") === "gaifman-name" && node.querySelector("title")?.textContent;
  return name && members.has(name) ? s("a", { href: link({ object: name }) }, element) : element;
}
