// Requests to the program. The token comes in the fragment of the address, which browsers
// do not send, and is kept for this tab only.

import { decoded } from "./format.js";

const key = "mcp-metatool-token";
const base = new URL("api/", document.baseURI);

// takeToken moves the token, or the code for one, from the address to this tab.
export function takeToken() {
  const given = /^#(token|code)=(.+)$/.exec(location.hash);
  if (!given) return;
  if (given[1] === "token") setToken(decoded(given[2]));
  else code = decoded(given[2]);
  history.replaceState(null, "", `${location.pathname}#/servers`);
}

let code = ""; // of the address, exchanged for a token once

// takeCode exchanges the code that "ui --open" puts into the address for a token.
export async function takeCode() {
  if (!code) return;
  const given = code;
  code = "";
  sessionStorage.removeItem(key);
  setToken((await post("session", { code: given })).token);
}

export function setToken(token) {
  sessionStorage.setItem(key, token.trim());
}

export function hasToken() {
  return sessionStorage.getItem(key) !== null;
}

// RequestError is an answer that is not what was asked for. status is 0 if there was no
// answer.
export class RequestError extends Error {
  constructor(status, message, code) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(new URL(path, base), {
      ...options,
      headers: { Authorization: `Bearer ${sessionStorage.getItem(key) ?? ""}`, ...options.headers },
      cache: "no-store", credentials: "omit", redirect: "error",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new RequestError(0, "mcp-metatool does not answer. It may have ended.");
  }
  if (!response.ok) {
    const answer = await response.json().catch(() => ({}));
    throw new RequestError(response.status, answer.error ?? `status ${response.status}`, answer.code);
  }
  return response;
}

// get asks for JSON. parameters are those of the query.
export async function get(path, parameters = {}, signal = undefined) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, v]) => v !== "" && v !== undefined));
  return (await request(query.size ? `${path}?${query}` : path, { signal })).json();
}

function posted(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body, signal };
}

// post sends JSON and asks for JSON.
export async function post(path, body, signal = undefined) {
  return (await request(path, posted(JSON.stringify(body), signal))).json();
}

// call calls a tool; body is JSON text, so that its numbers keep their digits. onLine gets
// each object of the answer.
export async function call(body, onLine, signal) {
  const response = await request("call", posted(body, signal));
  await read(response, "\n", (line) => onLine(JSON.parse(line)));
}

// follow calls onEvent with the name and data of each server-sent event, until the stream
// ends.
export async function follow(path, onEvent, signal) {
  await read(await request(path, { signal }), "\n\n", (text) => {
    let name = "message";
    const data = [];
    for (const line of text.split("\n")) {
      if (line.startsWith("event: ")) name = line.slice(7);
      if (line.startsWith("data: ")) data.push(line.slice(6));
    }
    onEvent(name, JSON.parse(data.join("\n")));
  });
}

// read calls onPart with each part of a body that ends with a separator.
async function read(response, separator, onPart) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const parts = (rest + value).split(separator);
    rest = parts.pop();
    for (const part of parts) if (part.trim()) onPart(part);
  }
}
