// The page of mcp-metatool ui in Chromium. See scripts/ui.

import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { assert, binary, config, demo, end, env, go, here, launch, open, pictures, run, script, start } from "./harness.js";
import { attack, big } from "./hostile.js";
import { checks as approvals, policy } from "./approvals.js";
import { checks as live } from "./live.js";
import { checks as looks, views } from "./looks.js";

let failures = 0;
const only = process.env.ONLY; // runs the checks whose names contain it

function prepare() {
  writeFileSync(config, `[store]\ndir = "store"\n${demo("harbour")}${demo("weather")}${script("hostile", "hostile.js")}${script("office-of-a-long-name-32-characters".slice(0, 32), "office.js", "office")}${policy}`);
  const code = readFileSync(join(here, "../../../cmd/mcp-metatool/demo/departures.star"), "utf8");
  const departures = { name: "departures", description: "Which ships can leave port today, and when.", inputSchema: { type: "object", required: ["hours_at_sea"], properties: { hours_at_sea: { type: "integer", minimum: 1, default: 6 } } } };
  run("save_tool", { ...departures, code: `# the first version\n${code}` });
  run("save_tool", { ...departures, code });
  run("save_tool", { name: "failing", description: attack, inputSchema: { type: "object" }, code: `print(hostile.read_page({"url": "a", "count": 1}))\nreturn params.missing\n` });
  run("departures", { hours_at_sea: 6 });
  run("failing", {});
  writeFileSync(config, `${readFileSync(config, "utf8")}[upstream.broken]\ncommand = "sh"\nargs = ["-c", "echo the database is missing >&2; exit 3"]\n[upstream.off]\ncommand = "off"\ndisabled = true\n`);
}

const say = (page, text) => page.getByText(text, { exact: false }).first().waitFor();

const read = views.tool;

const checks = {
  async "the token leaves the address and is kept for the tab"({ page, link }) {
    const token = link.split("#token=")[1];
    assert(token.length >= 26 && !page.url().includes(token), `the address is ${page.url()}`);
    assert((await page.context().cookies()).length === 0, "there is a cookie");
    await page.reload();
    await page.getByRole("heading", { name: "Servers" }).waitFor();
  },
  async "another tab without the token shows nothing, and takes one"({ page, link, fresh }) {
    const other = await fresh({}, link.split("#")[0]);
    await other.getByLabel("Token").fill("wrong");
    await other.keyboard.press("Enter");
    await say(other, "This token is not accepted");
    assert(!(await other.textContent("body")).includes("harbour"), "it shows servers");
    await other.getByLabel("Token").fill(link.split("#token=")[1]);
    await other.getByRole("button", { name: "Continue" }).click();
    await other.getByRole("link", { name: "harbour" }).waitFor();
    void page;
  },
  async "servers are asleep until they are checked"({ page }) {
    await page.getByRole("listitem").filter({ hasText: "harbour" }).getByText("asleep").waitFor();
    await page.getByRole("button", { name: "Check all" }).click();
    const harbour = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "harbour" }) });
    await harbour.getByText("ready").waitFor();
    assert(/\d ms\s*latency|latency\s*\d/.test((await harbour.innerText()).replace(/\n/g, " ")), await harbour.innerText());
    const broken = page.getByRole("listitem").filter({ has: page.getByRole("heading", { name: "broken" }) });
    await broken.getByText("exit status 3").first().waitFor();
    await page.getByRole("table").getByText("hostile").waitFor();
  },
  async "the keyboard alone fills a form and calls a tool; numbers keep their digits"({ page }) {
    await go(page, read);
    await page.getByLabel("url").first().focus();
    await page.keyboard.type("https://example.com/a");
    await page.keyboard.press("Tab");
    await page.keyboard.type("many");
    await page.getByRole("button", { name: "Call", exact: true }).focus();
    await page.keyboard.press("Enter");
    await page.getByRole("alert").getByText("is not a whole number").waitFor();
    const invalid = await page.evaluate(() => document.activeElement.getAttribute("aria-invalid"));
    assert(invalid === "true", "the focus is not on the wrong field");
    await page.keyboard.press("Control+A");
    await page.keyboard.type(big);
    await page.keyboard.press("Enter");
    await say(page, "Done after");
    await say(page, `"exact": true`);
  },
  async "arrow keys move between tabs"({ page }) {
    await page.getByRole("tab", { name: "Try it" }).focus();
    await page.keyboard.press("ArrowRight");
    await page.getByRole("tabpanel", { name: "Arguments" }).waitFor();
    await page.keyboard.press("End");
    await page.getByRole("tabpanel", { name: "Definition" }).waitFor();
    await page.keyboard.press("ArrowRight");
    await page.getByRole("tabpanel", { name: "Try it" }).waitFor();
  },
  async "an empty text is sent if it is required, and left out if it is not"({ page }) {
    await go(page, views.office);
    await go(page, read);
    await page.getByLabel("count").first().fill("1");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await say(page, "Done after");
    const given = await page.locator(".result").textContent();
    assert(given.includes(`"url": ""`) && !given.includes(`"within"`), given);
  },
  async "addresses that are not encoded correctly show the page"({ page, link, fresh }) {
    await go(page, "#/tools/proxied/hostile/%E0%A4%A");
    await page.getByRole("heading", { name: "Tools", exact: true }).waitFor();
    await go(page, "#/__proto__/%");
    await page.getByRole("heading", { name: "Servers" }).waitFor();
    const other = await fresh({}, link.replace(/#token=.*/, "#token=%zz"));
    await other.getByLabel("Token").waitFor();
  },
  async "a call that may destroy is made only after a person agrees"({ page }) {
    await go(page, "#/tools/proxied/hostile/hostile__delete_page");
    await page.getByLabel("url").first().fill("a");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    const dialog = page.getByRole("dialog", { name: "Call hostile__delete_page?" });
    await dialog.getByText("it may destroy").waitFor();
    assert(await page.evaluate(() => document.activeElement.textContent) === "Do not call", "the focus is not on the harmless button");
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    assert((await page.locator(".result").innerText()) === "", "it was called");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await dialog.getByRole("button", { name: "Call", exact: true }).click();
    await say(page, "Failed after");
    await say(page, "cannot be deleted");
  },
  async "progress is shown, and a call can be cancelled"({ page }) {
    await go(page, "#/tools/proxied/hostile/hostile__slow");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("progressbar", { name: "Progress" }).waitFor();
    await page.waitForFunction(() => document.querySelector("progress")?.value > 0);
    await page.getByRole("button", { name: "Cancel" }).click();
    await say(page, "cancelled");
  },
  async "pictures are shown, but no SVG"({ page }) {
    await go(page, "#/tools/proxied/hostile/hostile__picture");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByRole("img", { name: "Image in the result" }).waitFor();
    assert(await page.locator(".result img").count() === 1, "there is another image");
  },
  async "saved tools have code, permissions and history"({ page }) {
    await go(page, "#/saved/departures");
    await say(page, "harbour.list_ships");
    await page.getByRole("tab", { name: "Permissions" }).click();
    await page.getByRole("row", { name: /weather\.forecast/ }).getByText("yes").waitFor();
    await page.getByRole("tab", { name: "History" }).click();
    await page.getByText("Now").first().click();
    await page.locator(".removed").getByText("the first version").waitFor();
  },
  async "runs appear while they go on"({ page }) {
    await go(page, "#/runs");
    await page.getByRole("status").getByText("Live").waitFor();
    await page.locator(".runs tbody tr").nth(1).waitFor(); // the list is there
    const before = await page.locator(".runs tbody tr").count();
    const child = spawn(binary, ["run", "departures", "--params", `{"hours_at_sea":2}`, "--log-level", "error"], { env, stdio: "ignore" });
    const ended = new Promise((resolve) => { child.on("exit", resolve); });
    const first = page.locator(".runs tbody tr").first();
    await page.waitForFunction((n) => document.querySelectorAll(".runs tbody tr").length === n + 1, before);
    await first.getByText("running").waitFor();
    await first.getByRole("link").focus();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "departures" }).waitFor();
    assert(await ended === 0, "the run failed");
    await page.locator(".headline").getByText("ok", { exact: true }).waitFor();
    await page.waitForFunction(() => document.querySelectorAll(".call").length === 5);
    await page.locator(".call summary").nth(1).focus();
    await page.keyboard.press("Enter");
    await page.locator(".call[open]").getByText("arguments").waitFor();
  },
  async "a failed run says where"({ page }) {
    await go(page, "#/runs?outcome=error");
    await page.getByRole("link", { name: "failing" }).click();
    await say(page, "at failing:2");
    await page.getByRole("heading", { name: "Error" }).waitFor();
  },
  async "hostile texts stay texts"({ page, views: all }) {
    for (const hash of [...Object.values(all).filter(Boolean), "#/tools/proxied/hostile/hostile__javascript%3Awindow.pwned%3D1", "#/saved/failing"]) {
      await go(page, hash);
      await page.waitForFunction((h) => location.hash === h && document.querySelector("main").children.length > 0, hash);
      const found = await page.evaluate(() => ({
        pwned: window.pwned, scripts: document.scripts.length,
        images: [...document.images].filter((i) => !i.src.endsWith("/icon.svg") && !i.src.startsWith("data:image/png")).length,
        odd: /[\u202a-\u202e\u2066-\u2069\u200b\u0007]/.test(document.title + document.body.innerText),
        addresses: [...document.querySelectorAll("a")].filter((a) => a.protocol !== "http:").length,
      }));
      assert(found.pwned === undefined && found.scripts === 1 && found.images === 0 && found.addresses === 0 && !found.odd, `${hash}: ${JSON.stringify(found)}`);
    }
    await go(page, read);
    await say(page, attack);
    await say(page, "abc\\u{202e}cba\\u{7}\\u{200b}");
    const refused = await page.evaluate(() => {
      try {
        document.body.innerHTML = "<b>x</b>";
        return false;
      } catch {
        return true;
      }
    });
    assert(refused, "HTML can be made of a string");
    page.wrong = page.wrong.filter((text) => !text.includes("TrustedHTML"));
  },
};

Object.assign(checks, approvals, looks, live);
prepare();
if (pictures) mkdirSync(pictures, { recursive: true });
const browser = await launch();
const { child, link, ended } = await start();
try {
  const page = await open(browser, link);
  const opened = [];
  const fresh = async (options, address) => {
    const other = await open(browser, address, options);
    opened.push(other);
    return other;
  };
  checks["the end of the program is shown, and Ctrl-C is no failure"] = async () => {
    child.kill("SIGINT");
    assert(await ended === 0, "another exit code");
    await page.getByRole("status").getByText("Not connected").waitFor();
    page.wrong = page.wrong.filter((text) => !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/.test(text));
  };
  let n = 0;
  console.log(`1..${Object.keys(checks).length}`);
  for (const [name, check] of Object.entries(checks)) {
    n++;
    if (only && !name.includes(only)) continue;
    const began = Date.now();
    try {
      await check({ page, link, fresh, views, browser });
      for (const one of [page, ...opened]) assert(one.wrong.length === 0, `the browser complains: ${one.wrong.join("\n")}`);
      console.log(`ok ${n} - ${name} (${((Date.now() - began) / 1000).toFixed(1)} s)`);
    } catch (error) {
      failures++;
      console.log(`not ok ${n} - ${name}\n${String(error.message).slice(0, 3000).replace(/^/gm, "#   ")}`);
      if (pictures) await page.screenshot({ path: join(pictures, `failed-${n}.png`) }).catch(() => {});
      page.wrong.length = 0;
    }
    for (const one of opened.splice(0)) await one.context().close();
  }
} finally {
  child.kill("SIGKILL");
  await browser.close();
  end();
}
process.exit(failures ? 1 : 0);
