// JSON Schemas (draft 2020-12 and older) as far as a form needs them.

import { h } from "./dom.js";

const depth = 8; // of references that are followed

// resolve follows references within the schema, and takes the only alternative that is not
// null.
export function resolve(schema, root, left = depth) {
  if (typeof schema !== "object" || schema === null || left === 0) return {};
  if (typeof schema.$ref === "string") {
    const target = pointer(root, schema.$ref);
    const { $ref, ...rest } = schema;
    return target === undefined ? rest : { ...resolve(target, root, left - 1), ...rest };
  }
  for (const word of ["anyOf", "oneOf"]) {
    if (!Array.isArray(schema[word])) continue;
    const some = schema[word].filter((s) => s?.type !== "null");
    if (some.length === 1) {
      const { [word]: alternatives, ...rest } = schema;
      return { ...resolve(some[0], root, left - 1), ...rest };
    }
  }
  if (Array.isArray(schema.allOf) && schema.allOf.length === 1) {
    const { allOf, ...rest } = schema;
    return { ...resolve(allOf[0], root, left - 1), ...rest };
  }
  return schema;
}

function pointer(root, reference) {
  if (reference === "#") return root;
  if (!reference.startsWith("#/")) return undefined;
  let at = root;
  for (const part of reference.slice(2).split("/")) {
    let key;
    try {
      key = decodeURIComponent(part).replaceAll("~1", "/").replaceAll("~0", "~");
    } catch {
      return undefined;
    }
    if (typeof at !== "object" || at === null || !Object.hasOwn(at, key)) return undefined;
    at = at[key];
  }
  return at;
}

// kind returns what a form shows for a resolved schema: choice, boolean, number, integer,
// string, array, object, or json for anything else.
export function kind(schema) {
  if (Array.isArray(schema.enum) && schema.enum.length > 0) return "choice";
  if ("const" in schema) return "choice";
  const types = [schema.type].flat().filter((t) => t !== "null" && t !== undefined);
  if (types.length === 1 && ["boolean", "number", "integer", "string"].includes(types[0])) return types[0];
  if (types.length === 1 && types[0] === "array" && typeof schema.items === "object" && !Array.isArray(schema.items)) return "array";
  if (isObject(schema.properties) && (types.length === 0 || types[0] === "object") && !schema.anyOf && !schema.oneOf) return "object";
  return "json";
}

export function isObject(value) {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

// properties returns [name, schema, required] of an object's members, the required ones
// first.
export function properties(schema, root) {
  const required = new Set(Array.isArray(schema.required) ? schema.required : []);
  const all = Object.entries(isObject(schema.properties) ? schema.properties : {}).map(([name, s]) => [name, resolve(s, root), required.has(name)]);
  for (const name of required) {
    if (typeof name === "string" && !all.some(([n]) => n === name)) all.push([name, {}, true]);
  }
  return [...all.filter((p) => p[2]), ...all.filter((p) => !p[2])];
}

// type says in words what a value must be.
export function type(schema) {
  const what = kind(schema);
  if (what === "choice") return "one of several values";
  if (what === "array") return "list";
  if (what === "json") return [schema.type].flat().filter(Boolean).join(" or ") || "any JSON";
  return schema.format ? `${what} (${schema.format})` : what;
}

// limits says in words what else is required of a value.
export function limits(schema) {
  const words = [];
  for (const [key, word] of Object.entries({
    minimum: "at least", exclusiveMinimum: "more than", maximum: "at most", exclusiveMaximum: "less than",
    minLength: "characters: at least", maxLength: "characters: at most", minItems: "items: at least", maxItems: "items: at most", pattern: "matches",
  })) {
    if (["number", "string"].includes(typeof schema[key])) words.push(`${word} ${schema[key]}`);
  }
  if ("default" in schema) words.push(`default ${JSON.stringify(schema.default)}`);
  return words.join(", ");
}

// summary is a table of the arguments.
export function summary(root) {
  const rows = [];
  collect(resolve(root, root), root, "", rows, 3);
  if (!rows.length) return h("p", {}, "It takes no arguments.");
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Arguments" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Name", "Type", "Description"].map((t) => h("th", { scope: "col" }, t)))),
    h("tbody", {}, rows.map(([name, schema, required]) => h("tr", {},
      h("th", { scope: "row" }, h("code", {}, name), required ? h("span", { class: "mark" }, "required") : null),
      h("td", {}, type(schema)),
      h("td", { class: "prose" }, schema.description ?? "", values(schema), limits(schema) ? h("div", { class: "soft" }, limits(schema)) : null))))));
}

function values(schema) {
  if (kind(schema) !== "choice") return null;
  return h("div", { class: "soft" }, (schema.enum ?? [schema.const]).slice(0, 50).map((v) => [h("code", {}, JSON.stringify(v)), " "]));
}

function collect(schema, root, prefix, rows, left) {
  for (const [name, member, required] of properties(schema, root)) {
    if (rows.length >= 500) return;
    rows.push([prefix + name, member, required]);
    if (left === 0) continue;
    if (kind(member) === "object") collect(member, root, `${prefix}${name}.`, rows, left - 1);
    if (kind(member) === "array") {
      const item = resolve(member.items, root);
      if (kind(item) === "object") collect(item, root, `${prefix}${name}[].`, rows, left - 1);
    }
  }
}
