// Checks of how the page looks: widths, zoom, contrast, motion, the order of the keyboard,
// and what axe finds.

import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { asked } from "./approvals.js";
import { assert, axe, binary, env, go, pictures, sizes } from "./harness.js";

export const views = {
  servers: "#/servers", tools: "#/tools", tool: "#/tools/proxied/hostile/hostile__read_page", long: "", office: "#/tools?server=office-of-a-long-name-32-charact",
  saved: "#/saved/departures", runs: "#/runs", approvals: "#/approvals",
};

// everyView shows each view, while a call waits for approval and a decision is remembered.
async function everyView(page, f) {
  const withdraw = await asked();
  try {
    await visit(page, f);
  } finally {
    await withdraw();
  }
}

async function visit(page, f) {
  const id = execFileSync(binary, ["runs", "list", "--tool", "failing", "--json", "--limit", "1"], { env, encoding: "utf8" });
  const long = await page.evaluate(async () => {
    const response = await fetch("api/tools", { headers: { Authorization: `Bearer ${sessionStorage.getItem("mcp-metatool-token")}` } });
    return (await response.json()).tools.find((t) => t.name.includes("a_long_name")).name;
  });
  for (const [name, hash] of Object.entries({ ...views, long: `#/tools/proxied/hostile/${long}`, run: `#/runs/${JSON.parse(id).id}` })) {
    await go(page, hash);
    if (name === "approvals") await page.locator(".cards button:not([aria-disabled])").first().waitFor();
    await f(name);
  }
}

// contrasts returns texts whose contrast with what is behind them is below that of level AA
// of WCAG 2.2 (1.4.3), and fields whose border is (1.4.11).
function contrasts() {
  const parse = (text) => {
    const [r, g, b, a = 1] = text.match(/[\d.]+/g).map(Number);
    return { r, g, b, a };
  };
  const over = (top, under) => ({ r: top.r * top.a + under.r * (1 - top.a), g: top.g * top.a + under.g * (1 - top.a), b: top.b * top.a + under.b * (1 - top.a), a: 1 });
  const behind = (element) => {
    if (!element) return { r: 255, g: 255, b: 255, a: 1 };
    const own = parse(getComputedStyle(element).backgroundColor);
    return own.a === 1 ? own : over(own, behind(element.parentElement));
  };
  const luminance = ({ r, g, b }) => {
    const [x, y, z] = [r, g, b].map((c) => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const ratio = (a, b) => {
    const [low, high] = [luminance(a), luminance(b)].sort((x, y) => x - y);
    return (high + 0.05) / (low + 0.05);
  };
  const found = new Set();
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility() || element.closest(".unseen, .skip, noscript")) continue;
    texts++;
    const style = getComputedStyle(element);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || size >= 18.66 && Number(style.fontWeight) >= 700 ? 3 : 4.5;
    const back = behind(element);
    const got = ratio(over(parse(style.color), back), back);
    if (got < least) found.add(`${got.toFixed(2)} ${element.className || element.nodeName}: ${walker.currentNode.data.trim().slice(0, 40)}`);
  }
  for (const field of document.querySelectorAll("input, select, textarea")) {
    if (!field.checkVisibility() || field.type === "checkbox") continue;
    const got = ratio(parse(getComputedStyle(field).borderTopColor), behind(field.parentElement));
    if (got < 3) found.add(`${got.toFixed(2)} border of ${field.id}`);
    const hint = ratio(parse(getComputedStyle(field, "::placeholder").color), behind(field));
    if (field.placeholder && hint < 4.5) found.add(`${hint.toFixed(2)} placeholder of ${field.id}`);
  }
  for (const bar of document.querySelectorAll(".bar, .share")) {
    const got = ratio(parse(getComputedStyle(bar).backgroundColor), behind(bar.parentElement));
    if (got < 3) found.add(`${got.toFixed(2)} ${bar.className}`);
  }
  return { texts, found: [...found] };
}

// tooWide returns what is wider than the window, if that can be scrolled.
const tooWide = (page) => page.evaluate(() => {
  if (document.scrollingElement.scrollWidth <= innerWidth) return "";
  const found = [...document.querySelectorAll("main *, header *")].filter((e) => e.getBoundingClientRect().right > innerWidth).at(-1);
  return found ? `${found.nodeName} ${found.className}: ${found.textContent.slice(0, 40)}` : "the page";
});

// Widths at which nothing may be cut off: a phone, a desktop window at 200 % (1440 px wide),
// and what WCAG 2.2 (1.4.10) asks for, which is 400 % of 1280 px.
const widths = { phone: sizes.narrow, "zoom of 200 %": { width: 720, height: 450 }, "zoom of 400 %": { width: 320, height: 256 } };

export const checks = {
  async "60 tools and 10 MB of description are shown quickly"({ page }) {
    await go(page, views.office);
    await page.getByText("60 tools of office-of-a-long-name-32-charact").waitFor();
    await go(page, "#/tools/proxied/hostile/hostile__endless");
    await page.locator(".detail h2").getByText("hostile__endless").waitFor();
    const { length, fields } = await page.evaluate(() => ({ length: document.body.textContent.length, fields: document.querySelectorAll(".field").length }));
    assert(length < 300_000 && fields === 1, `${length} characters and ${fields} fields`);
  },
  async "the keyboard reaches everything in the order in which it is shown, and shows where it is"({ page }) {
    await go(page, "#/servers");
    await page.reload();
    await page.getByRole("listitem", { name: "harbour" }).waitFor();
    const order = [];
    for (let i = 0; i < 13; i++) {
      await page.keyboard.press("Tab");
      order.push(await page.evaluate(() => {
        const e = document.activeElement;
        const style = getComputedStyle(e);
        return `${e.getAttribute("aria-label") ?? e.textContent.trim()}${style.outlineStyle === "none" || parseFloat(style.outlineWidth) < 2 ? " (cannot be seen)" : ""}`;
      }));
    }
    const want = ["Skip to the content", "Servers", "Tools", "Saved tools", "Runs", "Approvals", "Check all", "harbour", "Check harbour", "More", "weather", "Check weather", "More"];
    assert(order.join() === want.join(), order.join());
  },
};

for (const [name, viewport] of Object.entries(widths)) {
  checks[`nothing is cut off: ${name}`] = async ({ fresh, link }) => {
    const page = await fresh({ viewport }, link);
    const found = [];
    await everyView(page, async (view) => {
      const wide = await tooWide(page);
      if (wide) found.push(`${view}: ${wide}`);
    });
    assert(found.length === 0, found.join("\n"));
  };
}

for (const colorScheme of ["light", "dark"]) {
  for (const [size, viewport] of Object.entries(sizes)) {
    checks[`axe finds nothing, and contrasts are high enough: ${colorScheme}, ${size}`] = async ({ fresh, link }) => {
      const page = await fresh({ colorScheme, viewport, bypassCSP: true, reducedMotion: "reduce" }, link);
      await page.evaluate(axe);
      const found = [];
      await everyView(page, async (view) => {
        if (pictures) await page.screenshot({ path: join(pictures, `${view}-${colorScheme}-${size}.png`) });
        const { violations } = await page.evaluate(() => globalThis.axe.run({ rules: { "color-contrast": { enabled: false } } })); // it is slower than contrasts
        for (const v of violations) found.push(`${view}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" | ")}`);
        const contrast = await page.evaluate(contrasts);
        assert(contrast.texts > 10, `${view} has ${contrast.texts} texts`);
        for (const one of contrast.found) found.push(`${view}: contrast ${one}`);
      });
      const moving = await page.evaluate(() => [...document.querySelectorAll("*")].filter((e) => { const s = getComputedStyle(e); return !["0s", ""].includes(s.transitionDuration) || s.animationName !== "none"; }).length);
      if (moving > 0) found.push(`${moving} elements move, which is not wanted`);
      assert(found.length === 0, found.join("\n"));
    };
  }
}
