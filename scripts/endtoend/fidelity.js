// Compares what a client observes of one server through the binary, over each
// combination of transports, with what it observes directly: server-everything over
// stdio.

import { Combination, combinations } from "./combinations.js";
import { items } from "./items.js";
import { equal, none, within } from "./report.js";

const patience = 30_000; // ms for one item

// fidelity runs every item directly and over each combination.
export async function fidelity({ setup, report }) {
  const direct = await Combination.direct(setup);
  const wanted = new Map();
  for (const [name, item] of items) {
    await report.check(`the server itself: ${name}`, async () => {
      wanted.set(name, await within(patience, name, item(direct)));
      return `${wanted.get(name).length} bytes`;
    });
  }
  const found = await Promise.all(combinations.map((c) => all(setup, c, wanted)));
  for (const [i, { client, upstream }] of combinations.entries()) {
    await report.check(`${client} client, ${upstream} upstream: ${items.length} items as the server itself`, async () => {
      none("items that differ", found[i].filter(Boolean));
    });
  }
  const head = combinations.map(({ client, upstream }) => `${client} > ${upstream}`);
  report.table(["item", "direct", ...head], items.map(([name], i) =>
    [name, wanted.has(name) ? "seen" : "FAILED", ...found.map((problems) => (problems[i] ? "DIFFERS" : "same"))]));
  await direct.stop();
}

// all returns what is wrong with each item over one combination; "" for nothing.
async function all(setup, { client, upstream }, wanted) {
  let place;
  try {
    place = await Combination.start(setup, client, upstream);
  } catch (err) {
    return items.map(() => err.message);
  }
  const problems = [];
  for (const [name, item] of items) problems.push(await compare(name, item, place, wanted.get(name)));
  await place.stop();
  return problems;
}

// compare returns what is wrong with one item.
async function compare(name, item, place, want) {
  try {
    if (want === undefined) throw new Error("the server itself has failed");
    equal(await within(patience, name, item(place)), want, name);
    return "";
  } catch (err) {
    return err.message.startsWith(name) ? err.message : `${name}: ${err.message}`;
  }
}

