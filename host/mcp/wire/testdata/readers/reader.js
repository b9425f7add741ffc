// Reads a list of paths and then messages, one per line. For each message, writes what
// each way of reading finds at the paths: a string, or null for anything else.
const isObject = (v) => typeof v === "object" && v !== null && !Array.isArray(v);

// Ways to find a member of an object.
const own = (o, k) => o[k];
const assigned = (o, k) => Object.assign({}, o)[k];
const lower = (o, k) => {
  let found;
  for (const name of Object.keys(o)) if (name.toLowerCase() === k.toLowerCase()) found = o[name];
  return found;
};
const upper = (o, k) => {
  for (const name of Object.keys(o)) if (name.toUpperCase() === k.toUpperCase()) return o[name];
};
function look(find, value, path) {
  for (const name of path) {
    if (!isObject(value)) return null;
    value = find(value, name);
  }
  return typeof value === "string" ? value : null;
}

let paths;
let rest = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (chunk) => {
  const all = (rest + chunk).split("\n");
  rest = all.pop();
  for (const line of all) {
    if (paths === undefined) {
      paths = JSON.parse(line);
      continue;
    }
    let out;
    try {
      const m = JSON.parse(line);
      out = [own, assigned, lower, upper].map((find) => paths.map((p) => look(find, m, p)));
    } catch (e) {
      out = { error: String(e) };
    }
    process.stdout.write(JSON.stringify(out) + "\n");
  }
});
