// The page: who may see it, which view is shown, and whether the program answers.

import { announce, badge, fill, h, notice, problem, visible } from "./dom.js";
import { count, decoded, number } from "./format.js";
import { get, hasToken, RequestError, setToken, takeCode, takeToken } from "./api.js";
import { live, retry, watch } from "./live.js";
import { servers } from "./servers.js";
import { tools } from "./tools.js";
import { saved } from "./saved.js";
import { runs } from "./runs.js";
import { approvals } from "./approvals.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");

const views = { servers, tools, saved, runs, approvals };
const titles = { servers: "Servers", tools: "Tools", saved: "Saved tools", runs: "Runs", approvals: "Approvals" };

let leaving = new AbortController(); // ends what the current view does
let moved = false; // the person has gone to another view
let shown = ""; // the view that is shown

// place returns the view, the path below it, and the parameters in the address.
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/");
  return { name: Object.hasOwn(views, name) ? name : "servers", rest: rest.map(decoded), query: new URLSearchParams(query ?? "") };
}

async function show() {
  leaving.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  const { name, rest, query } = place();
  for (const link of document.querySelectorAll("#views a")) {
    if (link.getAttribute("href") === `#/${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${titles[name]} – mcp-metatool`;
  main.setAttribute("aria-busy", "true");
  try {
    await views[name]({ main, rest, query, signal, live, again: shown === name, title: setTitle });
    shown = name;
  } catch (error) {
    if (signal.aborted) return;
    shown = "";
    main.removeAttribute("aria-busy");
    if (error instanceof RequestError && error.status === 401) {
      signIn("This token is not accepted.");
      return;
    }
    fill(main, h("h1", { tabindex: "-1" }, titles[name]), problem(error));
  }
  if (signal.aborted) return; // another view is being shown
  main.removeAttribute("aria-busy");
  if (moved) (main.querySelector("[data-focus]") ?? main.querySelector("h1") ?? main).focus();
}

function setTitle(text) {
  document.title = `${visible(text)} – mcp-metatool`;
}

// tokenForm asks for the token.
function tokenForm(...text) {
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  return h("form", {
    class: "sign-in",
    onsubmit: (event) => {
      event.preventDefault();
      setToken(input.value);
      start();
    },
  }, ...text, h("label", { for: "token" }, "Token"), h("p", { class: "actions" }, input, h("button", { class: "primary" }, "Continue")));
}

// signIn shows nothing but the question for the token.
function signIn(error) {
  fill(main, tokenForm(h("h1", { tabindex: "-1" }, "Which token?"),
    h("p", {}, "Open the link that ", h("code", {}, "mcp-metatool ui"), " prints, or enter the token of this page."),
    error ? notice("error", h("p", {}, error)) : null));
  document.title = "Token – mcp-metatool";
  main.querySelector("input").focus();
}

let watching = new AbortController(); // ends what watch() has begun

// start shows the view and what happens.
async function start() {
  watching.abort();
  watching = new AbortController();
  const { signal } = watching;
  let state = { journal: true };
  try {
    await takeCode();
    state = await get("state", {}, signal);
  } catch (error) {
    if (signal.aborted) return;
    if (error.status === 401 || error.status === 410) {
      if (again()) refused();
      else signIn(error.status === 410 ? error.message : hasToken() ? "This token is not accepted." : "");
      return;
    }
  }
  fill(document.getElementById("version"), state.version ?? "");
  showWaiting(state);
  watch(state, signal);
  if (again()) live.dispatchEvent(new CustomEvent("ready"));
  else show();
}

// again reports whether a view is shown, which may have what the person has typed.
const again = () => shown !== "";

const states = {
  connecting: "Connecting …", live: "Live", lost: "Not connected", refused: "Not connected", unrecorded: "Runs are not recorded",
};

// away says above the view that the program is gone, and what to do. What the view shows
// stays.
function away(...text) {
  const box = document.getElementById("away");
  fill(box, text.length ? notice("error", text) : null);
}

function refused() {
  away(tokenForm(h("p", {}, h("strong", {}, "mcp-metatool was started again."), " It has a new token: open the link that it prints, or enter the token here. What you see is from before.")));
  announce("mcp-metatool was started again, and has a new token.");
}

live.addEventListener("connection", ({ detail: { state } }) => {
  connection.dataset.state = state;
  fill(connection, states[state]);
  if (state === "lost") {
    away(h("p", {}, h("strong", {}, "mcp-metatool does not answer."), " It may have ended. This page connects again by itself when it answers. If it has ended, start it again and open the link that it prints. What you see is from before."),
      h("p", { class: "actions" }, h("button", { type: "button", class: "small", onclick: retry }, "Try now")));
    announce("mcp-metatool does not answer.");
  } else if (state === "refused") {
    watching.abort();
    if (again()) refused();
    else signIn("This token is not accepted.");
  } else {
    const focused = document.getElementById("away").contains(document.activeElement);
    away();
    if (focused) (main.querySelector("h1") ?? main).focus();
  }
});

// How many calls wait for approval. More of them than before are announced.
let waiting = 0;
function showWaiting({ approvals: now = 0 }) {
  fill(document.getElementById("waiting"), now > 0 ? badge("busy", number(now)) : null);
  if (now > waiting) announce(count(now, "call waits for approval", "calls wait for approval"));
  waiting = Math.max(0, now);
}
live.addEventListener("state", ({ detail }) => showWaiting(detail));

// A sentence for the runs that have ended, at most one in a few seconds.
const ended = [];
let speaking;
live.addEventListener("run", ({ detail: run }) => {
  if (!run.done) return;
  ended.push(run);
  speaking ??= setTimeout(() => {
    announce(ended.length === 1 ? `Run of ${ended[0].tool || "a script"}: ${ended[0].outcome}` : `${ended.length} runs have ended.`);
    ended.length = 0;
    speaking = undefined;
  }, 2000);
});

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  if (/^#(token|code)=/.test(location.hash)) { // another link was opened in this tab
    takeToken();
    start();
    return;
  }
  moved = true;
  show();
});

takeToken();
start();
