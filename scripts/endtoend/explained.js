// Checks of the conformance suite that have another status through the binary than with
// the server itself, and why. Each must differ, or its entry is out of date.

// ownTasks: the server has no tasks. The binary has the extension for runs of its own
// tools, so it passes what can be checked without a tool that makes tasks.
const offered = "the binary has tasks of its own, the server has none";
export const ownTasks = {
  "tasks-capability-negotiation: tasks-extension-advertised": offered,
  "tasks-capability-negotiation: sep-2663-tasks-methods-non-declaring": offered,
  "tasks-dispatch-and-envelope: sep-2663-tasks-get-invalid-task-id-32602": offered,
};

const asksByRequest = "the SDK does not let its tool send a request to a client in this era";
const asked = (scenario, ...checks) => Object.fromEntries(checks.map((check) => [`${scenario}: ${check}`, asksByRequest]));

// acrossHandshake: a client of 2025-11-25 with the server in the stateless era. Its tools
// for this suite ask the client with requests, which that era does not have; tools that
// ask as it wants are in eras.js.
export const acrossHandshake = {
  explained: {
    ...asked("tools-call-elicitation", "tools-call-elicitation"),
    ...asked("tools-call-sampling", "tools-call-sampling"),
    ...asked("elicitation-sep1034-defaults", "elicitation-sep1034-general",
      ...["string", "integer", "number", "enum", "boolean"].map((type) => `elicitation-sep1034-${type}-default`)),
    ...asked("elicitation-sep1330-enums", "elicitation-sep1330-general",
      ...["untitled-single", "titled-single", "legacy-enumnames", "untitled-multi", "titled-multi"].map((kind) => `elicitation-sep1330-${kind}`)),
  },
};

const declaresOnce = "a session declares capabilities once, so the server knows those of all clients";

// The suite answers under the names that the server gives its questions, and questions of a
// session have no names, so that they get ours.
const names = "questions of a session have no names of their own";

// acrossStateless: a client of 2026-07-28 with the server in a session. Questions under any
// name are asked and answered in the other scenarios.
export const acrossStateless = {
  explained: {
    ...ownTasks,
    "server-stateless: sep-2575-server-rejects-undeclared-capability": declaresOnce,
    "server-stateless: sep-2575-missing-capability-http-400": declaresOnce,
    "input-required-result-capability-check: sep-2322-respect-client-capabilities": declaresOnce,
    "input-required-result-basic-elicitation: sep-2322-elicitation-incomplete": names,
    "input-required-result-basic-elicitation: sep-2322-elicitation-complete": names,
    "input-required-result-ignore-extra-params: sep-2322-ignore-unexpected-params": names,
    "input-required-result-multi-round: sep-2322-multi-round-r2": names,
    "input-required-result-multi-round: sep-2322-multi-round-r3": names,
  },
};
