// Runs checks and prints their results.

const limit = 120_000; // ms after which a check counts as hung

export class Report {
  passed = 0;
  failed = 0;

  section(title) {
    console.log(`\n${title}`);
  }

  // check runs one check and returns whether it passed. It fails if body throws. The
  // value that body returns is printed after the name.
  async check(name, body) {
    const started = performance.now();
    try {
      const detail = await within(limit, `check "${name}"`, body());
      this.passed++;
      const took = `${Math.round(performance.now() - started)} ms`;
      console.log(`  ok    ${name}${detail ? `: ${detail}` : ""} (${took})`);
      return true;
    } catch (err) {
      this.failed++;
      console.log(`  FAIL  ${name}: ${err?.message ?? err}`);
      return false;
    }
  }

  // table prints rows of cells in columns.
  table(head, rows) {
    const widths = head.map((_, i) => Math.max(...[head, ...rows].map((row) => row[i].length)));
    for (const row of [head, ...rows]) console.log(`        ${row.map((cell, i) => cell.padEnd(widths[i])).join("  ").trimEnd()}`);
  }

  summary() {
    console.log(`\n${this.passed} passed, ${this.failed} failed`);
    return this.failed === 0 && this.passed > 0;
  }
}

// within fails when promise takes longer than ms.
export async function within(ms, what, promise) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`${what}: nothing after ${ms} ms`)), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}

export function assert(condition, message) {
  if (!condition) throw new Error(message);
}

// none fails unless a list of texts is empty.
export function none(what, list) {
  assert(list.length === 0, `${what}: ${list.join("; ")}`);
}

export function equal(got, want, what) {
  if (got === want) return;
  const [a, b] = [String(got), String(want)];
  let i = 0;
  while (i < a.length && a[i] === b[i]) i++;
  const cut = (s) => JSON.stringify(s.slice(Math.max(0, i - 60), i + 140));
  throw new Error(`${what}: got ${cut(a)}, want ${cut(b)}`);
}

export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// until polls a condition that cannot be waited for, such as the state of processes.
export async function until(ms, what, condition) {
  const deadline = performance.now() + ms;
  for (;;) {
    const value = await condition();
    if (value) return value;
    if (performance.now() > deadline) throw new Error(`${what}: not so after ${ms} ms`);
    await pause(25);
  }
}
