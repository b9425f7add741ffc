// Numbers and times for people.

const whole = new Intl.NumberFormat("en-US");
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });

export function number(n) {
  return whole.format(n);
}

export function count(n, one, many = `${one}s`) {
  return `${number(n)} ${n === 1 ? one : many}`;
}

// duration formats milliseconds.
export function duration(ms) {
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(ms < 10_000 ? 2 : 1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1000)} s`;
}

// time formats a time of today as a time, others with their day.
export function time(text) {
  const at = new Date(text);
  const today = day.format(new Date()) === day.format(at);
  return today ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
}

// ago says how long ago something was, or how soon it will be.
export function ago(text) {
  const seconds = Math.round((Date.now() - new Date(text).getTime()) / 1000);
  const size = Math.abs(seconds);
  let amount = `${size} s`;
  if (size >= 86_400 * 2) amount = `${Math.floor(size / 86_400)} days`;
  else if (size >= 7200) amount = `${Math.floor(size / 3600)} h`;
  else if (size >= 120) amount = `${Math.floor(size / 60)} min`;
  return seconds < 0 ? `in ${amount}` : `${amount} ago`;
}
