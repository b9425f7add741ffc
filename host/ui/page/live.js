// What the program tells this page while it is open. The state is asked for every few
// seconds. Runs come as a stream. Browsers allow few connections to one address, so a single
// tab holds the stream and passes it on to the others; a tab that nobody sees holds none.

import { follow, get } from "./api.js";

// Events: "state" with the state; "run" with a run; "ready" when runs may have been missed;
// "connection" with { state, error }: connecting, live, unrecorded, lost or refused.
export const live = new EventTarget();

const period = 3000; // ms between two looks at the state
const silence = 25_000; // ms without any event after which a stream is dead
const longest = 10_000; // ms between two attempts

let connection = { state: "connecting" };
let latest; // the last state
let wake = () => {}; // ends the pause of the loop that asks for the state

function tell(type, detail) {
  live.dispatchEvent(new CustomEvent(type, { detail }));
}

function connected(state, error) {
  if (connection.state === state && state !== "refused") return;
  connection = { state, error };
  tell("connection", connection);
}

// retry asks for the state at once.
export function retry() {
  wake();
}

// onChange calls f when a revision in the state has changed, or events may have been missed.
// Failures are shown by the header.
export function onChange(events, name, signal, f) {
  let known = latest?.[name];
  events.addEventListener("state", ({ detail }) => {
    const before = known;
    known = detail[name];
    if (before !== known) f().catch(() => { known = undefined; });
  }, { signal });
}

const pause = (ms) => new Promise((resolve) => {
  const timer = setTimeout(resolve, ms);
  wake = () => { clearTimeout(timer); resolve(); };
});

const visible = () => !document.hidden;

function untilVisible() {
  if (visible()) return Promise.resolve();
  return new Promise((resolve) => {
    const look = () => {
      if (!visible()) return;
      document.removeEventListener("visibilitychange", look);
      resolve();
    };
    document.addEventListener("visibilitychange", look);
  });
}

// watch begins all this, with the state as it is. It ends with signal, or when the token is
// refused.
export function watch(first, signal) {
  const shared = "BroadcastChannel" in window && "locks" in navigator; // only in secure contexts
  const channel = shared ? new BroadcastChannel("mcp-metatool") : null;
  signal.addEventListener("abort", () => channel?.close());
  connection = { state: "" };
  latest = first;
  connected(first.journal ? "connecting" : "unrecorded");
  askForState(first, signal);
  if (first.journal) followRuns(channel, signal);
}

async function askForState(state, signal) {
  let wait = period;
  while (!signal.aborted) {
    await pause(wait);
    await untilVisible();
    if (signal.aborted) return;
    try {
      const limit = AbortSignal.any([signal, AbortSignal.timeout(silence)]);
      state = await get("state", {}, limit);
      if (signal.aborted) return;
      wait = period;
      if (connection.state === "lost") {
        connected(state.journal ? "live" : "unrecorded");
        tell("ready");
      }
      latest = state;
      tell("state", state);
    } catch (error) {
      if (signal.aborted) return;
      connected(error.status === 401 ? "refused" : "lost", error);
      if (error.status === 401) return;
      wait = Math.min(wait * 1.5, longest);
    }
  }
}

async function followRuns(channel, signal) {
  channel?.addEventListener("message", ({ data: { type, detail } }) => {
    if (signal.aborted) return;
    if (type === "hello") {
      if (holding) channel.postMessage({ type: "live" });
    } else if (type === "live") connected("live");
    else tell(type, detail);
  });
  channel?.postMessage({ type: "hello" });
  let holding = false; // this tab has the stream
  while (!signal.aborted && connection.state !== "refused") {
    await untilVisible();
    const hidden = new AbortController();
    const hide = () => { if (!visible()) hidden.abort(); };
    document.addEventListener("visibilitychange", hide);
    const until = AbortSignal.any([signal, hidden.signal]);
    const hold = async () => {
      holding = true;
      try {
        await stream(channel, until);
      } finally {
        holding = false;
      }
    };
    try {
      if (channel) await navigator.locks.request("mcp-metatool", { signal: until }, hold);
      else await hold();
    } catch (error) {
      if (error.name !== "AbortError") throw error; // it waited for the stream until it was hidden
    } finally {
      document.removeEventListener("visibilitychange", hide);
    }
  }
}

// stream passes events on until the tab is hidden or the token is refused. It connects again
// when the stream ends.
async function stream(channel, until) {
  const pass = (type, detail) => {
    tell(type, detail);
    channel?.postMessage({ type, detail });
  };
  let wait = 500; // ms
  while (!until.aborted) {
    const quiet = new AbortController();
    let timer;
    const alive = () => {
      clearTimeout(timer);
      timer = setTimeout(() => quiet.abort(), silence);
    };
    try {
      alive();
      await follow("live", (name, detail) => {
        alive();
        wait = 500;
        if (name === "ready") {
          connected("live");
          channel?.postMessage({ type: "live" });
        }
        if (name !== "alive") pass(name, detail);
      }, AbortSignal.any([until, quiet.signal]));
    } catch (error) {
      if (until.aborted) return;
      if (error.status === 401) {
        connected("refused", error);
        return;
      }
      if (!error.status) connected("lost", error);
    } finally {
      clearTimeout(timer);
    }
    if (until.aborted) return;
    await new Promise((resolve) => { setTimeout(resolve, wait); });
    wait = Math.min(wait * 2, longest);
  }
}

// A tab that nobody saw may have missed something.
document.addEventListener("visibilitychange", () => {
  if (!visible()) return;
  retry();
  tell("ready");
});
