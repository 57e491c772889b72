// A request as a curl command and as lines of Python, to copy.

import { queryString, request } from "/api.js";
import { h } from "/dom.js";

const UNKNOWN = ["import gaifman", 'kb = gaifman.read("…")  # the knowledge base of this server', 'model = gaifman.load("…", kb)  # and its model'];
const COPIED_MS = 1500;

const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

/** A value as Python writes it. */
export const literal = (value) => JSON.stringify(value);

/** Both snippets, folded; `lines` are Python, after the lines that read the knowledge base and, if needed, the model. */
export function snippets(path, { parameters = {}, body = null, lines = [], model = false, token = false }) {
  const address = shellQuoted(location.origin + path + (body ? "" : queryString(parameters)));
  const sent = body ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${shellQuoted(JSON.stringify(body))}` : "";
  const curl = `curl -s ${address}${token ? ' \\\n  -H "Authorization: Bearer $GAIFMAN_TOKEN"' : ""}${sent}`;
  const script = (opening) => [...opening.filter((line) => model || !line.startsWith("model =")), ...lines].join("\n");
  const python = pre("Python", script(UNKNOWN));
  request("/api/about").then((about) => about.python.length && python.replaceChildren(script(about.python)), () => {});
  return h("details", { class: "snippets" }, h("summary", {}, "curl and Python"), block("curl", pre("curl", curl)), block("Python", python));
}

const pre = (name, text) => h("pre", { tabindex: "0", "aria-label": name }, text);

function block(name, snippet) {
  const button = h("button", { type: "button", class: "quiet", onclick: () => copy(snippet, button) }, `Copy ${name}`);
  return h("div", { class: "block" }, button, snippet);
}

async function copy(snippet, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(snippet.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(snippet); // without access to the clipboard, at least select the text
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = label), COPIED_MS);
}
