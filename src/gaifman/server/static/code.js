// The same question for programs: a line for a shell, and a few of Python, to be copied.

import { ask, query } from "/api.js";
import { h } from "/dom.js";

const UNKNOWN = ["import gaifman", 'kb = gaifman.read("…")  # the knowledge base that is served here', 'model = gaifman.load("…", kb)  # and the model'];

const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
export const literal = (value) => JSON.stringify(value);

/** Both ways of asking; `lines` are Python, with the model where they need it. */
export function code(path, { parameters = {}, body = null, lines = [], model = false, token = false }) {
  const address = shell(location.origin + path + (body ? "" : query(parameters)));
  const sent = body ? ` \\\n  -H 'Content-Type: application/json' \\\n  -d ${shell(JSON.stringify(body))}` : "";
  const curl = `curl -s ${address}${token ? ' \\\n  -H "Authorization: Bearer $GAIFMAN_TOKEN"' : ""}${sent}`;
  const written = (opening) => [...opening.filter((line) => model || !line.startsWith("model =")), ...lines].join("\n");
  const python = pre("Python", written(UNKNOWN));
  ask("/api/about").then((about) => about.python.length && python.replaceChildren(written(about.python)), () => {});
  return h("details", { class: "code" }, h("summary", {}, "The same as curl and Python"), block("curl", pre("curl", curl)), block("Python", python));
}

const pre = (name, text) => h("pre", { tabindex: "0", "aria-label": name }, text);

function block(name, pre) {
  const button = h("button", { type: "button", class: "quiet", onclick: () => copy(pre, button) }, `Copy ${name}`);
  return h("div", { class: "block" }, button, pre);
}

async function copy(pre, button) {
  const usual = button.textContent;
  try {
    await navigator.clipboard.writeText(pre.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(pre); // where a page may not write, whoever reads can copy
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = usual), 1500);
}
