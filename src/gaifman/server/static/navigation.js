// The address of each view. Links are followed without loading the page again, and the history works.

import { queryString } from "/api.js";
import { h, labels, shown, visible } from "/dom.js";

export const DEFAULT_TOP = 15;
const MAX_TOP = 1000;

/** The fields of the present address. */
export function currentState() {
  const fields = new URLSearchParams(location.search);
  const field = (name) => fields.get(name) ?? "";
  const count = (name, otherwise) => Math.max(0, Number.parseInt(field(name), 10) || otherwise);
  const prior = Number(field("prior"));
  return {
    view: field("view") || (fields.has("q") ? "answers" : fields.has("object") ? "object" : "home"),
    q: field("q"),
    mode: field("mode"),
    why: fields.has("why") ? fields.getAll("why") : null,
    object: field("object"),
    objects: fields.getAll("object"),
    relation: field("relation"),
    top: Math.min(count("top", DEFAULT_TOP), MAX_TOP),
    skip: count("skip", 0),
    prior: prior > 0 && prior <= 1 ? prior : null,
    facts: fields.has("facts"),
    candidates: field("candidates") === "all" ? "all" : "",
  };
}

/** The address of a view. */
export const link = (fields) => `/${queryString(fields)}`;

/** The address of the same query with other fields. */
export function queryLink(state, changes = {}) {
  const { q, mode, prior, candidates } = state;
  return link({ q, mode, top: state.top === DEFAULT_TOP ? "" : state.top, prior, candidates, ...changes });
}

/** Open a view. */
export const navigate = (fields) => open(link(fields));

function open(address) {
  history.replaceState({ y: scrollY }, "");
  history.pushState(null, "", address);
  dispatchEvent(new Event("navigate"));
}

/** An object as a link to its page. */
export function objectLink(name) {
  return h("a", { class: "object", href: link({ object: name }), title: labels.has(name) ? visible(name) : null }, h("bdi", {}, shown(name)));
}

/** Follow links of this page without loading it again. */
export function interceptLinks() {
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    const href = anchor?.getAttribute("href") ?? "";
    if (!plain || event.defaultPrevented || !(href === "/" || href.startsWith("/?"))) return;
    event.preventDefault();
    open(href);
  });
}
