// The calls that wait for approval, and the decisions that are remembered.

import { announce, badge, block, facts, fill, h, notice, problem } from "./dom.js";
import { get, post } from "./api.js";
import { retry } from "./live.js";
import { patch } from "./patch.js";
import { ago, ascii, count, duration } from "./format.js";

const kinds = { open: "busy", allowed: "good", denied: "bad" };

// While a list has just changed, buttons do nothing: a click may be meant for a call that was
// in the same place.
const unsure = 600; // ms

export async function approvals({ main, signal, live }) {
  let state = await get("approvals", {}, signal);
  const deciding = new Set(); // ids
  let decisions = 0; // how many were sent
  let shown; // what is in the lists
  let changed = -unsure; // when that has changed
  const notices = h("div");
  const summary = h("p", { class: "summary" });
  const list = h("ul", { class: "cards calls", "aria-label": "Calls that wait for approval" });
  const remembered = h("section", { class: "card", "aria-labelledby": "remembered" });

  const open = () => state.waiting.filter((e) => e.state === "open");
  const settling = () => performance.now() - changed < unsure;
  const busy = (id) => deciding.has(id) || settling();
  const cardOf = (id) => [...list.children].find((card) => card.dataset.key === id);

  // decide sends a decision. What it was about is shown from the answer.
  async function decide(id, body, done) {
    if (busy(id)) return;
    const here = cardOf(id)?.contains(document.activeElement);
    const next = open().map((e) => e.id);
    next.push(...next.splice(0, next.indexOf(id) + 1)); // those after it come first
    deciding.add(id);
    decisions++;
    draw();
    try {
      state = await post(`approvals/${encodeURIComponent(id)}`, body, signal);
      patch(notices);
      announce(done);
    } catch (error) {
      if (signal.aborted) return;
      patch(notices, problem(error));
      announce(error.message);
      state = await get("approvals", {}, signal).catch(() => state);
    } finally {
      deciding.delete(id);
      if (!signal.aborted) {
        draw();
        if (here) focus(next.find((other) => open().some((e) => e.id === other)));
        retry();
      }
    }
  }

  // focus goes to the name of a call, not to a button: whoever presses Enter twice must not
  // decide about two calls.
  function focus(id) {
    (cardOf(id)?.querySelector("h2") ?? main.querySelector("h1")).focus();
  }

  function draw() {
    const now = [...state.waiting.map((e) => e.id + e.state), ...state.remembered.map((r) => r.id)].join();
    if (now !== shown) {
      shown = now;
      changed = performance.now();
      setTimeout(() => { if (!signal.aborted && !settling()) draw(); }, unsure + 10);
    }
    const lost = remembered.contains(document.activeElement);
    patch(summary, open().length ? count(open().length, "call waits", "calls wait") : "No call waits.");
    patch(list, state.waiting.map((e) => h("li", { class: "card", dataset: { key: e.id }, "aria-label": `${ascii(e.target)}, ${e.id}` }, card(e, state.rememberFor, busy(e.id), decide))));
    patch(remembered, earlier(state.remembered, busy, decide));
    remembered.hidden = state.remembered.length === 0;
    if (lost && remembered.hidden) focus();
  }

  draw();
  fill(main, h("div", { class: "headline" }, h("h1", { tabindex: "-1" }, "Approvals"), summary), notices, list, remembered);
  live.addEventListener("state", async () => {
    if (deciding.size > 0) return;
    const before = decisions;
    try {
      const now = await get("approvals", {}, signal);
      if (signal.aborted || before !== decisions) return; // it may be from before a decision
      state = now;
      draw();
    } catch { /* the header shows it */ }
  }, { signal });
}

function card(e, rememberFor, busy, decide) {
  const q = e.question;
  const off = busy ? "true" : null;
  const target = ascii(e.target);
  const button = (verb, text, body, kind) => h("button", {
    type: "button", class: kind, "aria-label": `${text}: ${target}, ${e.id}`, "aria-disabled": off,
    onclick: () => decide(e.id, body, `${target}: ${verb}.`),
  }, text);
  return [
    h("div", { class: "card-head" }, h("div", { class: "card-title" }, h("h2", { tabindex: "-1" }, target), badge(kinds[e.state] ?? "calm", e.waits ? "waits" : e.state)), h("code", {}, e.id)),
    q.description ? h("p", { class: "soft" }, "The server says: ", q.description) : null,
    facts([
      ["Called by", e.caller], ["Run", q.run ? h("a", { href: `#/runs/${encodeURIComponent(q.run)}` }, q.run) : null], ["Rule", q.rule], ["Reason", q.reason], ["Asked", ago(e.created)], ["Until", ago(e.expires)],
      ["Decided by", e.decided?.by], ["Note", e.decided?.note],
    ]),
    block(e.arguments, `Arguments of ${target}, ${e.id}`),
    e.state !== "open" ? null : h("p", { class: "actions" },
      button("allowed", "Allow once", { decision: "allow" }, "primary"),
      rememberFor > 0 ? button("allowed and remembered", `Allow the same for ${duration(rememberFor)}`, { decision: "allow", remember: "value" }) : null,
      button("denied", "Deny", { decision: "deny" })),
  ];
}

// earlier shows what is remembered.
function earlier(all, busy, decide) {
  return [
    h("h2", { id: "remembered", tabindex: "-1" }, "Remembered"),
    notice("calm", h("p", {}, "Calls like these are decided about without asking.")),
    h("ul", {}, all.map((r) => h("li", { dataset: { key: r.id } },
      badge(r.allow ? "good" : "bad", r.allow ? "allow" : "deny"), " ", h("strong", {}, ascii(r.subject.target)),
      ` with the same ${r.scope}, for ${r.subject.token ? `the token ${r.subject.client}` : "clients without a token"}, by ${r.by}, until ${ago(r.expires)} `,
      h("button", { type: "button", class: "small", "aria-label": `Forget ${ascii(r.subject.target)}, ${r.id}`, "aria-disabled": busy(r.id) ? "true" : null, onclick: () => decide(r.id, { decision: "forget" }, `${ascii(r.subject.target)}: forgotten.`) }, "Forget")))),
  ];
}
