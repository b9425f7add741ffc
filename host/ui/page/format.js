// Numbers and times for people.

const whole = new Intl.NumberFormat("en-US");
const rough = new Intl.NumberFormat("en-US", { notation: "compact", maximumSignificantDigits: 3 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function number(n) {
  return whole.format(n);
}

// tokens formats an estimate.
export function tokens(n) {
  return `≈ ${n < 100_000 ? number(n) : rough.format(n)}`;
}

export function count(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

// duration formats milliseconds.
export function duration(ms) {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  const seconds = Math.round(ms / 1000);
  const parts = ms < 3_600_000 ? [[Math.floor(seconds / 60), "min"], [seconds % 60, "s"]] : [[Math.floor(seconds / 3600), "h"], [Math.floor(seconds / 60) % 60, "min"]];
  return parts.filter(([n]) => n > 0).map(([n, unit]) => `${n} ${unit}`).join(" ");
}

// ascii returns a name of which all characters are ASCII. Others, which may look like these,
// become escapes.
export function ascii(name) {
  return String(name).replace(/[^ -~]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
}

// time formats a time of today as a time, others with their day.
export function time(text) {
  const at = new Date(text);
  const today = day.format(new Date()) === day.format(at);
  return today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

// ago says how long ago something was, or how soon it will be.
export function ago(text) {
  return new Date(text).getTime() > Date.now() + 500 ? `in ${away(text)}` : `${away(text)} ago`;
}

// away says how much time lies between now and a moment.
export function away(text) {
  const seconds = Math.round(Math.abs(Date.now() - new Date(text).getTime()) / 1000);
  if (seconds >= 86_400 * 2) return `${Math.floor(seconds / 86_400)} days`;
  if (seconds >= 7200) return `${Math.floor(seconds / 3600)} h`;
  if (seconds >= 120) return `${Math.floor(seconds / 60)} min`;
  return `${seconds} s`;
}

// decoded decodes a part of an address; one that is not encoded correctly stays as it is.
export function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
