// Opens a report as a reader does and compares what it shows with report.json.
//
//   node test/browser.mjs REPORT_DIR [--screenshots DIR]    checks REPORT_DIR/report.html against REPORT_DIR/report.json
//   node test/browser.mjs PAGE.html [--screenshots DIR]     checks a comparison of policies against the data in the page
//   node test/browser.mjs [--screenshots DIR]               checks generated reports and comparisons, and the page without data
//
// The browser is /usr/bin/chromium, or what CHROMIUM names.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join, resolve } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { chromium } from "playwright-core";
import { disagreement, read } from "./browser/figures.mjs";
import { figuresOnPage, overflowing, poorContrast, structureProblems } from "./browser/inspect.mjs";
import { writeComparisons, writeFixtures } from "./fixtures.mjs";

const TEMPLATE = join(dirname(fileURLToPath(import.meta.url)), "..", "dist", "report.html");
const DESKTOP = { width: 1360, height: 1150 };
const PHONE = { width: 360, height: 740 };
/** A4 less its margins, at 96 dots per inch. */
const PAPER = { width: 703, height: 1000 };
/** Milliseconds that a busy machine may take over one step; nothing waits this long unless it is broken. */
const PATIENCE = 120_000;
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

const plain = (text) => text.replaceAll("\u00a0", " ").replace(/\s+/g, " ").trim();

/** A page that notes whatever it must not do. */
async function openPage(browser, file) {
  const context = await browser.newContext({ viewport: DESKTOP, offline: true, colorScheme: "light" });
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const wrong = [];
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && wrong.push(`console ${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => wrong.push(`uncaught: ${error.stack ?? error.message}`));
  const url = pathToFileURL(file).href;
  page.on("request", (request) => {
    const target = request.url();
    if (target.split("#")[0] !== url && !/^(data|blob):/.test(target)) wrong.push(`request: ${target}`);
  });
  page.on("dialog", (dialog) => wrong.push(`dialog: ${dialog.message()}`));
  await page.goto(url);
  return { page, context, finish: async () => (assert.deepEqual(wrong, [], "console errors or requests"), context.close()) };
}

async function checkVerdict(page, report) {
  const word = { pass: "Pass", none: "No verdict", fail: "Fail", unstable: "Unstable" }[report.verdict];
  assert.match(plain(await page.locator(".verdict .word").innerText()), new RegExp(`${word}$`), "the verdict's word");
  assert.equal(await page.locator(".verdict").getAttribute("data-verdict"), report.verdict);
  const reasons = await page.locator(".verdict .why li").allTextContents();
  assert.deepEqual(reasons.map(plain), report.verdict_reasons.map(plain), "the reasons");
  assert.equal(plain(await page.locator("h1").innerText()), plain(report.challenge));
}

async function checkFigures(page, report) {
  const figures = await page.evaluate(figuresOnPage);
  const wrong = figures.map((figure) => disagreement(report, figure)).filter((text) => text !== null);
  assert.deepEqual(wrong, [], "figures that differ from report.json");
  const shown = new Set(figures.map((figure) => figure.path));
  const { totals } = report;
  const wanted = ["totals.verified_bytes", "totals.transfers", "totals.failed"];
  if (totals.achieved_bps !== null) wanted.push("totals.achieved_bps");
  if (totals.asked_bps) wanted.push("totals.asked_bps", "totals.ratio", "totals.asked_bytes");
  if (totals.efficiency !== null) wanted.push("totals.efficiency");
  report.sites.forEach((site, index) => {
    wanted.push(`sites[${index}].transfers`, `sites[${index}].failed`);
    // Where rates are asked of others, and none of this site, it has none.
    if (site.achieved_bps !== null) wanted.push(`sites[${index}].achieved_bps`);
    if (site.ratio !== null) wanted.push(`sites[${index}].ratio`, `sites[${index}].asked_bps`);
    if (site.egress?.ratio) wanted.push(`sites[${index}].egress.ratio`, `sites[${index}].egress.achieved_bps`);
  });
  report.errors.forEach((_, index) => wanted.push(`errors[${index}].count`));
  assert.deepEqual(wanted.filter((path) => !shown.has(path)), [], "figures that are not on the page");
  // What was not asked was not achieved: copies one after the other have a mean that says nothing of their rates.
  const tiles = await page.locator("dl.figures dt").allTextContents();
  const has = (label) => tiles.some((text) => plain(text).startsWith(label));
  const achieved = totals.achieved_bps !== null;
  const asked = Boolean(totals.asked_bps);
  assert.deepEqual([has("Achieved"), has("Mean over the hold")], [achieved && asked, achieved && !asked], `tiles: ${tiles}`);
  return figures.length;
}

/** Each button goes when it is pressed. */
/** Charts follow the window a moment after it has changed; nothing may stick out then. */
async function fits(page, what) {
  for (const end = Date.now() + PATIENCE / 10; ; await page.waitForTimeout(50)) {
    const found = await page.evaluate(overflowing);
    if (found.length === 0) return;
    assert.ok(Date.now() < end, `${what}: ${found.join("; ")}`);
  }
}

async function showAll(buttons) {
  while ((await buttons.count()) > 0) await buttons.first().click();
}

async function checkTables(page, report) {
  await showAll(page.locator("#thresholds .more button, #crosschecks .more button"));
  const ticks = async (table) => (await page.locator(`${table} tbody .tick`).allInnerTexts()).filter((text) => text.includes("✗")).length;
  assert.equal(await page.locator("#thresholds tbody tr").count(), report.thresholds.length, "rows of thresholds");
  if (report.thresholds.length > 0) assert.equal(await ticks("table.thresholds"), report.thresholds.filter((t) => !t.pass).length, "crosses at thresholds");
  assert.equal(await page.locator("table.crosschecks tbody tr").count(), report.crosschecks.length, "rows of cross-checks");
  if (report.crosschecks.length > 0) assert.equal(await ticks("table.crosschecks"), report.crosschecks.filter((c) => c.pass === false).length, "crosses at cross-checks");
  assert.equal(await page.locator("table.errors tbody tr").count(), report.errors.length, "rows of errors");
  const samples = plain((await page.locator("table.errors").allTextContents()).join(" "));
  for (const error of report.errors) assert.ok(samples.includes(plain(error.sample)), `the sample of ${error.class} is not shown in full`);
  const command = report.command ? await page.locator("#again pre").innerText() : null;
  if (command !== null) assert.equal(command, report.command, "the command that runs it again");
  const cells = report.workloads.flatMap((workload) => workload.cells ?? []);
  assert.equal(await page.locator("table.copies td li").count(), cells.length, "cells of copy matrices");
  assert.equal(await page.locator("table.copies td li.failed").count(), cells.filter((cell) => !cell.ok).length, "failed cells of copy matrices");
}

async function checkLinks(page, report) {
  const rated = report.links.filter((link) => link.ratio !== null);
  const cells = await page.locator("table.matrix td[data-link]").evaluateAll((all) => all.map((cell) => [cell.dataset.link, Number(cell.dataset.level)]));
  const level = (ratio) => (ratio >= 0.9 ? 3 : ratio >= 0.7 ? 2 : ratio >= 0.5 ? 1 : 0);
  assert.deepEqual(new Map(cells), new Map(rated.map((link) => [`${link.source}→${link.destination}`, level(link.ratio)])), "cells of the link matrix");
  if (report.links.length === 0) return;
  await page.locator("#links details.data > summary").click();
  const all = page.locator("#links details.data");
  await all.locator("table").waitFor();
  await showAll(all.locator(".more button"));
  assert.equal(await all.locator("tbody tr").count(), report.links.length, "rows of links");
  await checkFigures(page, report);
  const { source, destination } = report.links[0];
  await all.locator("input[type=search]").fill(`${source} ${destination}`);
  assert.ok((await all.locator("tbody th").allInnerTexts()).includes(`${source}→${destination}`), "the filter loses a link");
  await all.locator("input[type=search]").fill("");
  await page.locator("#links details.data > summary").click();
}

/** The curve shown, as its table, against the series in the report. */
async function checkCurve(page, series, of) {
  assert.ok((await page.locator("#throughput-chart svg path").count()) > 0, "the chart is empty");
  const details = page.locator("#throughput details.data", { hasText: "These curves" });
  await details.locator("summary").click();
  await details.locator("table").waitFor();
  const rows = await details.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].at(-1).textContent));
  const by = Math.max(1, Math.ceil(series.n_bins / 240));
  assert.equal(rows.length, Math.ceil(series.n_bins / by), "rows of the curve's table");
  rows.forEach((text, index) => {
    const known = (of.achieved_bps ?? []).slice(index * by, (index + 1) * by).filter((value) => value !== null);
    const shown = read(text);
    if (known.length === 0) return assert.equal(shown, null, `bin ${index}: no data, yet "${text}" is shown`);
    const mean = known.reduce((sum, value) => sum + value, 0) / known.length;
    return assert.ok(shown !== null && Math.abs(shown.value - mean) <= shown.slack * 1.001 + 1e-6, `bin ${index}: "${text}" is shown, the series has ${mean}`);
  });
  await details.locator("summary").click();
}

async function checkThroughput(page, report, shoot) {
  const { series } = report;
  if (!series || series.n_bins === 0) return;
  await checkCurve(page, series, series.total);
  const views = page.locator("#throughput .segmented");
  const view = (name) => views.locator("label", { hasText: name });
  const title = () => page.locator("#throughput-title").innerText();
  if (Object.keys(series.sites).length > 1) {
    await view("Sites, stacked").click();
    assert.ok((await page.locator("#throughput-chart svg path").count()) > 1, "the stack is empty");
    await shoot("stacked", page.locator("#throughput"));
  }
  const site = Object.keys(series.sites).at(-1);
  if (site !== undefined) {
    await view("One site").click();
    await choose(page, "Site", site);
    assert.equal(await title(), `Into ${site}`);
    await checkCurve(page, series, series.sites[site]);
  }
  const link = Object.keys(series.links).at(-1);
  if (link !== undefined) {
    await view("One link").click();
    await choose(page, "Link", link);
    assert.equal(await title(), link);
    await checkCurve(page, series, series.links[link]);
    await checkMatrixKeys(page, report, title);
  }
  await view("Total").click();
}

/** The states of each link: a lane each, the chart of the one that is clicked, and its table against the report. */
async function checkWaits(page, report, shoot) {
  const sums = (report.signals ?? []).map((link) => ({ link, sum: link.waits.reduce((total, wait) => total + wait.total_s, 0) }));
  const known = sums.filter(({ sum }) => sum > 0).sort((a, b) => b.sum - a.sum);
  const section = page.locator("#waits");
  if (known.length === 0) return assert.equal(await section.count(), 0, "waits are shown of which nothing is known");
  const lanes = section.locator(":scope > .lanes > li, :scope > div > .lanes > li");
  assert.equal(await lanes.count(), Math.min(known.length, 8), "lanes");
  assert.ok((await section.locator("#waits-chart svg path").count()) > 0, "the chart of waits is empty");
  const { link } = known.at(Math.min(known.length, 8) - 1);
  const name = `${link.source}→${link.destination}`;
  await lanes.last().locator("button").click();
  assert.ok((await section.locator("#waits-title").innerText()).startsWith(`${name}:`), "another link is shown");
  const details = section.locator("details.data", { hasText: "States and places" });
  await details.locator("summary").click();
  await details.locator("table").waitFor();
  const rows = await details.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  const told = link.waits.filter((wait) => wait.total_s > 0);
  assert.equal(rows.length, told.length, "rows of states");
  rows.forEach(([, state, , seconds], index) => {
    assert.equal(state, told[index].wait);
    const shown = read(seconds);
    assert.ok(Math.abs(shown.value - told[index].total_s) <= shown.slack * 1.001, `${state}: "${seconds}" is shown, the report has ${told[index].total_s}`);
  });
  const missing = ["catalogue", "queue", "begin", "data", "end"].filter((phase) => !link.known.includes(phase));
  const hint = section.locator(".hint", { hasText: "Not measured" });
  assert.equal(await hint.count(), missing.length > 0 ? 1 : 0, "phases that were not measured");
  await shoot("waits", section);
}

/** The gauges: a row each, with the mean that the report has. */
async function checkGauges(page, report, shoot) {
  const told = (report.gauges ?? []).filter((series) => series.values.some((value) => value !== null));
  const section = page.locator("#gauges");
  if (told.length === 0) return assert.equal(await section.count(), 0, "gauges are shown that nobody told");
  const rows = await section.locator("tbody tr").evaluateAll((all) => all.map((row) => [...row.cells].map((cell) => cell.textContent)));
  assert.ok(rows.length >= Math.min(told.length, 30), "rows of gauges");
  rows.forEach(([gauge, place, mean], index) => {
    assert.deepEqual([gauge, place], [told[index].gauge, told[index].place]);
    if (told[index].unit !== "s") return;
    const values = told[index].values.filter((value) => value !== null);
    const right = values.reduce((sum, value) => sum + value, 0) / values.length;
    assert.ok(Math.abs(Number.parseFloat(mean) - right) <= 0.006 * right, `${gauge}: "${mean}" is shown, the report has ${right}`);
  });
  await shoot("gauges", section);
}

async function choose(page, label, name) {
  const field = page.getByRole("combobox", { name: label, exact: true });
  await field.fill(name.replace("→", " "));
  await page.getByRole("option", { name, exact: true }).click();
}

/** The matrix by keyboard: one stop, arrows inside it, Enter shows the curve. */
async function checkMatrixKeys(page, report, title) {
  const first = page.locator('table.matrix td[tabindex="0"]');
  if ((await first.count()) === 0) return;
  await first.focus();
  const before = await first.getAttribute("data-link");
  await page.keyboard.press("ArrowDown");
  const link = await page.evaluate(() => document.activeElement?.getAttribute("data-link"));
  if (report.links.length > 2) assert.notEqual(link, before, "the arrow keys do not move in the matrix");
  await page.keyboard.press("Enter");
  if (report.series.links[link]) assert.equal(await title(), link);
}

/** Light, dark, phone and paper, one after the other on the same page, as a reader may change them. */
async function checkLooks(page, shoot, pdf) {
  const theme = (name) => page.waitForFunction((wanted) => document.documentElement.dataset.theme === wanted, name);
  for (const [scheme, picture] of [
    ["light", "desktop"],
    ["dark", "dark"],
  ]) {
    await page.emulateMedia({ colorScheme: scheme });
    await theme(scheme);
    assert.deepEqual(await page.evaluate(poorContrast), [], `contrast, ${scheme}`);
    await shoot(picture, page);
  }
  await page.locator(".theme label", { hasText: "Light" }).click();
  await theme("light");
  await page.locator(".theme label", { hasText: "Auto" }).click();
  await theme("dark");

  await page.setViewportSize(PAPER);
  await page.emulateMedia({ media: "print" });
  await theme("light");
  assert.equal(await page.locator("nav.contents").isVisible(), false, "the contents are printed");
  assert.deepEqual(await page.evaluate(poorContrast), [], "contrast on paper");
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= PAPER.width, "the page is wider than the paper");
  await shoot("print", page);
  if (pdf) await page.pdf({ path: pdf, preferCSSPageSize: true });
  await page.emulateMedia({ media: "screen", colorScheme: "light" });

  await page.setViewportSize(PHONE);
  await theme("light");
  await fits(page, "360 px");
  await shoot("phone", page);
  await page.setViewportSize(DESKTOP);
}

async function checkReport(browser, folder, screenshots) {
  const name = basename(resolve(folder));
  const report = JSON.parse(readFileSync(join(folder, "report.json"), "utf8"));
  const shoot = async (what, of) => {
    const path = screenshots && join(screenshots, `${name}-${what}.png`);
    if (path) await of.screenshot({ path, ...("goto" in of && what !== "top" ? { fullPage: true } : {}) });
  };
  const { page, finish } = await openPage(browser, join(resolve(folder), "report.html"));
  await shoot("top", page);
  await checkVerdict(page, report);
  const n = await checkFigures(page, report);
  await checkLooks(page, shoot, screenshots && join(screenshots, `${name}.pdf`));
  await checkTables(page, report);
  await checkLinks(page, report);
  await checkThroughput(page, report, shoot);
  await checkWaits(page, report, shoot);
  await checkGauges(page, report, shoot);
  for (const summary of await page.locator("details:not([open]) > summary").all()) if (await summary.isVisible()) await summary.click();
  assert.deepEqual(await page.evaluate(structureProblems), [], "structure");
  await page.setViewportSize(PHONE);
  await fits(page, "360 px with everything open");
  assert.equal(await page.locator("main img, main script, main iframe").count(), 0, "text of the report was read as HTML");
  assert.notEqual(await page.title(), "owned", "text of the report was run");
  await finish();
  console.log(`ok ${name}: ${report.verdict}, ${n} figures agree with report.json`);
}

/** A comparison: what each policy brings, in columns that agree with the data in the page. */
async function checkComparison(browser, file, screenshots) {
  const { page, finish } = await openPage(browser, resolve(file));
  const data = JSON.parse(await page.locator("#weir-report").textContent());
  const name = basename(file, ".html");
  const shoot = async (what, of) => {
    if (screenshots) await of.screenshot({ path: join(screenshots, `${name}-${what}.png`), fullPage: true });
  };
  assert.equal(plain(await page.locator("h1").innerText()), plain(data.challenge));
  assert.ok(plain(await page.locator("main").innerText()).includes(plain(data.situation)), "what is asked and possible");
  const figures = await page.evaluate(figuresOnPage);
  assert.deepEqual(figures.map((figure) => disagreement(data, figure)).filter((text) => text !== null), [], "figures that differ from the data");
  const shown = new Set(figures.map((figure) => figure.path));
  const wanted = data.policies.flatMap((_, at) => [`policies[${at}].totals.achieved_bps`, `policies[${at}].of_optimum`, `policies[${at}].totals.failed`]);
  assert.deepEqual(wanted.filter((path) => !shown.has(path)), [], "figures that are not on the page");
  assert.ok((await page.locator("#course-chart svg path").count()) >= data.policies.length, "a line per policy");
  await checkLooks(page, shoot, screenshots && join(screenshots, `${name}.pdf`));
  await showAll(page.locator("#sites .more button"));
  if (data.asked_bps > 0) assert.equal(await page.locator("table.sites tbody tr").count(), data.sites.length, "rows of sites");
  for (const summary of await page.locator("details:not([open]) > summary").all()) if (await summary.isVisible()) await summary.click();
  assert.equal(await page.locator("#again pre").innerText(), data.command, "the command that compares again");
  assert.deepEqual(await page.evaluate(structureProblems), [], "structure");
  await page.setViewportSize({ width: 400, height: 740 });
  await fits(page, "400 px with everything open");
  assert.equal(await page.locator("main img, main script, main iframe, main b, main i").count(), 0, "text of the data was read as HTML");
  await finish();
  console.log(`ok ${name}: ${figures.length} figures agree with the data`);
}

/** The page without data: it asks for a file, shows it, and says what is wrong with a bad one. */
async function checkOpener(browser, folder, screenshots) {
  const { page, finish } = await openPage(browser, TEMPLATE);
  const give = (text) => page.setInputFiles("#report-file", { name: "report.json", mimeType: "application/json", buffer: Buffer.from(text) });
  assert.match(await page.locator(".opener").innerText(), /Open a report\.json/);
  if (screenshots) await page.screenshot({ path: join(screenshots, "opener.png") });
  const complaint = page.locator(".complaint");
  await give("{");
  await complaint.waitFor();
  assert.match(await complaint.innerText(), /not JSON/);
  await give('{"schema":"weir-report/2"}');
  await page.waitForFunction(() => document.querySelector(".complaint")?.textContent.includes("weir-report/2"));
  const good = JSON.parse(readFileSync(join(folder, "report.json"), "utf8"));
  await give(JSON.stringify({ ...good, totals: { ...good.totals, transfers: "many" } }));
  await page.waitForFunction(() => document.querySelector(".complaint")?.textContent.includes("totals.transfers"));
  await give(JSON.stringify(good));
  await page.locator(".verdict").waitFor();
  await checkVerdict(page, good);
  await finish();
  console.log("ok page without data");
}

const args = process.argv.slice(2);
const at = args.indexOf("--screenshots");
const screenshots = at < 0 ? null : resolve(args.splice(at, 2)[1] ?? "screenshots");
if (screenshots) mkdirSync(screenshots, { recursive: true });
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: FLAGS });
const scratch = mkdtempSync(join(tmpdir(), "weir-web-"));
try {
  if (args.length > 0) {
    for (const path of args) await (path.endsWith(".html") ? checkComparison : checkReport)(browser, path, screenshots);
  } else {
    const folders = writeFixtures(scratch);
    for (const folder of folders) await checkReport(browser, folder, screenshots);
    for (const page of writeComparisons(scratch)) await checkComparison(browser, page, screenshots);
    await checkOpener(browser, folders[0], screenshots);
  }
} finally {
  await browser.close();
  rmSync(scratch, { recursive: true, force: true });
}
