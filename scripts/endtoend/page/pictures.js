// Makes the pictures of the documentation: node pictures.js BINARY MODULES FOLDER. What they
// show comes from the program. Only what differs from one start to the next is fixed: the
// run is one that was recorded, and the figures of time in the state are set here.

import { copyFileSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { config, demo, dir, end, go, here, launch, open, pictures, run, script, start } from "./harness.js";

// The recorded run, and the moment at which the pictures are made.
const recorded = readFileSync(join(here, "departures.jsonl"), "utf8").trim().split("\n").map((line) => JSON.parse(line));
const began = recorded.find((line) => line.t === "begin" && line.tool === "departures");
const now = new Date(new Date(began.time).getTime() + 95_000);

const figures = { // startTime, latency in ms
  harbour: [38.2, 4.1], weather: [41.7, 4.6], tickets: [212.4, 7.9], archive: [187.3, 12.6],
};

function fix(state) {
  state.version = "0.1.0";
  for (const server of state.servers) {
    const [startTime, latency] = figures[server.name] ?? [];
    if (server.startTime) server.startTime = startTime;
    if (server.check?.report.latency) server.check.report.latency = latency;
    if (server.since) server.since = now.toISOString();
    if (server.check) server.check.at = now.toISOString();
    if (server.restartAt) server.restartAt = new Date(now.getTime() + 7000).toISOString();
    if (server.state === "failed") server.restarts = 3;
  }
  return state;
}

writeFileSync(config, `[store]\ndir = "store"\n${demo("harbour")}${demo("weather")}${script("tickets", "office.js", "tickets", "18")}${script("archive", "office.js", "archive", "7")}`);
for (const line of recorded.filter((one) => one.t === "begin")) {
  const { description, inputSchema, code } = line.definition;
  run("save_tool", { name: line.tool, description, inputSchema, code });
}
mkdirSync(join(dir, "store/logs"), { recursive: true });
copyFileSync(join(here, "departures.jsonl"), join(dir, `store/logs/journal-${began.time.slice(0, 10)}.jsonl`));
writeFileSync(config, `${readFileSync(config, "utf8")}[upstream.printer]\ncommand = "sh"\nargs = ["-c", "echo 'no printer at /dev/usb/lp0' >&2; exit 1"]\n[upstream.mail]\ncommand = "mail-server"\ndisabled = true\n`);

const browser = await launch();
const { child, link } = await start();
try {
  const context = await browser.newContext({ viewport: { width: 1180, height: 800 }, deviceScaleFactor: 1, colorScheme: "light", locale: "en-GB", timezoneId: "UTC" });
  await context.clock.setFixedTime(now);
  await context.route(/\/ui\/api\/(state|check)$/, async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, json: fix(await response.json()) });
  });
  const page = await open(browser, link, { context });
  await page.getByRole("button", { name: "Check all" }).click();
  await page.getByRole("button", { name: "Check all", disabled: false }).waitFor();
  await page.getByText("failed", { exact: true }).waitFor();
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.activeElement.blur());
  const take = async (name, height) => {
    await page.setViewportSize({ width: 1180, height });
    await page.screenshot({ path: join(pictures, name), animations: "disabled" });
  };
  await take("ui.png", 800);
  await go(page, `#/runs/${began.run}`);
  await page.locator(".call").first().waitFor();
  await page.evaluate(() => { document.activeElement.blur(); scrollTo(0, 0); });
  await take("waterfall.png", 700);
} finally {
  child.kill("SIGKILL");
  await browser.close();
  end();
}
