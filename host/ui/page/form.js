// A form made from a JSON Schema. Its value is JSON text, in which numbers have the digits
// that were typed.

import { h, id } from "./dom.js";
import { kind, limits, properties, resolve, type } from "./schema.js";

const deepest = 6; // of nested objects and lists; what is deeper is JSON
const most = 200; // fields of one object; with more it is JSON

// InvalidError says which field has no valid value.
export class InvalidError extends Error {
  constructor(message, input) {
    super(message);
    this.input = input;
  }
}

// form makes the fields of the arguments. value() returns them as JSON text, or throws an
// InvalidError.
export function form(root) {
  const schema = resolve(root, root);
  if (kind(schema) !== "object" || properties(schema, root).length === 0 || properties(schema, root).length > most) {
    const field = json({}, "{}");
    return { element: h("div", { class: "fields" }, labelled("Arguments", {}, true, field)), value: () => field.value() };
  }
  return members(schema, root, deepest);
}

// A field has an element, the input that a label is for, and value(), which returns JSON
// text, or undefined for no value.

function members(schema, root, left) {
  const fields = properties(schema, root).map(([name, member, required]) => ({ name, required, field: fieldOf(member, root, required, left), schema: member }));
  return {
    element: h("div", { class: "fields" }, fields.map((f) => labelled(f.name, f.schema, f.required, f.field))),
    value() {
      const parts = [];
      for (const f of fields) {
        const value = f.field.value();
        if (value === undefined) {
          if (f.required) throw fail(f.field, `${f.name} is required`);
          continue;
        }
        parts.push(`${JSON.stringify(f.name)}:${value}`);
      }
      return `{${parts.join(",")}}`;
    },
    empty: () => fields.every((f) => f.field.empty()),
  };
}

function fail(field, message) {
  return new InvalidError(message, field.input ?? field.element);
}

// labelled is a field with its label, description and place for an error.
function labelled(name, schema, required, field) {
  const about = [schema.description, [type(schema), limits(schema)].filter(Boolean).join(", ")];
  const described = id("about");
  const label = [h("span", { class: "field-name" }, name), required ? h("span", { class: "required" }, "required") : null];
  const text = h("div", { class: "about", id: described }, about[0] ? h("span", { class: "prose" }, String(about[0]).slice(0, 2000)) : null, h("span", { class: "soft" }, ` ${about[1]}`));
  if (!field.input) {
    return h("fieldset", { "aria-describedby": described }, h("legend", {}, label), text, field.element);
  }
  field.input.id ||= id("field");
  field.input.setAttribute("aria-describedby", described);
  if (required) field.input.setAttribute("aria-required", "true");
  field.input.addEventListener("input", () => field.input.removeAttribute("aria-invalid"));
  return h("div", { class: "field" }, h("label", { for: field.input.id }, label), text, field.element);
}

function fieldOf(schema, root, required, left) {
  switch (left === 0 ? "json" : kind(schema)) {
    case "choice": return choice((schema.enum ?? [schema.const]).map((v) => [JSON.stringify(v), typeof v === "string" ? v : JSON.stringify(v)]), schema, required);
    case "boolean": return choice([["true", "true"], ["false", "false"]], schema, required);
    case "number": return numeric(schema, /^-?(0|[1-9]\d*)(\.\d+)?([eE][-+]?\d+)?$/, "a number");
    case "integer": return numeric(schema, /^-?(0|[1-9]\d*)$/, "a whole number");
    case "string": return text(schema, required);
    case "array": return list(schema, root, left);
    case "object": return properties(schema, root).length > most ? json(schema, "") : object(schema, root, required, left);
    default: return json(schema, "");
  }
}

function choice(options, schema, required) {
  const input = h("select", {}, h("option", { value: "" }, required ? "Choose …" : "(left out)"), options.map(([, shown], i) => h("option", { value: String(i) }, shown)));
  if (options.length === 1 && required) input.value = "0";
  return { element: input, input, value: () => (input.value === "" ? undefined : options[Number(input.value)][0]), empty: () => input.value === "" };
}

function example(schema) {
  const value = schema.examples?.[0];
  return value === undefined || typeof value === "object" ? null : `for example ${value}`;
}

function numeric(schema, pattern, what) {
  const input = h("input", { type: "text", inputmode: what === "a number" ? "decimal" : "numeric", autocomplete: "off", placeholder: example(schema) });
  return {
    element: input, input, empty: () => input.value.trim() === "",
    value() {
      const typed = input.value.trim();
      if (typed === "") return undefined;
      if (!pattern.test(typed)) throw new InvalidError(`“${typed}” is not ${what}`, input);
      return typed;
    },
  };
}

// text is for strings. An empty one is left out, unless it is required.
function text(schema, required) {
  const input = h("textarea", { rows: "1", autocomplete: "off", spellcheck: "false", placeholder: example(schema) });
  const empty = () => input.value === "";
  return { element: input, input, empty, value: () => (empty() && !(required && !(schema.minLength > 0)) ? undefined : JSON.stringify(input.value)) };
}

function list(schema, root, left) {
  const items = [];
  const rows = h("ol", { class: "rows" });
  const add = h("button", { type: "button", class: "small", onclick: () => append(true) }, "Add an item");
  function append(focus) {
    const field = fieldOf(resolve(schema.items, root), root, true, left - 1);
    const at = { field };
    field.input?.setAttribute("aria-label", `Item ${items.length + 1}`);
    at.row = h("li", {}, field.element, h("button", {
      type: "button", class: "small", "aria-label": `Remove item ${items.length + 1}`,
      onclick: () => { items.splice(items.indexOf(at), 1); at.row.remove(); add.focus(); },
    }, "Remove"));
    items.push(at);
    rows.append(at.row);
    if (focus) (field.input ?? field.element.querySelector("input, select, textarea, button"))?.focus();
  }
  return {
    element: h("div", {}, rows, add), empty: () => items.length === 0,
    value() {
      if (items.length === 0) return undefined;
      return `[${items.map((at) => {
        const value = at.field.value();
        if (value === undefined && kind(resolve(schema.items, root)) === "string") return '""';
        if (value === undefined) throw fail(at.field, "an item has no value");
        return value;
      }).join(",")}]`;
    },
  };
}

// object is for nested objects. One that is not required and has no value is left out.
function object(schema, root, required, left) {
  const inner = members(schema, root, left - 1);
  return { element: inner.element, empty: inner.empty, value: () => (inner.empty() && !required ? undefined : inner.value()) };
}

// json is for everything that has no field of its own.
function json(schema, initial) {
  const input = h("textarea", { rows: "3", class: "code", autocomplete: "off", spellcheck: "false", placeholder: "JSON", value: initial });
  return {
    element: input, input, empty: () => input.value.trim() === "",
    value() {
      if (input.value.trim() === "") return undefined;
      try {
        JSON.parse(input.value);
      } catch (error) {
        throw new InvalidError(`not JSON: ${error.message}`, input);
      }
      return input.value;
    },
  };
}
