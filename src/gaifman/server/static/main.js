// The page: shows the view of the address, the navigation and the theme.

import { addFactView, rememberQuery } from "/add_fact.js";
import { answersView } from "/answers.js";
import { request } from "/api.js";
import { degreesView } from "/degrees.js";
import { errorBox, h, number, visible } from "/dom.js";
import { homeView } from "/home.js";
import { modelCardView } from "/model_card.js";
import { currentState, interceptLinks, link } from "/navigation.js";
import { objectView } from "/object.js";
import { initQueryBox, setPlaceholder, setQuery } from "/query_box.js";
import { initTheme } from "/theme.js";

const VIEWS = { home: homeView, answers: answersView, object: objectView, degrees: degreesView, model: modelCardView, add: addFactView };
const page = document.getElementById("main");
let running = new AbortController();
let first = true;

async function show(event) {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const state = currentState();
  setQuery(state.q);
  if (state.q) rememberQuery(state.q);
  document.title = visible([state.q || state.object || (state.view === "home" ? "" : state.view), "gaifman"].filter(Boolean).join(" – "));
  markCurrent(state.view);
  const view = h("div", { class: "view" });
  page.setAttribute("aria-busy", "true");
  page.replaceChildren(view);
  if (event?.type === "navigate") scrollTo(0, 0);
  if (!first && document.activeElement?.id !== "q") page.focus();
  first = false;
  try {
    await (VIEWS[state.view] ?? homeView)(view, state, signal);
  } catch (error) {
    if (signal.aborted) return;
    view.querySelectorAll("[aria-busy]").forEach((part) => part.remove());
    view.append(errorBox(error.fields ?? { message: `error in this page: ${error.message}` }));
  }
  if (signal.aborted) return;
  page.removeAttribute("aria-busy");
  if (event?.type === "popstate") scrollTo(0, event.state?.y ?? 0);
}

function markCurrent(view) {
  for (const anchor of document.querySelectorAll("#nav a")) {
    if (anchor.dataset.view === view) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
}

function showNavigation(about) {
  const views = [["home", "Start"], ["degrees", "Degrees"], ...(about.model ? [["model", "Model card"]] : []), ...(about.editable ? [["add", "Add a fact"]] : [])];
  const anchor = ([view, text]) => h("a", { href: link({ view: view === "home" ? "" : view }), "data-view": view }, text);
  document.getElementById("nav").replaceChildren(...views.map(anchor));
  document.getElementById("about").textContent = `${number(about.facts)} facts about ${number(about.objects)} objects, fingerprint ${about.fingerprint.slice(0, 8)}`;
  markCurrent(currentState().view);
}

initTheme();
initQueryBox();
interceptLinks();
addEventListener("popstate", show);
addEventListener("navigate", show);
history.scrollRestoration = "manual"; // views load late: the scroll position is kept in the history
request("/api/about").then(showNavigation, () => {});
request("/api/examples").then(({ examples }) => examples.length && setPlaceholder(examples[0].query), () => {});
show();
