// Trying a tool: a form, a question before calls that may change something, and the result.

import { announce, block, busy, fill, h, id } from "./dom.js";
import { call } from "./api.js";
import { duration } from "./format.js";
import { form, InvalidError } from "./form.js";

// trial makes the form of a tool and the place of its result. A call is cancelled when
// signal ends.
export function trial(tool, signal) {
  const fields = form(tool.inputSchema);
  const raw = h("textarea", { rows: "8", class: "code", "aria-label": "Arguments as JSON", spellcheck: "false", autocomplete: "off" });
  const asJSON = h("input", { type: "checkbox", id: id("json") });
  const wrong = h("p", { class: "failed", role: "alert" });
  const run = h("button", { class: "primary" }, "Call");
  const cancel = h("button", { type: "button", hidden: true }, "Cancel");
  const result = h("div", { class: "result", role: "group", "aria-label": "Result" });
  let running; // AbortController of the call

  asJSON.addEventListener("change", () => {
    if (asJSON.checked) {
      try {
        raw.value = pretty(fields.value());
      } catch {
        raw.value ||= "{}"; // a field is not valid yet
      }
    }
    fields.element.hidden = asJSON.checked;
    raw.hidden = !asJSON.checked;
  });
  raw.hidden = true;

  function value() {
    if (!asJSON.checked) return fields.value();
    let parsed;
    try {
      parsed = JSON.parse(raw.value);
    } catch (error) {
      throw new InvalidError(`not JSON: ${error.message}`, raw);
    }
    if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new InvalidError("not a JSON object", raw);
    return raw.value;
  }

  // show shows how the call ended. Only a sentence of it is said at once; the result can be
  // long.
  function show(line) {
    const content = outcome(line);
    fill(result, content);
    if (!signal.aborted) announce(content[0].textContent);
  }

  async function submit(event) {
    event.preventDefault();
    fill(wrong);
    if (running) return;
    let given;
    try {
      given = value();
    } catch (error) {
      if (!(error instanceof InvalidError)) throw error;
      fill(wrong, error.message);
      error.input.setAttribute("aria-invalid", "true");
      error.input.focus();
      return;
    }
    if (!tool.hints.readOnly && !await confirmed(tool, given)) return;
    running = new AbortController();
    const stop = () => running?.abort();
    signal.addEventListener("abort", stop, { once: true });
    busy(run, true);
    cancel.hidden = false;
    announce("The call was made.");
    const began = performance.now();
    const state = h("p", { class: "soft" }, "Running …");
    const progress = h("progress", { "aria-label": "Progress" });
    fill(result, state, progress);
    try {
      await call(`{"name":${JSON.stringify(tool.name)},"confirmed":${JSON.stringify(tool.fingerprint)},"arguments":${given}}`, (line) => {
        if (line.progress) advance(line.progress, state, progress);
        else show(line);
      }, running.signal);
      if (result.contains(progress)) show({ error: "the connection ended before the result", took: performance.now() - began });
    } catch (error) {
      show({ error: error.name === "AbortError" ? "cancelled" : error.message, took: performance.now() - began });
    } finally {
      signal.removeEventListener("abort", stop);
      running = undefined;
      busy(run, false);
      const lost = [run, cancel, document.body].includes(document.activeElement);
      cancel.hidden = true;
      if (lost && !signal.aborted) result.querySelector(".outcome")?.focus();
    }
  }
  cancel.addEventListener("click", () => running?.abort());

  return h("form", { class: "trial", novalidate: true, onsubmit: submit },
    h("p", { class: "switch" }, asJSON, h("label", { for: asJSON.id }, "Write the arguments as JSON")),
    fields.element, raw, wrong,
    h("p", { class: "actions" }, run, cancel, tool.hints.readOnly ? null : h("span", { class: "soft" }, "You are asked before the call is made.")),
    result);
}

// pretty indents JSON text. Text with numbers that would change stays as it is.
function pretty(text) {
  const numbers = text.match(/-?\d[\d.eE+-]*/g) ?? [];
  if (numbers.some((n) => String(Number(n)) !== n)) return text;
  return JSON.stringify(JSON.parse(text), null, 2);
}

function advance(params, state, progress) {
  if (typeof params.progress === "number" && typeof params.total === "number" && params.total > 0) {
    progress.max = params.total;
    progress.value = params.progress;
  }
  if (typeof params.message === "string") fill(state, params.message.slice(0, 400));
}

// confirmed asks the person about a call.
function confirmed(tool, given) {
  const heading = id("dialog");
  const says = tool.hints.given
    ? (tool.hints.destructive ? "It says that it may destroy something." : "It says that it changes something.")
    : "It does not say whether it changes anything.";
  const whose = tool.kind === "proxied" ? ["Tool of ", h("strong", {}, tool.server), ". "] : tool.kind === "saved" ? "Saved tool. Its script calls other tools. " : "Built-in tool. ";
  return new Promise((resolve) => {
    const dialog = h("dialog", { "aria-labelledby": heading },
      h("form", { method: "dialog" },
        h("h2", { id: heading }, `Call ${tool.name}?`),
        h("p", {}, whose, says),
        h("p", { class: "soft" }, "Arguments:"), block(pretty(given), "Arguments"),
        h("p", { class: "actions" }, h("button", { value: "", autofocus: true }, "Do not call"), h("button", { value: "call", class: tool.hints.destructive ? "danger" : "primary" }, "Call"))));
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(dialog.returnValue === "call");
    });
    document.body.append(dialog);
    dialog.showModal();
  });
}

// outcome shows how a call ended.
function outcome({ result, error, took }) {
  const bad = error !== undefined || result.isError;
  const head = h("p", { class: `outcome ${bad ? "failed" : "fine"}`, tabindex: "-1" }, bad ? "Failed" : "Done", ` after ${duration(took)}`);
  if (error !== undefined) return [head, block(error, "Error")];
  return [head,
    result.blocks.map((b) => [
      b.data ? h("img", { src: `data:${b.mime};base64,${b.data}`, alt: "Image in the result" }) : block(b.text ?? "", b.type === "text" ? "Text of the result" : `Content: ${b.type}`),
      b.left ? h("p", { class: "soft" }, b.left) : null,
    ]),
    result.structured ? h("details", { open: result.blocks.length === 0 }, h("summary", {}, "Structured content"), block(result.structured, "Structured content")) : null,
    result.blocks.length || result.structured ? null : h("p", { class: "soft" }, "The result is empty.")];
}
