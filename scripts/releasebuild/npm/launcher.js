#!/usr/bin/env node
// Starts mcp-metatool, which the package of this platform contains. Needs nothing but Node,
// and downloads nothing.
//
// Where Node can (22.15 and later, not on Windows), the program takes the place of this
// process, so signals, exit codes and standard streams are its own. Elsewhere it is a child
// with the same standard streams: signals are passed on, and this process ends as the
// program did. If this process is killed, a program that serves standard input ends when
// that does; on Windows, Node ends it.
"use strict";

const fs = require("node:fs");
const os = require("node:os");
const { spawn } = require("node:child_process");

const platforms = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64", "win32-x64"];
const windows = process.platform === "win32";
const signals = ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];

function fail(message) {
	process.stderr.write(message.replace(/^/gm, "mcp-metatool: ") + "\n");
	process.exit(1);
}

// find returns the path of the program.
function find() {
	const platform = `${process.platform}-${process.arch}`;
	if (!platforms.includes(platform)) {
		fail(`there is no program for ${platform}, only for ${platforms.join(", ")}\n` +
			"build it from source: https://github.com/mcp-metatool/mcp-metatool");
	}
	const name = `@mcp-metatool/${platform}`;
	try {
		return require.resolve(`${name}/bin/mcp-metatool${windows ? ".exe" : ""}`);
	} catch {
		return fail(`the package ${name}, which contains the program for this system, is not installed\n` +
			"it is an optional dependency: install mcp-metatool again, without --omit=optional or --no-optional,\n" +
			"and without node_modules and lockfiles that were made on another system");
	}
}

// replace puts the program in the place of this process. It returns if Node cannot do that.
function replace(file, args) {
	if (windows || typeof process.execve !== "function") {
		return;
	}
	try {
		fs.accessSync(file, fs.constants.X_OK); // a failure of execve would end in a stack trace
		process.execve(file, [file, ...args]);
	} catch {
		// Not allowed, or not possible: the child says why.
	}
}

// run starts the program as a child, and ends as it does.
function run(file, args) {
	let child;
	for (const signal of signals) {
		process.on(signal, () => {
			// On Windows a console tells all its processes itself, and kill is no signal.
			if (!windows) {
				child.kill(signal);
			}
		});
	}
	child = spawn(file, args, { stdio: "inherit" });
	child.on("error", (error) => fail(`${file} cannot be started: ${error.message}`));
	child.on("exit", (code, signal) => {
		if (signal === null) {
			process.exit(code);
		}
		process.removeAllListeners(signal);
		process.kill(process.pid, signal);
		setTimeout(() => process.exit(128 + os.constants.signals[signal]), 1000); // it was ignored
	});
}

const file = find();
replace(file, process.argv.slice(2));
run(file, process.argv.slice(2));
