// Where one is: every view has an address, and the browser's own history leads back.

import { query } from "/api.js";
import { h, shown } from "/dom.js";

/** The fields of the address. */
export function here() {
  const found = new URLSearchParams(location.search);
  const one = (name) => found.get(name) ?? "";
  const whole = (name, usual) => Math.max(0, Number.parseInt(one(name), 10) || usual);
  return {
    view: one("view") || (found.has("q") ? "ask" : found.has("object") ? "object" : "home"),
    q: one("q"),
    how: one("how"),
    why: found.has("why") ? found.getAll("why") : null,
    object: one("object"),
    objects: found.getAll("object"),
    relation: one("relation"),
    top: Math.min(whole("top", 15), 1000),
    skip: whole("skip", 0),
    prior: Number(one("prior")) > 0 && Number(one("prior")) <= 1 ? Number(one("prior")) : null,
    facts: found.has("facts"),
    any: found.has("any"),
  };
}

/** The address of a view. */
export const link = (fields) => `/${query(fields)}`;

/** Go there. */
export const go = (fields) => move(link(fields));

function move(address) {
  history.replaceState({ y: scrollY }, "");
  history.pushState(null, "", address);
  dispatchEvent(new Event("moved"));
}

/** An object as a link to its page. */
export function objectLink(name) {
  return h("a", { class: "object", href: link({ object: name }) }, h("bdi", {}, shown(name)));
}

/** Links of this page are followed without loading it again. */
export function follow() {
  document.addEventListener("click", (event) => {
    const anchor = event.target.closest?.("a[href]");
    const plain = event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey && !event.altKey;
    const href = anchor?.getAttribute("href") ?? "";
    if (!plain || event.defaultPrevented || !(href === "/" || href.startsWith("/?"))) return;
    event.preventDefault();
    move(href);
  });
}

/** How likely an answer is held to be beforehand, for a question, where the address says so. */
export const priorOf = (state) => (state.prior ? { prior: state.prior } : {});
