// The query box: completes names as they are typed, and shows how the query is parsed.

import { limitRows, request } from "/api.js";
import { brief, countNoun, h, labels, quoted, shown, visible } from "/dom.js";
import { navigate } from "/navigation.js";

const PAUSE_MS = 150;
const ROWS = 8;
const input = document.getElementById("q");
const list = document.getElementById("options");
const status = document.getElementById("parsed");
let options = [];
let selected = -1;
let lastParse = 0;
let lastCompletion = 0;

/** The start of the name before the caret: whether of an object or a relation, and where it begins. */
export function tokenAtCaret(text, caret) {
  let quote = -1;
  const opened = []; // for each open bracket, whether it belongs to a relation
  for (let i = 0; i < caret; i += 1) {
    if (quote >= 0) {
      if (text[i] === "\\") i += 1;
      else if (text[i] === "'") quote = -1;
    } else if (text[i] === "'") quote = i;
    else if (text[i] === "(") opened.push(/[\p{L}\p{N}_']\s*$/u.test(text.slice(0, i)));
    else if (text[i] === ")") opened.pop();
  }
  const kind = opened.at(-1) ? "object" : "relation";
  if (quote >= 0) return { kind, from: quote, text: text.slice(quote + 1, caret) };
  const word = /[\p{L}_][\p{L}\p{N}_]*$/u.exec(text.slice(0, caret));
  return word ? { kind, from: word.index, text: word[0] } : null;
}

async function fetchSuggestions(token) {
  const parameters = { text: token.text, rows: await limitRows(ROWS) };
  if (token.kind === "relation") {
    const { relations } = await request("/api/relations", { parameters });
    return relations.map((row) => ({ insert: row.query.slice(0, row.query.lastIndexOf("(") + 1), text: row.query, note: countNoun(row.facts, "fact") }));
  }
  if (token.text.length < 2 && input.value[token.from] !== "'") return []; // a variable
  const { objects } = await request("/api/objects", { parameters });
  return objects.map((row) => ({ insert: quoted(labels.get(row.name) ?? row.name), text: shown(row.name), note: countNoun(row.degree, "neighbour") }));
}

async function complete() {
  const [text, caret] = [input.value, input.selectionStart];
  const token = tokenAtCaret(text, caret);
  const turn = ++lastCompletion;
  const found = token ? await fetchSuggestions(token).catch(() => []) : [];
  if (turn !== lastCompletion || document.activeElement !== input) return;
  const rest = /^[\p{L}\p{N}_]*'?/u.exec(text.slice(caret))[0].length;
  options = found.map((row) => ({ ...row, from: token.from, to: caret + (text[token.from] === "'" ? rest : 0) }));
  if (options.length === 1 && text.slice(token.from, options[0].to) === options[0].insert) options = [];
  showOptions(-1);
}

function showOptions(index) {
  selected = index;
  list.replaceChildren(
    ...options.map((row, place) =>
      h(
        "li",
        { id: `option-${place}`, role: "option", "aria-selected": String(place === selected), onpointerdown: (event) => { event.preventDefault(); accept(place); } },
        h("bdi", { title: row.text }, row.text.length > 60 ? brief(row.text) : row.text),
        h("span", { class: "muted" }, row.note),
      ),
    ),
  );
  list.hidden = options.length === 0;
  input.setAttribute("aria-expanded", String(!list.hidden));
  if (selected >= 0) input.setAttribute("aria-activedescendant", `option-${selected}`);
  else input.removeAttribute("aria-activedescendant");
  list.children[selected]?.scrollIntoView({ block: "nearest" });
}

function accept(index) {
  const { insert, from, to } = options[index];
  const doubled = insert.endsWith("(") && input.value[to] === "(" ? 1 : 0;
  input.setRangeText(insert.slice(0, insert.length - doubled), from, to, "end");
  closeOptions();
  parseSoon();
}

function closeOptions() {
  lastCompletion += 1;
  options = [];
  showOptions(-1);
}

/** Show how a text is parsed, or where its error is. */
export async function parseText(text) {
  const turn = ++lastParse;
  if (!text.trim()) return void status.replaceChildren(keyHint());
  try {
    const parsed = await request("/api/parse", { body: { query: text } });
    if (turn === lastParse) status.replaceChildren(parsed.error ? errorPanel(parsed.error) : parsedLine(parsed));
  } catch (error) {
    if (turn === lastParse) status.replaceChildren(h("p", { class: "wrong" }, error.message));
  }
}

/** Show an example query while the box is empty. */
export const setPlaceholder = (text) => (input.placeholder = text);

const keyHint = () => h("p", { class: "muted" }, "Press ", h("kbd", {}, "/"), " to type a query. Names are completed as you type.");

function parsedLine(parsed) {
  const tag = parsed.rankable ? "ranked by the model" : "exact";
  return h("p", {}, "parsed as ", h("code", {}, parsed.bracketed_labels ?? parsed.bracketed), " ", h("span", { class: "tag" }, tag));
}

function errorPanel(error) {
  const buttons = error.suggestions.map((name) => h("button", { type: "button", class: "quiet", onclick: () => applySuggestion(error, name) }, visible(name)));
  return h(
    "div",
    { class: "wrong" },
    h("p", {}, error.message),
    error.caret ? h("pre", { class: "caret" }, error.caret) : null,
    buttons.length ? h("p", {}, "did you mean ", buttons) : null,
    error.hint ? h("p", { class: "muted" }, error.hint) : null,
  );
}

/** Replace the marked name by a suggestion. */
function applySuggestion(error, name) {
  const length = (error.caret.match(/\^+\s*$/) ?? ["^"])[0].trim().length;
  const from = error.column - 1;
  const wrong = input.value.slice(from, from + length);
  const quotes = wrong.startsWith("'") || !/^[\p{L}_][\p{L}\p{N}_]*$/u.test(name);
  input.setRangeText(quotes ? quoted(name) : name, from, from + length, "end");
  input.focus();
  parseSoon();
}

let parseTimer = 0;
function parseSoon() {
  clearTimeout(parseTimer);
  parseTimer = setTimeout(() => parseText(input.value), PAUSE_MS);
}

function onKey(event) {
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    if (list.hidden) return void complete();
    event.preventDefault();
    const step = event.key === "ArrowDown" ? 1 : -1;
    showOptions((selected + step + options.length + (selected < 0 && step < 0 ? 1 : 0)) % options.length);
  } else if (event.key === "Escape" && !list.hidden) {
    event.preventDefault();
    closeOptions();
  } else if ((event.key === "Enter" || (event.key === "Tab" && !event.shiftKey)) && selected >= 0) {
    event.preventDefault();
    accept(selected);
  }
}

/** Put a query into the box. */
export function setQuery(text) {
  if (document.activeElement !== input || input.value !== text) input.value = text;
  closeOptions();
  parseText(text);
}

/** Add the listeners of the box. */
export function initQueryBox() {
  let completeTimer = 0;
  input.addEventListener("input", () => {
    parseSoon();
    clearTimeout(completeTimer);
    completeTimer = setTimeout(complete, PAUSE_MS);
  });
  input.addEventListener("keydown", onKey);
  input.addEventListener("blur", () => { clearTimeout(completeTimer); closeOptions(); });
  document.getElementById("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(completeTimer);
    closeOptions();
    navigate(input.value.trim() ? { q: input.value.trim() } : {});
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
