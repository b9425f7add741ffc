// Runs COMMAND and passes standard input on to it. Each chunk is appended to
// FILE first, so whatever the command has answered is already in the file:
//
//	node recorder.js FILE COMMAND [ARG...]

import { spawn } from "node:child_process";
import { openSync, writeFileSync } from "node:fs";

const [file, command, ...args] = process.argv.slice(2);
const record = openSync(file, "a");
const child = spawn(command, args, { stdio: ["pipe", "inherit", "inherit"] });

child.stdin.on("error", () => {}); // the command ended without reading everything
process.stdin.on("data", (chunk) => {
  writeFileSync(record, chunk);
  if (child.stdin.write(chunk)) return;
  process.stdin.pause();
  child.stdin.once("drain", () => process.stdin.resume());
});
process.stdin.on("end", () => child.stdin.end());

child.on("error", (err) => {
  console.error(`${command}: ${err.message}`);
  process.exit(127);
});
child.on("exit", (code) => process.exit(code ?? 1));
