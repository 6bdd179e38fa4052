// Opens the dashboard that the admin API serves: versions of the configuration, what is different, and the way back.
// Usage: node versions.mjs FOLDER-OF-MODULES URL TOKEN [FOLDER-OF-PICTURES]. Ends with 0 if all is well; says what is not on standard error.

import { createRequire } from "node:module";

const [modules, url, token, pictures] = process.argv.slice(2);
const require = createRequire(modules + "/");
const { chromium } = require("playwright-core");
const axe = require("axe-core").source;

const problems = [];
const check = (holds, what) => holds || problems.push(what);

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-proxy-server", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"],
});

for (const [width, height] of [[1280, 900], [400, 850]]) {
  const context = await browser.newContext({ viewport: { width, height }, reducedMotion: "reduce", extraHTTPHeaders: { Authorization: "Bearer " + token } });
  const page = await context.newPage();
  page.setDefaultTimeout(20000);
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && !message.text().includes("willReadFrequently") && problems.push("console: " + message.text()));
  page.on("pageerror", (error) => problems.push("page: " + error.message));
  await page.goto(url);
  await page.locator("#live.good").waitFor();
  const rows = page.locator("#versions tbody tr");
  const newest = rows.first();
  await newest.waitFor();
  const before = Number((await newest.locator("th .v").textContent()).trim());
  check((await newest.textContent()).includes("in force"), "the newest version is not in force");
  check((await newest.textContent()).includes("joe"), "nobody made it: " + (await newest.textContent()));
  const oldest = rows.last();
  await oldest.getByRole("button", { name: /^Compare version 1/ }).click();
  const dialog = page.getByRole("dialog");
  await dialog.waitFor();
  check((await dialog.locator("#ask-changes .more").count()) > 0 && (await dialog.locator("#ask-changes .less").count()) > 0, "no difference is shown");
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] }));
  for (const one of violations) problems.push(`${width}: axe: ${one.id}: ${one.nodes.slice(0, 3).map((node) => node.target + " " + node.html.slice(0, 160)).join(" | ")}`);
  if (pictures) await page.screenshot({ path: `${pictures}/compare-${width}.png` });
  await dialog.getByRole("button", { name: "Close" }).click();
  await oldest.getByRole("button", { name: /^Roll back version 1/ }).click();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  check(Number((await newest.locator("th .v").textContent()).trim()) === before, "a dialog that was cancelled changed something");
  await oldest.getByRole("button", { name: /^Roll back version 1/ }).click();
  await dialog.getByRole("button", { name: "Roll back" }).click();
  await page.waitForFunction((wanted) => Number(document.querySelector("#versions tbody th .v").textContent) === wanted, before + 1);
  check((await page.locator("#notice").textContent()).includes(`Version ${before + 1} is in force`), "it is not told: " + (await page.locator("#notice").textContent()));
  const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
  check(wider <= 0, `${width}: the page is ${wider} pixels too wide`);
  if (pictures) await page.screenshot({ path: `${pictures}/versions-${width}.png`, fullPage: true });
  // For the next one to look: what was before.
  await page.evaluate((version) => fetch(`/v1/versions/${version}/rollback`, { method: "POST", headers: { "If-Match": "*" } }), before);
  await context.close();
}

await browser.close();
for (const problem of problems) console.error(problem);
process.exit(problems.length ? 1 : 0);
