// The TypeScript client for all but tools: resources, prompts, completions, logging,
// subscriptions, and requests of servers.

import { assert, equal, until } from "./report.js";

export const sdkCapabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };

const document = "demo://resource/static/document/features.md";
const text = (result) => result.content.map((c) => c.text).join("\n");

export async function sdkSurfaces(report, client, types) {
  await resources(report, client, types);
  await prompts(report, client);
  await logging(report, client, types);
  await asked(report, client, types);
}

async function resources(report, client, types) {
  await report.check("lists and reads resources, including one of a template", async () => {
    const { resources: all } = await client.listResources();
    assert(all.some((r) => r.uri === document), `${document} is missing in ${all.map((r) => r.uri)}`);
    const { contents } = await client.readResource({ uri: document });
    assert(contents[0].text.length > 1000, "it is empty");
    const { resourceTemplates } = await client.listResourceTemplates();
    assert(resourceTemplates.length >= 2, `${resourceTemplates.length} templates`);
    const blob = await client.readResource({ uri: "demo://resource/dynamic/blob/4" });
    assert(Buffer.from(blob.contents[0].blob, "base64").toString().includes("Resource 4"), "the blob");
    return `${all.length} resources`;
  });
  await report.check("is told of updates of a resource until it unsubscribes", async () => {
    const updated = [];
    client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => void updated.push(params.uri));
    const toggle = () => client.callTool({ name: "everything__toggle-subscriber-updates", arguments: {} });
    await client.subscribeResource({ uri: document });
    await toggle();
    await until(10_000, "an update", () => updated.length > 0);
    await toggle();
    await client.unsubscribeResource({ uri: document });
    const before = updated.length;
    await toggle();
    await toggle();
    equal(`${updated.length}, ${new Set(updated).size}, ${updated[0]}`, `${before}, 1, ${document}`, "updates");
  });
}

async function prompts(report, client) {
  await report.check("lists and gets prompts, completes their arguments", async () => {
    const { prompts: all } = await client.listPrompts();
    assert(all.some((p) => p.name === "everything__args-prompt"), `prompts: ${all.map((p) => p.name)}`);
    const { messages } = await client.getPrompt({ name: "everything__args-prompt", arguments: { city: "Bern" } });
    assert(messages[0].content.text.includes("Bern"), messages[0].content.text);
    const { completion } = await client.complete({
      ref: { type: "ref/prompt", name: "everything__completable-prompt" }, argument: { name: "department", value: "S" },
    });
    equal(completion.values.join(), "Sales,Support", "completion");
    return `${all.length} prompts`;
  });
}

async function logging(report, client, types) {
  await report.check("gets log messages, with the server's name, from the level it sets", async () => {
    const messages = [];
    client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => void messages.push(params));
    const logged = async () => {
      const before = messages.length;
      await client.subscribeResource({ uri: "demo://resource/log" });
      await client.unsubscribeResource({ uri: "demo://resource/log" });
      return messages.slice(before).filter((m) => `${m.data}`.includes("demo://resource/log"));
    };
    await client.setLoggingLevel("info");
    const seen = [];
    await until(10_000, "a log message", async () => seen.push(...(await logged())) > 0);
    assert(seen[0].level === "info" && `${seen[0].logger}`.startsWith("everything"), JSON.stringify(seen[0]));
    await client.setLoggingLevel("critical");
    equal((await logged()).length, 0, "messages below the level");
  });
}

async function asked(report, client, types) {
  await report.check("answers the servers' requests: sampling, elicitation, roots", async () => {
    client.setRequestHandler(types.CreateMessageRequestSchema, ({ params }) => ({
      role: "assistant", model: "e2e", content: { type: "text", text: `sampled: ${params.messages[0].content.text}` },
    }));
    client.setRequestHandler(types.ElicitRequestSchema, () => ({ action: "accept", content: { name: "Ann of e2e" } }));
    client.setRequestHandler(types.ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///e2e", name: "root of e2e" }] }));
    const call = (name, args = {}) => client.callTool({ name: `everything__${name}`, arguments: args });
    assert(text(await call("trigger-sampling-request", { prompt: "say it" })).includes("sampled: Resource"), "sampling");
    assert(text(await call("trigger-elicitation-request")).includes("Ann of e2e"), "elicitation");
    await client.sendRootsListChanged();
    await until(10_000, "the roots", async () => text(await call("get-roots-list")).includes("root of e2e"));
  });
  await report.check("answers them if they come during a script's call", async () => {
    const code = 'return everything.trigger_sampling_request({"prompt": "from a script"})';
    const { structuredContent, isError } = await client.callTool({ name: "eval_starlark", arguments: { code } });
    assert(!isError && JSON.stringify(structuredContent.result).includes("from a script"), JSON.stringify(structuredContent));
  });
}
