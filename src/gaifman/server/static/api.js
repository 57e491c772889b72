// Requests to the server. Replies are cached until facts are added, so going back costs nothing.

import { labels } from "/dom.js";

const CACHE_SIZE = 200;
const cache = new Map();

/** An error reply of the server; `fields` are those of its body. */
export class ApiError extends Error {
  constructor(fields) {
    super(fields.message);
    this.fields = fields;
  }
}

/** The JSON reply of a route: GET with `parameters`, or POST if there is a `body`. */
export async function request(path, { parameters = {}, body = null, signal = null, token = null } = {}) {
  const address = body ? path : path + queryString(parameters);
  const key = address + (body ? JSON.stringify(body) : "");
  if (!token && cache.has(key)) return cache.get(key);
  const headers = body ? { "Content-Type": "application/json" } : {};
  if (token) headers.Authorization = `Bearer ${token}`;
  const options = body ? { method: "POST", body: JSON.stringify(body), headers, signal } : { signal };
  const reply = await fetchJson(address, options);
  if (!token) remember(key, reply);
  return reply;
}

async function fetchJson(address, options) {
  try {
    const response = await fetch(address, options);
    const reply = await response.json();
    if (!response.ok) throw new ApiError(reply.error);
    for (const [name, label] of Object.entries(reply.labels ?? {})) labels.set(name, label);
    return reply;
  } catch (error) {
    if (error.name === "AbortError" || error instanceof ApiError) throw error;
    throw new ApiError({ message: "the server does not respond", hint: "it may have stopped: start it and try again" });
  }
}

function remember(key, reply) {
  if (cache.size >= CACHE_SIZE) cache.delete(cache.keys().next().value);
  cache.set(key, reply);
}

/** `rows`, or fewer if the server's limit is lower. */
export const limitRows = async (rows) => Math.min(rows, (await request("/api/about")).limits.max_rows);

/** Forget all replies: they are out of date. */
export const clearCache = () => cache.clear();

/** The part of an address from `?` on; a list becomes one parameter for each of its items. */
export function queryString(parameters) {
  const pairs = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const item of Array.isArray(value) ? value : [value]) {
      if (item !== null && item !== undefined && item !== "") pairs.append(name, item);
    }
  }
  const text = pairs.toString();
  return text ? `?${text}` : "";
}
