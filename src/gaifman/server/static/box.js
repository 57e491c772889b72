// The box for a query: names are completed while it is typed, and it is said at once how it is read.

import { ask, limited } from "/api.js";
import { brief, h, quoted, shown, some } from "/dom.js";
import { go } from "/place.js";

const PAUSE = 150;
const ROWS = 8;
const input = document.getElementById("q");
const list = document.getElementById("options");
const said = document.getElementById("reading");
let options = [];
let chosen = -1;
let waiting = 0;
let asked = 0;

/** What stands before the caret: the beginning of an object's name or of a relation's, and where it begins. */
export function begun(text, at) {
  let quote = -1;
  let opened = [];
  for (let i = 0; i < at; i += 1) {
    if (quote >= 0) {
      if (text[i] === "\\") i += 1;
      else if (text[i] === "'") quote = -1;
    } else if (text[i] === "'") quote = i;
    else if (text[i] === "(") opened.push(/[\p{L}\p{N}_']\s*$/u.test(text.slice(0, i)));
    else if (text[i] === ")") opened.pop();
  }
  if (quote >= 0) return { kind: opened.at(-1) ? "object" : "relation", from: quote, text: text.slice(quote + 1, at) };
  const word = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(text.slice(0, at));
  if (!word) return null;
  return { kind: opened.at(-1) ? "object" : "relation", from: word.index, text: word[0] };
}

async function fitting(part) {
  const parameters = { text: part.text, rows: await limited(ROWS) };
  if (part.kind === "relation") {
    const { relations } = await ask("/api/relations", { parameters });
    const rows = relations.map((row) => ({ put: row.query.slice(0, row.query.lastIndexOf("(") + 1), text: row.query, note: some(row.facts, "fact") }));
    return rows;
  }
  if (part.text.length < 2 && input.value[part.from] !== "'") return []; // a variable
  const { objects } = await ask("/api/objects", { parameters });
  return objects.map((row) => ({ put: quoted(row.name), text: shown(row.name), note: some(row.degree, "neighbour") }));
}

async function complete() {
  const [text, at] = [input.value, input.selectionStart];
  const part = begun(text, at);
  const turn = ++asked;
  const found = part ? await fitting(part).catch(() => []) : [];
  if (turn !== asked || document.activeElement !== input) return;
  const rest = /^[\p{L}\p{N}_]*'?/u.exec(text.slice(at))[0].length;
  options = found.map((row) => ({ ...row, from: part.from, to: at + (text[part.from] === "'" ? rest : 0) }));
  if (options.length === 1 && text.slice(part.from, options[0].to) === options[0].put) options = [];
  show(-1);
}

function show(at) {
  chosen = at;
  list.replaceChildren(
    ...options.map((row, place) =>
      h(
        "li",
        { id: `option-${place}`, role: "option", "aria-selected": String(place === chosen), onpointerdown: (event) => { event.preventDefault(); take(place); } },
        h("bdi", { title: row.text }, row.text.length > 60 ? brief(row.text) : row.text),
        h("span", { class: "soft" }, row.note),
      ),
    ),
  );
  list.hidden = options.length === 0;
  input.setAttribute("aria-expanded", String(!list.hidden));
  if (chosen >= 0) input.setAttribute("aria-activedescendant", `option-${chosen}`);
  else input.removeAttribute("aria-activedescendant");
  list.children[chosen]?.scrollIntoView({ block: "nearest" });
}

function take(place) {
  const { put, from, to } = options[place];
  const doubled = put.endsWith("(") && input.value[to] === "(" ? 1 : 0;
  input.setRangeText(put.slice(0, put.length - doubled), from, to, "end");
  close();
  changed();
}

function close() {
  asked += 1;
  options = [];
  show(-1);
}

/** Say how a text is read, or point at what is wrong with it. */
export async function read(text) {
  const turn = ++waiting;
  if (!text.trim()) return void said.replaceChildren(hint());
  try {
    const found = await ask("/api/reading", { body: { query: text } });
    if (turn === waiting) said.replaceChildren(found.error ? mistake(found.error) : reading(found));
  } catch (error) {
    if (turn === waiting) said.replaceChildren(h("p", { class: "wrong" }, error.message));
  }
}

/** A query of this knowledge base that has answers: the box shows it as long as nothing is typed. */
export const suggest = (text) => (input.placeholder = text);

const hint = () => h("p", { class: "soft" }, h("kbd", {}, "/"), " leads to this box; names are completed while you type");

function reading(found) {
  const who = found.ranked ? "for the model" : "exact";
  return h("p", {}, "read as ", h("code", {}, found.reading), " ", h("span", { class: "tag" }, who));
}

function mistake(error) {
  const near = error.near.map((name) => h("button", { type: "button", class: "quiet", onclick: () => repair(error, name) }, shown(name)));
  return h(
    "div",
    { class: "wrong" },
    h("p", {}, error.message),
    error.caret ? h("pre", { class: "caret" }, error.caret) : null,
    near.length ? h("p", {}, "did you mean ", near) : null,
    error.hint ? h("p", { class: "soft" }, error.hint) : null,
  );
}

/** Put a near name for the one that is pointed at. */
function repair(error, name) {
  const length = (error.caret.match(/\^+\s*$/) ?? ["^"])[0].trim().length;
  const from = error.column - 1;
  const wrong = input.value.slice(from, from + length);
  const quotes = wrong.startsWith("'") || !/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name);
  input.setRangeText(quotes ? quoted(name) : name, from, from + length, "end");
  input.focus();
  changed();
}

let timer = 0;
function changed() {
  clearTimeout(timer);
  timer = setTimeout(() => read(input.value), PAUSE);
}

function pressed(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (list.hidden) return void complete();
    event.preventDefault();
    const step = event.key === "ArrowDown" ? 1 : -1;
    show((chosen + step + options.length + (chosen < 0 && step < 0 ? 1 : 0)) % options.length);
  } else if (event.key === "Escape" && !list.hidden) {
    event.preventDefault();
    close();
  } else if ((event.key === "Enter" || (event.key === "Tab" && !event.shiftKey)) && chosen >= 0) {
    event.preventDefault();
    take(chosen);
  }
}

/** Show a query in the box. */
export function put(text) {
  if (document.activeElement !== input || input.value !== text) input.value = text;
  close();
  read(text);
}

/** Listen. */
export function start() {
  let later = 0;
  input.addEventListener("input", () => {
    changed();
    clearTimeout(later);
    later = setTimeout(complete, PAUSE);
  });
  input.addEventListener("keydown", pressed);
  input.addEventListener("blur", () => { clearTimeout(later); close(); });
  document.getElementById("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(later);
    close();
    go(input.value.trim() ? { q: input.value.trim() } : {});
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName ?? "");
    if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      input.focus();
      input.select();
    }
  });
}
