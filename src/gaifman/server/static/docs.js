// The documentation of the HTTP interface, made from the server's OpenAPI document.

import { h } from "/dom.js";
import { initTheme } from "/theme.js";

const MAX_INTEGER = 2 ** 53;

function show(api) {
  const schemas = api.components.schemas;
  const operations = Object.entries(api.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, operation]) => ({ path, method: method.toUpperCase(), ...operation })));
  const errors = operations[0].responses;
  document.getElementById("main").append(
    h("h1", {}, "HTTP interface"),
    h("p", { class: "lead" }, api.info.description, " Requests and responses are JSON. Programs can read the ", h("a", { href: "/openapi.json" }, "OpenAPI document"), "."),
    h("nav", { "aria-label": "Routes" }, h("ul", { class: "chips" }, operations.map((one) => h("li", {}, h("a", { class: "chip", href: `#${anchor(one)}` }, `${one.method} ${one.path}`))))),
    ...operations.map((one) => operationSection(one, schemas)),
    errorSection(errors),
    h("h2", {}, "Types"),
    ...Object.entries(schemas).map(([name, schema]) => typeSection(name, schema)),
  );
}

const anchor = ({ method, path }) => `${method.toLowerCase()}${path.replaceAll("/", "-")}`;

function operationSection(operation, schemas) {
  const body = operation.requestBody?.content["application/json"].schema;
  const reply = Object.values(operation.responses[200].content)[0].schema;
  const rows = body ? fields(resolve(body, schemas)) : (operation.parameters ?? []).map(({ name, required, schema, description }) => ({ name, required, schema, description }));
  return h(
    "section",
    { class: "operation", id: anchor(operation), "aria-label": `${operation.method} ${operation.path}` },
    h("h2", {}, h("span", { class: "tag" }, operation.method), " ", h("code", {}, operation.path)),
    h("p", {}, operation.description, operation.security ? " Needs a token: Authorization: Bearer TOKEN." : ""),
    rows.length ? [h("h3", {}, body ? "Fields of the body" : "Parameters"), table(rows)] : null,
    h("p", {}, "Returns ", reply?.$ref || reply?.type ? typeText(reply) : "text", operation.responses[304] ? ", or status 304 if the ETag in If-None-Match is up to date" : "", "."),
    h("pre", { tabindex: "0", "aria-label": "curl" }, curl(operation, rows, Boolean(body))),
  );
}

function errorSection(responses) {
  const rows = Object.entries(responses).filter(([status]) => status >= "400");
  const cells = rows.map(([status, { description }]) => h("tr", {}, h("td", {}, status), h("td", {}, description)));
  return h("section", { "aria-label": "Errors" }, h("h2", {}, "Errors"), h("p", {}, "Every error has the body ", typeText({ $ref: "/ErrorResponse" }), "."), h("table", {}, h("tbody", {}, cells)));
}

function typeSection(name, schema) {
  return h("section", { class: "operation", id: name, "aria-label": name }, h("h3", {}, h("code", {}, name)), h("p", {}, schema.description ?? ""), table(fields(schema), name.endsWith("Request") || name === "NewFact"));
}

// Schemas

const refName = (schema) => schema.$ref.split("/").at(-1);
const resolve = (schema, schemas) => (schema.$ref ? schemas[refName(schema)] : schema);
const fields = (schema) => Object.entries(schema.properties ?? {}).map(([name, property]) => ({ name, required: schema.required?.includes(name), schema: property, description: property.description }));

function table(rows, defaults = true) {
  const presence = ({ required, schema }) => (required ? "required" : schema.default === undefined || schema.default === null ? "–" : JSON.stringify(schema.default));
  const heads = ["name", "type", ...(defaults ? ["default"] : []), "meaning"].map((name) => h("th", { scope: "col" }, name));
  const row = (one) => h("tr", {}, h("td", {}, h("code", {}, one.name)), h("td", {}, typeText(defaults ? withoutNull(one.schema) : one.schema)), defaults ? h("td", {}, presence(one)) : null, h("td", { class: "muted" }, one.description ?? ""));
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, heads)), h("tbody", {}, rows.map(row))));
}

/** The type of a value that is given: leaving a field out needs no null. */
const withoutNull = (schema) => (schema.anyOf ? { ...schema, anyOf: schema.anyOf.filter((one) => one.type !== "null") } : schema);

/** A type in words; named types link to their section. */
function typeText(schema) {
  if (schema.$ref) return h("a", { href: `#${refName(schema)}` }, refName(schema));
  if (schema.anyOf) return schema.anyOf.flatMap((one, place) => [place ? " or " : "", typeText(one)]);
  if (schema.type === "array") return ["list of ", schema.items?.anyOf ? ["(", typeText(schema.items), ")"] : typeText(schema.items ?? {})];
  if (schema.type === "object" && schema.additionalProperties) return schema.additionalProperties === true ? "object" : ["map of ", typeText(schema.additionalProperties)];
  return (schema.type ?? "any") + range(schema);
}

function range({ minimum, exclusiveMinimum, maximum }) {
  const low = exclusiveMinimum !== undefined ? ` > ${exclusiveMinimum}` : minimum !== undefined ? ` ≥ ${minimum}` : "";
  return low + (maximum !== undefined && maximum < MAX_INTEGER ? ` and ≤ ${maximum}` : "");
}

// Examples

function curl({ method, path, security }, rows, hasBody) {
  const shown = rows.filter(({ required, schema }) => required || example(schema) !== undefined);
  const value = ({ schema }) => example(schema) ?? (schema.type === "array" ? ["…"] : "…");
  const token = security ? ' -H "Authorization: Bearer $GAIFMAN_TOKEN"' : "";
  if (method === "GET" && !hasBody) {
    const pairs = shown.flatMap((one) => [value(one)].flat().map((text) => ` --data-urlencode ${quoted(`${one.name}=${text}`)}`));
    return `curl ${pairs.length ? "-G " : ""}${location.origin}${path}${pairs.join("")}`;
  }
  const body = Object.fromEntries(shown.map((one) => [one.name, value(one)]));
  return `curl ${location.origin}${path}${token} -H 'Content-Type: application/json' -d ${quoted(JSON.stringify(body))}`;
}

const example = (schema) => schema.examples?.[0] ?? schema.anyOf?.find((one) => one.examples)?.examples[0];
const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

initTheme();
show(await (await fetch("/openapi.json")).json());
document.getElementById("main").removeAttribute("aria-busy");
if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
