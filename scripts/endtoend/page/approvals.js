// Checks of approvals: calls of an agent for which policy asks are decided about on the page.

import { agent, assert, cli, go, limit } from "./harness.js";
import { attack, big, disguise } from "./hostile.js";

const rule = `publications ${attack}`;

// policy asks for tools of the hostile server that publish.
export const policy = `
[[policy.rule]]
name = ${JSON.stringify(rule)}
tools = ["hostile.publish*"]
action = "ask"
reason = ${JSON.stringify(`It is public. ${attack}`)}
`;

const publish = "hostile__publish";

// queued waits until a call with this text in its arguments is in the queue.
async function queued(text) {
  const end = Date.now() + limit;
  for (;;) {
    const found = cli("approvals", "list")?.find((e) => JSON.stringify(e.question.arguments).includes(text));
    if (found) return found;
    assert(Date.now() < end, `no call with ${text} is in the queue`);
    await new Promise((resolve) => { setTimeout(resolve, 50); });
  }
}

let remembered = false;

// asked makes an agent whose call waits, with a decision that is remembered beside it. It
// returns what ends that.
export async function asked() {
  const client = await agent();
  if (!remembered) {
    const answer = client.call(publish, { text: "to be remembered" }, { timeout: limit });
    cli("approvals", "deny", (await queued("to be remembered")).id, "--remember");
    await answer;
    remembered = true;
  }
  const id = client.start("tools/call", JSON.stringify({ name: publish, arguments: { text: `to be seen ${attack}`, [`long ${"name_".repeat(40)}`]: "w".repeat(3000), list: Array.from({ length: 60 }, (_, i) => i) } }));
  await queued("to be seen");
  return async () => {
    client.notify("notifications/cancelled", { requestId: JSON.parse(id) });
    await client.close();
  };
}

const card = (page, text) => page.getByRole("list", { name: "Calls that wait for approval" }).getByRole("listitem").filter({ hasText: text });
const said = (page, pattern) => page.waitForFunction((p) => new RegExp(p).test(document.getElementById("announcer").textContent), pattern);
const focused = (page) => page.evaluate(() => document.activeElement.textContent);
const texts = ({ value: { result } }) => result.content.map((c) => c.text).join();

// withAgent calls f with an agent, which is closed then, and what makes calls. page, if there is
// one, does not wait between two looks at the state.
async function withAgent(f, page) {
  const client = await agent();
  await page?.evaluate(() => { window.hurry = setInterval(() => document.dispatchEvent(new Event("visibilitychange")), 300); });
  const call = (args, name = publish) => {
    const answer = client.call(name, args, { timeout: limit });
    answer.catch(() => {}); // whoever waits for it hears of that
    return answer;
  };
  try {
    await f(client, call);
  } finally {
    await client.close();
    await page?.evaluate(() => clearInterval(window.hurry));
  }
}

export const checks = {
  async "a call that policy asks for appears with its digits, and is made when it is allowed"({ page }) {
    await go(page, "#/approvals");
    await page.getByText("No call waits.").waitFor();
    await withAgent(async (client) => {
      const before = client.messages.length;
      const id = client.start("tools/call", `{"name":"${publish}","arguments":{"text":"first","digits":${big}}}`);
      const one = card(page, "first"); // without a reload
      await one.getByText(`"digits": ${big}`).waitFor();
      await one.getByText("waits", { exact: true }).waitFor();
      await one.getByText("calls itself `e2e`").waitFor();
      await page.getByRole("link", { name: "Approvals 1" }).waitFor();
      await page.getByText("1 call waits", { exact: true }).waitFor();
      assert(!client.messages.slice(before).some((m) => m.value.result), "it was answered before");
      await one.getByRole("button", { name: "Allow once" }).click();
      assert(/"text":"first"/.test(texts(await client.answer(id, { timeout: limit }))), "it was not made");
      await said(page, "^hostile.publish: allowed.$");
      await one.waitFor({ state: "detached" });
      await page.getByText("No call waits.").waitFor();
      await page.getByRole("link", { name: "Approvals", exact: true }).waitFor();
      assert(await focused(page) === "Approvals", `the focus is on ${await focused(page)}`);
    });
  },
  async "hostile texts of a call stay texts"({ page }) {
    await go(page, "#/approvals");
    await withAgent(async (client, call) => {
      const name = (await client.definitions()).map((t) => JSON.parse(t.raw)).find((t) => t.description.includes("Its name is HTML.")).name;
      const text = `${attack} ${disguise} \u3164\u2800</pre>`;
      const answers = [call({ [attack]: text, text }), call({ text: "second" }, name)];
      const one = card(page, "</pre>");
      await one.getByText("Publishes a page.").waitFor();
      const second = card(page, "second");
      await second.getByText(`hostile.publish ${attack}`).waitFor();
      for (const where of ["Called by", "Rule", "Reason"]) await one.locator(".facts div").filter({ hasText: where }).waitFor();
      const found = await page.evaluate(() => ({
        pwned: window.pwned, scripts: document.scripts.length, images: document.querySelectorAll("main img").length,
        odd: /[\u202a-\u202e\u2066-\u2069\u200b\u0007\u3164\u2800]/.test(document.title + document.body.innerText),
        shown: document.querySelector("main").textContent.split("<img src=x onerror=").length - 1,
      }));
      assert(found.pwned === undefined && found.scripts === 1 && found.images === 0 && !found.odd, JSON.stringify(found));
      assert(found.shown >= 8, `${found.shown} texts are shown`); // two in arguments, description, and twice rule and reason, and a name
      await one.getByRole("button", { name: "Deny" }).click();
      await second.getByRole("button", { name: "Deny" }).click();
      for (const answer of await Promise.all(answers)) {
        assert(answer.value.result.isError && /was not approved: denied by user of the page/.test(texts(answer)), answer.raw);
      }
    }, page);
  },
  async "a decision can be remembered and forgotten"({ page }) {
    await go(page, "#/approvals");
    await withAgent(async (client, call) => {
      const answer = call({ text: "again" });
      await card(page, "again").getByRole("button", { name: "Allow the same for 8 h" }).click();
      await answer;
      const section = page.getByRole("region", { name: "Remembered" });
      const line = section.getByRole("listitem").filter({ hasText: "by user of the page" });
      await line.getByText("hostile.publish").waitFor();
      assert(!(await call({ text: "again" })).value.result.isError, "the same call was not made");
      await line.getByRole("button", { name: /^Forget/ }).focus();
      await page.waitForFunction(() => !document.activeElement.hasAttribute("aria-disabled"));
      await page.keyboard.press("Enter");
      await said(page, "^hostile.publish: forgotten.$");
      await line.waitFor({ state: "detached" });
      assert(["Remembered", "Approvals"].includes(await focused(page)), `the focus is on ${await focused(page)}`);
      const asks = call({ text: "again" });
      await card(page, "again").getByRole("button", { name: "Deny" }).click();
      assert((await asks).value.result.isError, "it was made");
    }, page);
  },
  async "the keyboard alone decides, and the focus goes to the next call"({ page }) {
    await go(page, "#/approvals");
    await withAgent(async (client, call) => {
      const answers = [];
      for (const text of ["one", "two", "three"]) {
        answers.push(call({ text }));
        await card(page, `"text": "${text}"`).waitFor();
      }
      await page.locator(".cards button:not([aria-disabled])").first().waitFor();
      const at = () => page.evaluate(() => document.activeElement.closest("li")?.querySelector("pre").textContent.match(/"text": "(\w+)"/)[1]);
      const tabTo = async (text, name) => {
        for (let i = 0; i < 40; i++) {
          await page.keyboard.press("Tab");
          if (await at() === text && await focused(page) === name) return;
        }
        throw new Error(`Tab does not reach ${name} of ${text}`);
      };
      await page.getByRole("heading", { level: 1 }).focus();
      await tabTo("two", "Deny");
      await page.keyboard.press("Enter");
      await page.keyboard.press("Enter"); // the second one decides about nothing
      assert((await answers[1]).value.result.isError, "it was made");
      await page.waitForFunction(() => document.activeElement.nodeName === "H2");
      assert(await at() === "three", `the focus is at ${await at()}`);
      await card(page, `"text": "two"`).waitFor({ state: "detached" });
      assert(await at() === "three", `the focus moved to ${await at()}`);
      await tabTo("three", "Allow once");
      await page.waitForFunction(() => !document.activeElement.hasAttribute("aria-disabled"));
      await page.keyboard.press("Space");
      assert(!(await answers[2]).value.result.isError, "it was not made");
      await page.waitForFunction(() => document.activeElement.nodeName === "H2");
      assert(await at() === "one", `the focus is at ${await at()}`);
      await tabTo("one", "Allow once");
      await page.waitForFunction(() => !document.activeElement.hasAttribute("aria-disabled"));
      await page.keyboard.press("Enter");
      await answers[0];
      await page.waitForFunction(() => document.activeElement.nodeName === "H1");
    }, page);
  },
  async "what someone else has decided meanwhile is said, and counts"({ page }) {
    await go(page, "#/approvals");
    await withAgent(async (client, call) => {
      let answer = call({ text: "meanwhile" });
      const one = card(page, "meanwhile");
      await one.locator("button:not([aria-disabled])").first().waitFor();
      await page.route("**/api/approvals", (route) => route.abort()); // the page has not heard of it yet
      cli("approvals", "deny", (await queued("meanwhile")).id);
      assert((await answer).value.result.isError, "it was made");
      await one.getByRole("button", { name: "Allow once" }).click();
      await page.getByText(/Error: .*: there is no such approval \(it was used, has expired, or its call was cancelled\)/).waitFor();
      await said(page, "there is no such approval");
      await page.unroute("**/api/approvals");
      await one.waitFor({ state: "detached" });
      // A call that was cancelled disappears, and the focus is somewhere.
      const id = client.start("tools/call", `{"name":"${publish}","arguments":{"text":"withdrawn"}}`);
      const two = card(page, "withdrawn");
      await two.getByRole("button", { name: "Allow once" }).focus();
      client.notify("notifications/cancelled", { requestId: JSON.parse(id) });
      await two.waitFor({ state: "detached" });
      assert(await focused(page) === "Approvals", `the focus is on ${await focused(page)}`);
      page.wrong = page.wrong.filter((text) => !/ERR_FAILED/.test(text));
    }, page);
  },
  async "a click just after the list has changed does nothing"({ page }) {
    await go(page, "#/approvals");
    await withAgent(async (client, call) => {
      const ids = ["harmless", "harmful"].map((text) => client.start("tools/call", `{"name":"${publish}","arguments":{"text":"${text}"}}`));
      const [, two] = [card(page, "harmless"), card(page, "harmful")];
      await two.locator("button:not([aria-disabled])").first().waitFor();
      await page.evaluate(() => { // clicks as soon as the list has changed
        const list = document.querySelector("ul.calls");
        new MutationObserver(() => {
          if (list.children.length === 1) list.querySelector("button.primary")?.click();
        }).observe(list, { childList: true });
      });
      client.notify("notifications/cancelled", { requestId: JSON.parse(ids[0]) });
      await card(page, "harmless").waitFor({ state: "detached" });
      await two.locator("button:not([aria-disabled])").first().waitFor();
      assert((await queued("harmful")).state === "open", "it was decided about");
      await two.getByRole("button", { name: "Deny" }).click();
      await client.answer(ids[1], { timeout: limit });
    }, page);
  },
};
