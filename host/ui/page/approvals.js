// The calls that wait for approval, and the decisions that are remembered.

import { announce, badge, block, facts, fill, h, notice, problem } from "./dom.js";
import { get, post } from "./api.js";
import { patch } from "./patch.js";
import { ago, count, duration } from "./format.js";

const kinds = { open: "busy", allowed: "good", denied: "bad" };

export async function approvals({ main, signal, live }) {
  let state = await get("approvals", {}, signal);
  const deciding = new Set(); // ids
  const notices = h("div");
  const summary = h("p", { class: "summary" });
  const list = h("ul", { class: "cards", "aria-label": "Calls that wait for approval" });
  const remembered = h("section", { class: "card", "aria-labelledby": "remembered" });

  // decide sends a decision. What it was about is shown from the answer.
  async function decide(id, body, done) {
    if (deciding.has(id)) return;
    deciding.add(id);
    draw();
    try {
      state = await post(`approvals/${encodeURIComponent(id)}`, body, signal);
      patch(notices);
      announce(done);
    } catch (error) {
      if (signal.aborted) return;
      patch(notices, problem(error));
      state = await get("approvals", {}, signal).catch(() => state);
    } finally {
      deciding.delete(id);
      if (!signal.aborted) draw();
    }
  }

  function draw() {
    const open = state.waiting.filter((e) => e.state === "open").length;
    patch(summary, open ? count(open, "call waits", "calls wait") : "No call waits.");
    patch(list, state.waiting.map((e) => h("li", { class: "card", dataset: { key: e.id }, "aria-label": `${e.target}, ${e.id}` }, card(e, state.rememberFor, deciding.has(e.id), decide))));
    patch(remembered, decisions(state.remembered, deciding, decide));
    remembered.hidden = state.remembered.length === 0;
  }

  draw();
  fill(main, h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Approvals"), summary), notices, list, remembered);
  live.addEventListener("state", async () => {
    if (deciding.size > 0) return;
    try {
      state = await get("approvals", {}, signal);
      if (!signal.aborted) draw();
    } catch { /* the header shows it */ }
  }, { signal });
}

function card(e, rememberFor, busy, decide) {
  const q = e.question;
  const off = busy ? "true" : null;
  const button = (verb, text, body, kind) => h("button", {
    type: "button", class: kind, "aria-label": `${text}: ${e.target}, ${e.id}`, "aria-disabled": off,
    onclick: () => decide(e.id, body, `${e.target}: ${verb}.`),
  }, text);
  return [
    h("div", { class: "card-head" }, h("div", { class: "card-title" }, h("h2", {}, e.target), badge(kinds[e.state] ?? "calm", e.waits ? "waits" : e.state)), h("code", {}, e.id)),
    q.description ? h("p", { class: "soft" }, "The server says: ", q.description) : null,
    facts([
      ["Called by", e.caller], ["Rule", q.rule], ["Reason", q.reason], ["Asked", ago(e.created)], ["Until", ago(e.expires)],
      ["Decided by", e.decided?.by], ["Note", e.decided?.note],
    ]),
    block(e.arguments, `Arguments of ${e.target}`),
    e.state !== "open" ? null : h("p", { class: "actions" },
      button("allowed", "Allow once", { decision: "allow" }, "primary"),
      rememberFor > 0 ? button("allowed and remembered", `Allow for ${duration(rememberFor)}`, { decision: "allow", remember: "value" }) : null,
      button("denied", "Deny", { decision: "deny" })),
  ];
}

// decisions shows what is remembered.
function decisions(all, deciding, decide) {
  return [
    h("h2", { id: "remembered" }, "Remembered"),
    notice("calm", h("p", {}, "Calls like these are decided about without asking.")),
    h("ul", {}, all.map((r) => h("li", { dataset: { key: r.id } },
      badge(r.allow ? "good" : "bad", r.allow ? "allow" : "deny"), " ", h("strong", {}, r.subject.target),
      ` with the same ${r.scope}, for ${r.subject.token ? `the token ${r.subject.client}` : "clients without a token"}, by ${r.by}, until ${ago(r.expires)} `,
      h("button", { type: "button", class: "small", "aria-label": `Forget ${r.subject.target}, ${r.id}`, "aria-disabled": deciding.has(r.id) ? "true" : null, onclick: () => decide(r.id, { decision: "forget" }, `${r.subject.target}: forgotten.`) }, "Forget")))),
  ];
}
