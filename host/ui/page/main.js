// The page: who may see it, which view is shown, and the stream of runs.

import { announce, fill, h, notice, problem } from "./dom.js";
import { decoded } from "./format.js";
import { follow, get, hasToken, RequestError, setToken, takeToken } from "./api.js";
import { servers } from "./servers.js";
import { tools } from "./tools.js";
import { saved } from "./saved.js";
import { runs } from "./runs.js";

const main = document.getElementById("main");
const connection = document.getElementById("connection");

const views = { servers, tools, saved, runs };
const titles = { servers: "Servers", tools: "Tools", saved: "Saved tools", runs: "Runs" };

// Events of the stream: "run" with a run, "ready" when it has begun.
const live = new EventTarget();

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
  try {
    await views[name]({ main, rest, query, signal, live, again: shown === name, title: setTitle });
    shown = name;
  } catch (error) {
    if (signal.aborted) return;
    shown = "";
    if (error instanceof RequestError && error.status === 401) {
      signIn(error);
      return;
    }
    fill(main, h("h1", { tabindex: "-1" }, titles[name]), problem(error));
  }
  if (moved && !signal.aborted) (main.querySelector("[data-focus]") ?? main.querySelector("h1") ?? main).focus();
}

function setTitle(text) {
  document.title = `${text} – mcp-metatool`;
}

// signIn asks for the token.
function signIn(error) {
  const input = h("input", { id: "token", type: "password", autocomplete: "off", required: true, spellcheck: "false" });
  const form = h("form", { class: "sign-in" },
    h("h1", { tabindex: "-1" }, "Which token?"),
    h("p", {}, "Open the link that ", h("code", {}, "mcp-metatool ui"), " prints, or enter the token of this page."),
    hasToken() && error ? notice("error", h("p", {}, "This token is not accepted.")) : null,
    h("label", { for: "token" }, "Token"), input, h("button", { class: "primary" }, "Continue"));
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    setToken(input.value);
    start();
  });
  fill(main, form);
  document.title = "Token – mcp-metatool";
  input.focus();
}

let following; // ends the stream

// start shows the view and follows the runs.
async function start() {
  following?.abort();
  following = new AbortController();
  const { signal } = following;
  try {
    const state = await get("state", {}, signal);
    fill(document.getElementById("version"), state.version);
    status(state.journal ? "connecting" : "unrecorded");
    if (state.journal) followRuns(signal);
  } catch (error) {
    if (error.status === 401) {
      signIn(hasToken() ? error : null);
      return;
    }
    status("lost");
  }
  show();
}

const states = {
  connecting: "Connecting …", live: "Live", lost: "Not connected", unrecorded: "Runs are not recorded",
};

function status(state) {
  if (connection.dataset.state === state) return;
  connection.dataset.state = state;
  fill(connection, states[state]);
}

// followRuns follows the runs, and connects again if the stream ends.
async function followRuns(signal) {
  let wait = 500; // ms
  while (!signal.aborted) {
    try {
      await follow("live", (name, data) => {
        if (name === "ready") {
          wait = 500;
          status("live");
        }
        live.dispatchEvent(new CustomEvent(name, { detail: data }));
        if (name === "run" && data.done) announce(`Run of ${data.tool}: ${data.outcome}`);
      }, signal);
    } catch (error) {
      if (signal.aborted) return;
      if (error.status === 401) {
        signIn(error);
        return;
      }
    }
    status("lost");
    await new Promise((resolve) => setTimeout(resolve, wait));
    wait = Math.min(wait * 2, 10_000);
  }
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", () => {
  if (location.hash.startsWith("#token=")) { // another link was opened in this tab
    takeToken();
    start();
    return;
  }
  moved = true;
  show();
});

takeToken();
start();
