// Opens the dashboard in Chromium as a person would: presses every button, looks at every plot, and has axe look at all of it.
// Usage: node dashboard.mjs FOLDER-OF-MODULES URL [FOLDER-OF-PICTURES]. Ends with 0 if all is well; says what is not on standard error.

import { createRequire } from "node:module";

const [modules, url, pictures] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { chromium } = require("playwright-core");
const axe = require("axe-core").source;

const problems = [];
const wrong = (what) => problems.push(what);
const check = (holds, what) => holds || wrong(what);

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
});

async function open(width, height, colorScheme) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme, reducedMotion: "reduce" });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !message.text().includes("willReadFrequently") && wrong("console: " + message.text()));
  page.on("pageerror", (error) => wrong("page: " + error.message));
  page.on("request", (request) => new URL(request.url()).origin === new URL(url).origin || request.url().startsWith("data:") || wrong("it asked for " + request.url()));
  await page.goto(url);
  await page.locator("#live.good").waitFor();
  return page;
}

// How many points of a plot's picture have something in them, and in how many colours.
const drawn = (page, id) => page.locator(`#${id} canvas`).evaluate((canvas) => {
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  const colors = new Map();
  for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 200) {
    const color = data.slice(at, at + 3).join();
    colors.set(color, (colors.get(color) || 0) + 1);
  }
  const colorful = [...colors].filter(([color]) => {
    const [r, g, b] = color.split(",").map(Number);
    return Math.max(r, g, b) - Math.min(r, g, b) > 60;
  });
  return { lines: colorful.reduce((sum, [, count]) => sum + count, 0), all: [...colors.values()].reduce((sum, count) => sum + count, 0) };
});

async function plotsAreDrawn(page, what) {
  for (const id of ["rate-plot", "latency-plot"]) {
    await page.waitForFunction((id) => document.querySelector(`#${id} canvas`), id);
    let seen = { lines: 0 };
    for (let n = 0; n < 40 && seen.lines < 40; n++) {
      seen = await drawn(page, id);
      if (seen.lines < 40) await page.waitForTimeout(250);
    }
    check(seen.lines >= 40 && seen.all > seen.lines, `${what}: ${id} is empty: ${JSON.stringify(seen)}`);
  }
}

async function isAccessible(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  for (const one of violations) wrong(`${what}: axe: ${one.id} (${one.impact}): ${one.nodes.slice(0, 3).map((node) => node.target + " " + node.html.slice(0, 160) + " " + (node.any[0]?.message || "")).join(" | ")}`);
}

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png`, fullPage: true });
}

// ---- the first look ----
let page = await open(1280, 900, "light");
const first = await page.evaluate(() => {
  const paint = performance.getEntriesByName("first-contentful-paint")[0];
  const parts = [...performance.getEntriesByType("navigation"), ...performance.getEntriesByType("resource")].filter((part) => !part.name.includes("status.json"));
  return { paint: paint && paint.startTime, bytes: parts.reduce((sum, part) => sum + part.transferSize, 0), parts: parts.length };
});
// A machine that does other things at the time says little: the least of a few is the page's own.
for (let n = 0; n < 4 && first.paint >= 1000; n++) {
  const again = await open(1280, 900, "light");
  first.paint = await again.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  await again.context().close();
}
check(first.paint < 1000, `the first paint took ${first.paint} ms`);
check(first.bytes > 50000 && first.bytes < 300000, `${first.bytes} bytes in ${first.parts} parts`);

// ---- plots ----
await plotsAreDrawn(page, "all sites");
const choices = await page.locator("#scope option").evaluateAll((all) => all.map((one) => one.value));
check(choices.includes("pool app") && choices.some((one) => one.startsWith("route ")) && choices.some((one) => one.startsWith("site ")), "scopes: " + choices);
await page.locator("#scope").selectOption("pool app");
await plotsAreDrawn(page, "pool app");
check((await page.locator("#latency-plot").getAttribute("aria-label")).includes("pool app: p50 "), "the plot is not told in words");
await page.locator("#sites tbody button").first().click();
check((await page.locator("#scope").inputValue()).startsWith("site "), "a site's name does not lead to its plots");
await page.locator("#scope").selectOption("all");

// ---- endpoints ----
const row = page.locator("#pools details", { has: page.locator(".name", { hasText: /^app$/ }) }).locator("tbody tr").first();
const state = row.locator(".pill");
const press = (name) => row.getByRole("button", { name: new RegExp("^" + name + " ") }).click();
const becomes = async (text) => {
  try {
    await page.waitForFunction(([node, text]) => node.textContent === text, [await state.elementHandle(), text], { timeout: 10000 });
  } catch {
    wrong(`the endpoint is ${await state.textContent()}, not ${text}; ${await page.locator("#notice").textContent()}`);
  }
};
await becomes("up");
check((await row.locator("td").nth(3).textContent()).includes("%"), "no share is shown");
await press("Drain");
await becomes("draining");
await press("Undrain");
await becomes("up");
await press("Disable");
await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
await becomes("up");
await press("Disable");
await page.getByRole("dialog").getByRole("button", { name: "Disable" }).click();
await becomes("disabled");
await press("Enable");
await becomes("up");
const weight = row.locator("td").nth(2);
const weighs = async (wanted) => {
  try {
    await page.waitForFunction(([node, wanted]) => node.firstElementChild.textContent === wanted, [await weight.elementHandle(), wanted], { timeout: 10000 });
  } catch {
    wrong(`the weight is ${await weight.textContent()}, not ${wanted}`);
  }
};
await press("Weight");
await page.locator("#ask-weight").fill("7");
await page.keyboard.press("Enter");
await weighs("7");
await press("Weight");
await page.locator("#ask-reset").click();
await weighs("1");

// ---- requests ----
await page.waitForFunction(() => document.querySelector("#requests tbody").textContent.includes("/held"));
await page.getByRole("tab", { name: /^Failed/ }).click();
await page.waitForFunction(() => document.querySelector("#requests tbody").textContent.includes("/broken"));
check((await page.locator("#requests tbody").textContent()).includes("502"), "a failed request has no status");
await page.keyboard.press("ArrowLeft");
check((await page.locator("[role=tab][aria-selected=true]").textContent()).startsWith("Slowest"), "arrows do not lead to the next tab");
await page.waitForFunction(() => document.querySelectorAll("#requests tbody tr:not(.none-row)").length > 3);
await page.getByRole("tab", { name: /^In flight/ }).click();

// ---- keys, order, filters, pause ----
await page.locator("body").click({ position: { x: 2, y: 2 } });
await page.keyboard.press("p");
check((await page.locator("#live").textContent()) === "paused", "P does not pause");
await page.keyboard.press("p");
await page.locator("#live.good").waitFor();
await page.keyboard.press("/");
await page.keyboard.type("nothing has this name");
await page.waitForFunction(() => document.querySelectorAll("#pools details").length === 0);
await page.locator("#pools-filter").fill("");
await page.waitForFunction(() => document.querySelectorAll("#pools details").length > 1);
await page.locator("#sites thead button", { hasText: "Requests/s" }).click();
check((await page.locator("#sites thead th[aria-sort=descending]").count()) === 1, "a column is not sorted");
await page.locator("body").click({ position: { x: 2, y: 2 } });
await page.keyboard.press("t");
check((await page.locator("#theme").textContent()) === "Theme: light", "T does not change the theme");
await page.locator("#theme").click();
check((await page.evaluate(() => document.documentElement.dataset.theme)) === "dark", "the theme is not dark");
await plotsAreDrawn(page, "dark by choice");
await page.locator("#theme").click();
// All that can be pressed can be reached by the keyboard.
const reached = new Set();
await page.locator("body").click({ position: { x: 2, y: 2 } });
for (let n = 0; n < 200; n++) {
  await page.keyboard.press("Tab");
  const at = await page.evaluate(() => { const a = document.activeElement; return a === document.body ? null : (a.getAttribute("aria-label") || a.id || a.textContent).trim(); });
  if (at === null && n > 5) break;
  reached.add(at);
}
for (const wanted of ["scope", "pause", "theme", "pools-filter", "sites-filter"]) check(reached.has(wanted), `${wanted} cannot be reached by Tab`);
check([...reached].some((one) => one?.startsWith("Drain ")), "no Drain button can be reached by Tab: " + [...reached].join("; "));

await isAccessible(page, "light, 1280");
await page.evaluate(() => scrollTo(0, 0));
await picture(page, "light-1280");
await page.context().close();

// ---- other eyes ----
for (const [width, height, scheme] of [[1280, 900, "dark"], [400, 850, "light"], [400, 850, "dark"]]) {
  page = await open(width, height, scheme);
  const what = `${scheme}, ${width}`;
  await plotsAreDrawn(page, what);
  // A pool's latency has what a second look brought.
  await page.waitForFunction(() => /[0-9]/.test(document.querySelector("#pools .figure b").textContent));
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(wider <= 0, `${what}: the page is ${wider} pixels too wide`);
  const cut = await page.evaluate(() => [...document.querySelectorAll(".tiles dd, .pool summary .figure, .legend span")].filter((node) => { const box = node.getBoundingClientRect(); return box.right > innerWidth + 1 || node.scrollWidth > node.clientWidth + 1 && node.clientWidth; }).map((node) => node.textContent));
  check(!cut.length, `${what}: cut off: ${cut}`);
  await isAccessible(page, what);
  if (pictures) await page.waitForTimeout(8000);
  await picture(page, `${scheme}-${width}`);
  await page.context().close();
}

await browser.close();
for (const problem of problems) console.error(problem);
console.log(JSON.stringify({ ...first, problems: problems.length }));
process.exit(problems.length ? 1 : 0);
