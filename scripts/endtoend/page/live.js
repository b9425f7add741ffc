// Checks of what changes while the page is open: tabs, lists, focus, what is said, and the
// end of the program.

import { spawn } from "node:child_process";
import { chmodSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { freePort } from "../listening.js";
import { assert, binary, dir, env, go, open, run, start } from "./harness.js";

const focused = (page) => page.evaluate(() => {
  const e = document.activeElement;
  return e === document.body ? "body" : e.getAttribute("aria-label") ?? e.id ?? e.textContent;
});

// mark remembers the element of a locator; kept() says whether it is still that one.
const mark = (locator) => locator.evaluate((e) => { e.mine = true; });
const kept = (locator) => locator.evaluate((e) => e.mine === true);

// hurry makes the page look at the state now, instead of after a few seconds.
const hurry = (page) => page.evaluate(() => document.dispatchEvent(new Event("visibilitychange")));

// looks waits until the page has asked for the state n times.
async function looks(page, n) {
  for (let i = 0; i < n; i++) await Promise.all([page.waitForResponse((r) => r.url().endsWith("/api/state")), hurry(page)]);
}

// depart makes a run, and returns a promise of its exit code.
function depart() {
  const child = spawn(binary, ["run", "departures", "--params", `{"hours_at_sea":2}`, "--log-level", "error"], { env, stdio: "ignore" });
  return new Promise((resolve) => { child.on("exit", resolve); });
}

const said = (page, pattern) => page.waitForFunction((p) => new RegExp(p).test(document.getElementById("announcer").textContent), pattern);

export const checks = {
  async "six tabs of one browser work at the same time"({ browser, link }) {
    const context = await browser.newContext();
    try {
      const tabs = [];
      for (let i = 0; i < 6; i++) tabs.push(await open(browser, link, { context }));
      await Promise.all(tabs.map((tab) => go(tab, "#/runs")));
      for (const tab of tabs) await tab.locator(".runs tbody tr").first().waitFor();
      const before = await tabs[0].locator(".runs tbody tr").count();
      assert(await depart() === 0, "the run failed");
      for (const tab of tabs) {
        await tab.waitForFunction((n) => document.querySelectorAll(".runs tbody tr").length > n && !/running/.test(document.querySelector(".runs tbody tr").textContent), before);
        await tab.getByRole("status").getByText("Live").waitFor();
      }
      await tabs[0].close(); // the one that has the stream
      const second = depart();
      await tabs[5].waitForFunction((n) => document.querySelectorAll(".runs tbody tr").length > n + 1, before);
      await second;
    } finally {
      await context.close();
    }
  },
  async "a hidden tab has no stream, and catches up when it is seen again"({ fresh, link }) {
    const page = await fresh({}, link);
    await go(page, "#/runs");
    await page.locator(".runs tbody tr").first().waitFor();
    await page.getByRole("status").getByText("Live").waitFor();
    const before = await page.locator(".runs tbody tr").count();
    const ended = page.waitForEvent("requestfailed", (r) => r.url().endsWith("/api/live"));
    const see = (is) => page.evaluate((visible) => {
      Object.defineProperty(document, "hidden", { configurable: true, get: () => !visible });
      document.dispatchEvent(new Event("visibilitychange"));
    }, is);
    await see(false);
    await ended;
    await depart();
    assert(await page.locator(".runs tbody tr").count() === before, "it still follows the runs");
    await see(true);
    await page.waitForFunction((n) => document.querySelectorAll(".runs tbody tr").length > n, before);
  },
  async "servers refresh and keep the focus and what is open"({ page }) {
    await go(page, "#/servers");
    const harbour = page.getByRole("listitem", { name: "harbour" });
    const button = harbour.getByRole("button", { name: /harbour/ });
    await harbour.getByText("More").click();
    await mark(harbour.locator("details"));
    await button.focus();
    await page.keyboard.press("Enter");
    await said(page, "^harbour answers after [0-9.]+ m?s\\.$");
    assert(await focused(page) === "Check harbour", `the focus is on ${await focused(page)}`);
    await looks(page, 2);
    assert(await focused(page) === "Check harbour" && await kept(harbour.locator("details")) && await harbour.locator("details").evaluate((d) => d.open), "the card was replaced");
    await page.getByRole("button", { name: "Check all" }).focus();
    await page.keyboard.press("Enter");
    await said(page, "^Failed: broken\\.$");
    assert(/Check all/.test(await page.evaluate(() => document.activeElement.textContent)), "the focus is lost");
  },
  async "after a call the focus is on its outcome, and a short sentence is said"({ page }) {
    await go(page, "#/tools/proxied/hostile/hostile__wide");
    await page.getByRole("button", { name: "Call", exact: true }).focus();
    await page.keyboard.press("Enter");
    await said(page, "^Done after [0-9.]+ m?s$");
    // The sentence is said when the result comes, just before the answer to the request ends.
    const onOutcome = () => page.waitForFunction(() => document.activeElement.className.includes("outcome"));
    await onOutcome();
    const found = await page.evaluate(() => ({
      live: document.querySelectorAll(".result[role=status], .result [aria-live]").length,
      wide: document.scrollingElement.scrollWidth - innerWidth,
    }));
    assert(found.live === 0 && found.wide <= 0, JSON.stringify(found));
    await go(page, "#/tools/proxied/hostile/hostile__slow");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.waitForFunction(() => document.querySelector("progress")?.value > 0);
    await page.getByRole("button", { name: "Cancel" }).focus();
    await page.keyboard.press("Enter");
    await said(page, "^Failed after");
    await onOutcome();
  },
  async "tools refresh and keep what was typed"({ page, fresh, link }) {
    await go(page, "#/tools/proxied/hostile/hostile__read_page");
    const field = page.getByLabel("url").first();
    await field.fill("https://example.com/typed");
    await mark(field);
    const other = await fresh({}, link);
    await go(other, "#/tools/proxied/hostile/hostile__grow");
    await other.getByRole("button", { name: "Call", exact: true }).click();
    await other.locator(".outcome").getByText("Done after").waitFor();
    await looks(page, 2);
    await page.getByRole("link", { name: /hostile__grown_/ }).waitFor();
    await page.getByText("This tool has changed since you opened it.").waitFor();
    assert(await kept(field) && await field.inputValue() === "https://example.com/typed" && await field.evaluate((e) => e === document.activeElement), "what was typed is gone");
    await page.getByRole("button", { name: "Show it as it is now" }).click();
    await page.locator(".detail").getByText("It reads differently now.").waitFor();
    assert(await focused(page) !== "body", "the focus is lost");
  },
  async "saved tools refresh"({ page }) {
    await go(page, "#/saved");
    run("save_tool", { name: "later", description: "Saved while the page is open.", inputSchema: { type: "object" }, code: "return 1" });
    await looks(page, 2);
    await page.getByRole("link", { name: /^later/ }).click();
    await page.getByRole("tab", { name: "Schemas" }).click();
    const list = page.getByRole("link", { name: /^departures/ });
    await mark(list);
    run("later", {});
    await looks(page, 2);
    await page.locator(".facts").getByText("1", { exact: true }).waitFor(); // runs
    assert(await page.getByRole("tab", { name: "Schemas" }).getAttribute("aria-selected") === "true" && await kept(list), "it was made anew");
    run("save_tool", { name: "later", description: "Saved again.", inputSchema: { type: "object" }, code: "return 2" });
    await looks(page, 2);
    await page.getByText("This tool has changed since you opened it.").waitFor();
  },
  async "a run that goes on keeps the focus and what is open, and reads no more than it must"({ page }) {
    await go(page, "#/runs");
    await page.locator(".runs tbody tr").first().waitFor();
    const before = await page.locator(".runs tbody tr").count();
    const over = depart();
    await page.waitForFunction((n) => document.querySelectorAll(".runs tbody tr").length > n, before);
    await page.locator(".runs tbody tr").first().getByRole("link").click();
    const first = page.locator(".call").first();
    await first.locator("summary").focus();
    await page.keyboard.press("Enter");
    await first.getByText("arguments").waitFor();
    await mark(first);
    await page.locator(".headline").getByText("ok", { exact: true }).waitFor();
    assert(await over === 0, "the run failed");
    await page.waitForFunction(() => document.querySelectorAll(".call").length === 5);
    assert(await kept(first) && await first.evaluate((d) => d.open && d.contains(document.activeElement)), "the focus is lost, or the call was closed");
    await first.getByRole("region", { name: /of call 1$/ }).nth(1).waitFor(); // the answer
  },
  async "the page says that the program is gone, and comes back by itself"({ fresh, link }) {
    const page = await fresh({}, link);
    await go(page, "#/servers");
    await page.getByRole("status").getByText("Live").waitFor();
    await page.context().setOffline(true);
    await hurry(page);
    await page.getByText("mcp-metatool does not answer.").first().waitFor();
    await page.getByRole("status").getByText("Not connected").waitFor();
    await page.getByRole("heading", { name: "harbour" }).waitFor();
    await page.context().setOffline(false);
    await page.getByRole("button", { name: "Try now" }).click();
    await page.getByRole("status").getByText("Live").waitFor();
    await page.locator("#away p").first().waitFor({ state: "detached" });
    page.wrong = page.wrong.filter((text) => !/ERR_INTERNET/.test(text));
  },
  async "a program that was started again asks for its new token, and nothing is lost"({ browser }) {
    const port = String(await freePort());
    const first = await start("--port", port);
    const page = await open(browser, first.link);
    let second;
    try {
      await go(page, "#/tools/proxied/hostile/hostile__read_page");
      await page.getByLabel("url").first().fill("kept");
      first.child.kill("SIGKILL");
      await first.ended;
      await page.getByText("mcp-metatool does not answer.").first().waitFor();
      second = await start("--port", port);
      await page.getByText("mcp-metatool was started again.").first().waitFor();
      await page.getByLabel("Token").fill(second.link.split("#token=")[1]);
      await page.keyboard.press("Enter");
      await page.getByRole("status").getByText("Live").waitFor();
      await page.locator("#away p").first().waitFor({ state: "detached" });
      assert(await page.getByLabel("url").first().inputValue() === "kept", "what was typed is gone");
      assert(await focused(page) !== "body", "the focus is lost");
      await page.reload();
      await page.getByRole("heading", { level: 1, name: "Tools" }).waitFor();
    } finally {
      for (const one of [first, second]) one?.child.kill("SIGKILL");
      await page.context().close();
    }
  },
  async "--open starts the browser without the token, with a link that is good once"({ browser }) {
    const told = join(dir, "told");
    const browserCommand = join(dir, "bin/xdg-open");
    writeFileSync(browserCommand, `#!/bin/sh\necho "$@" >${told}.part && mv ${told}.part ${told}\n`);
    chmodSync(browserCommand, 0o755);
    const { child, link } = await start("--open");
    const pages = [];
    try {
      let once = "";
      for (let i = 0; i < 400 && !once; i++) {
        try {
          once = readFileSync(told, "utf8").trim();
        } catch {
          await new Promise((resolve) => { setTimeout(resolve, 50); });
        }
      }
      assert(/^http:\/\/127\.0\.0\.1:\d+\/ui\/#code=\w{26}$/.test(once) && !once.includes(link.split("#token=")[1]), `the browser was started with ${once}`);
      const page = await open(browser, once);
      pages.push(page);
      await page.getByRole("heading", { name: "harbour" }).waitFor();
      assert(!page.url().includes("code"), `the address is ${page.url()}`);
      await page.reload();
      await page.getByRole("heading", { name: "harbour" }).waitFor();
      const thief = await open(browser, once);
      pages.push(thief);
      await thief.getByText("This link was used before").waitFor();
      assert(!(await thief.textContent("body")).includes("harbour"), "the link works twice");
      await page.getByLabel("Token").waitFor(); // the first one is blocked too
    } finally {
      child.kill("SIGKILL");
      for (const page of pages) await page.context().close();
    }
  },
};
