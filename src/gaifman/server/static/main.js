// The page: which view is shown, and what surrounds it.

import { addingView, asking } from "/adding.js";
import { answersView } from "/answers.js";
import { ask } from "/api.js";
import { put, start, suggest } from "/box.js";
import { cardView } from "/card.js";
import { degreesView } from "/degrees.js";
import { h, number, shown, trouble } from "/dom.js";
import { homeView } from "/home.js";
import { objectView } from "/objects.js";
import { follow, here, link } from "/place.js";

const VIEWS = { home: homeView, ask: answersView, object: objectView, degrees: degreesView, model: cardView, add: addingView };
const page = document.getElementById("main");
let running = new AbortController();
let first = true;

async function show(event) {
  running.abort();
  running = new AbortController();
  const { signal } = running;
  const state = here();
  put(state.q);
  if (state.q) asking(state.q);
  document.title = shown([state.q || state.object || (state.view === "home" ? "" : state.view), "gaifman"].filter(Boolean).join(" – "));
  mark(state.view);
  const draft = h("div", { class: "view" });
  page.setAttribute("aria-busy", "true");
  page.replaceChildren(draft);
  if (event?.type === "moved") scrollTo(0, 0);
  if (!first && document.activeElement?.id !== "q") page.focus();
  first = false;
  try {
    await (VIEWS[state.view] ?? homeView)(draft, state, signal);
  } catch (error) {
    if (signal.aborted) return;
    draft.querySelectorAll("[aria-busy]").forEach((part) => part.remove());
    draft.append(trouble(error.fields ?? { message: `this page has a mistake: ${error.message}` }));
  }
  if (signal.aborted) return;
  page.removeAttribute("aria-busy");
  if (event?.type === "popstate") scrollTo(0, event.state?.y ?? 0);
}

function mark(view) {
  for (const anchor of document.querySelectorAll("#nav a")) {
    if (anchor.dataset.view === view) anchor.setAttribute("aria-current", "page");
    else anchor.removeAttribute("aria-current");
  }
}

function navigation(about) {
  const views = [["home", "Start"], ["degrees", "Degrees"], ...(about.model ? [["model", "Model"]] : []), ...(about.edit ? [["add", "Add a fact"]] : [])];
  const anchor = ([view, text]) => h("a", { href: link({ view: view === "home" ? "" : view }), "data-view": view }, text);
  document.getElementById("nav").replaceChildren(...views.map(anchor));
  document.getElementById("about").textContent = `${number(about.facts)} facts about ${number(about.objects)} objects, ${about.fingerprint.slice(0, 8)}`;
  mark(here().view);
}

function theme() {
  const button = document.getElementById("theme");
  const order = ["system", "light", "dark"];
  const apply = (name) => {
    document.documentElement.dataset.theme = name;
    button.textContent = `Theme: ${name}`;
    localStorage.setItem("gaifman-theme", name);
  };
  apply(order.find((name) => name === localStorage.getItem("gaifman-theme")) ?? "system");
  button.addEventListener("click", () => apply(order[(order.indexOf(document.documentElement.dataset.theme) + 1) % 3]));
}

theme();
start();
follow();
addEventListener("popstate", show);
addEventListener("moved", show);
history.scrollRestoration = "manual"; // a view is not there at once: where it was read is kept in the history
ask("/api/about").then(navigation, () => {});
ask("/api/examples").then(({ examples }) => examples.length && suggest(examples[0].query), () => {});
show();
