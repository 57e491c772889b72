// What the server is asked. Answers are kept until facts are added, so going back costs nothing.

const KEPT = 200;
const kept = new Map();

/** What the server says is wrong. */
export class Trouble extends Error {
  constructor(fields) {
    super(fields.message);
    this.fields = fields;
  }
}

/** The answer of a route: by GET with `parameters`, or by POST where there is a `body`. */
export async function ask(path, { parameters = {}, body = null, signal = null, token = null } = {}) {
  const address = body ? path : path + query(parameters);
  const key = address + (body ? JSON.stringify(body) : "");
  if (!token && kept.has(key)) return kept.get(key);
  const headers = body ? { "Content-Type": "application/json" } : {};
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = body ? { method: "POST", body: JSON.stringify(body), headers, signal } : { signal };
  const reply = await reached(address, options);
  if (!token) remember(key, reply);
  return reply;
}

async function reached(address, options) {
  try {
    const reply = await fetch(address, options);
    const said = await reply.json();
    if (!reply.ok) throw new Trouble(said.error);
    return said;
  } catch (error) {
    if (error.name === "AbortError" || error instanceof Trouble) throw error;
    throw new Trouble({ message: "the server does not answer", hint: "it may have ended: start it, and ask again" });
  }
}

function remember(key, reply) {
  if (kept.size >= KEPT) kept.delete(kept.keys().next().value);
  kept.set(key, reply);
}

/** So many rows, or as many as this server gives. */
export const limited = async (rows) => Math.min(rows, (await ask("/api/about")).limits.rows);

/** What was said before is no longer so. */
export const forget = () => kept.clear();

/** The part of an address behind `?`; a list stands once for each of its parts. */
export function query(parameters) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") found.append(name, one);
    }
  }
  const text = found.toString();
  return text ? `?${text}` : "";
}
