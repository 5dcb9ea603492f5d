// The link matrix: sources down, destinations across, each cell what its link achieved of what was asked. It is a table, so
// it prints, is read aloud, and is walked with the arrow keys. Wide matrices lose the numbers in the cells, not the marks.
import { breakable, h, hidden } from "../dom";
import { mark } from "../parts";
import type { Link, Report } from "../report";
import { level, LEVEL_WORDS, NONE, percentValue, rate, GAP } from "../units";

/** Up to this many columns, cells carry their value. */
const ROOMY = 12;
/** Longer names of columns stand upright. */
const SHORT_NAME = 8;

/** Stands below the matrix until a cell is pointed at. */
const HINT = "A cell leads to its curve; a black corner means failed transfers.";

/** Rates of one link, of a row, or of a column. */
interface Sum {
  asked: number;
  achieved: number;
}

export function linkMatrix(report: Report, showLink: (name: string) => void): HTMLElement | null {
  const asked = report.links.filter((link) => link.ratio !== null);
  if (asked.length === 0) return null;
  const sources = names(asked, "source");
  const destinations = names(asked, "destination");
  const byName = new Map(asked.map((link) => [linkName(link), link]));
  const roomy = destinations.length <= ROOMY;

  const head = h(
    "thead",
    {},
    h(
      "tr",
      {},
      h("th", { scope: "col", class: "corner" }, "from ↓ to →"),
      destinations.map((name) => h("th", { scope: "col", class: "to" }, h("span", {}, name))),
      h("th", { scope: "col", class: "to sum" }, h("span", {}, "all out")),
    ),
  );
  const rows = sources.map((source) => {
    const out: Sum = { asked: 0, achieved: 0 };
    const cells = destinations.map((destination) => {
      const link = byName.get(`${source}→${destination}`);
      if (link) add(out, link);
      return linkCell(link, source === destination, roomy);
    });
    return h("tr", {}, h("th", { scope: "row" }, breakable(source)), cells, sumCell(out, `${source} to all`, roomy));
  });
  const inSums = destinations.map((destination) => {
    const into: Sum = { asked: 0, achieved: 0 };
    for (const link of asked) if (link.destination === destination) add(into, link);
    return sumCell(into, `all to ${destination}`, roomy);
  });
  const foot = h("tfoot", {}, h("tr", { class: "sum" }, h("th", { scope: "row" }, "all in"), inSums, h("td", { class: "blank" })));

  const upright = destinations.some((name) => name.length > SHORT_NAME);
  const kind = `matrix${roomy ? "" : " compact"}${upright || !roomy ? " upright" : ""}`;
  const tip = h("p", { class: "matrix-tip", role: "status" }, HINT);
  const caption = h("caption", { id: "matrix-caption" }, `${asked.length} links: achieved, in percent of the asked rate.`);
  const grid = h("table", { role: "grid", class: kind, "aria-labelledby": "matrix-caption" }, caption, head, h("tbody", {}, rows), foot);
  walk(grid, (cell) => {
    const link = byName.get(cell.dataset["link"] ?? "");
    tip.textContent = link ? describe(link) : HINT;
  });
  const open = (target: EventTarget | null): void => {
    const name = (target as Element | null)?.closest<HTMLElement>("td[data-link]")?.dataset["link"];
    if (name !== undefined) showLink(name);
  };
  grid.addEventListener("click", (event) => open(event.target));
  grid.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      open(event.target);
      event.preventDefault();
    }
  });
  grid.addEventListener("pointerover", (event) => {
    const cell = (event.target as Element).closest<HTMLElement>("td[data-link]");
    const link = cell ? byName.get(cell.dataset["link"] ?? "") : undefined;
    tip.textContent = link ? describe(link) : HINT;
  });
  const region = h("div", { class: "scroll", role: "region", "aria-labelledby": "matrix-caption" }, grid);
  return h("div", { class: "matrix-part" }, region, tip);
}

export const linkName = (link: { readonly source: string; readonly destination: string }): string => `${link.source}→${link.destination}`;

function describe(link: Link): string {
  const ratio = link.ratio === null ? "" : ` (${percentValue(link.ratio)}${GAP}%)`;
  const failed = link.failed === 0 ? "no failures" : `${link.failed} of ${link.transfers} transfers failed`;
  return `${linkName(link)}: ${rate(link.achieved_bps)} of ${rate(link.asked_bps)}${ratio}, ${failed}`;
}

function linkCell(link: Link | undefined, self: boolean, roomy: boolean): HTMLTableCellElement {
  if (!link || link.ratio === null) return h("td", { class: "blank" }, roomy ? (self ? "" : NONE) : "");
  const attributes = { class: "level", "data-level": level(link.ratio), "data-link": linkName(link), tabindex: -1 };
  const corner = link.failed > 0 && h("span", { class: "has-failed", "aria-hidden": "true" });
  return h("td", attributes, ...cellText(link.ratio, roomy), corner, link.failed > 0 && hidden(`, ${link.failed} failed`));
}

function sumCell(sum: Sum, what: string, roomy: boolean): HTMLTableCellElement {
  if (sum.asked === 0) return h("td", { class: "blank" }, NONE);
  const ratio = sum.achieved / sum.asked;
  return h("td", { class: "level sum", "data-level": level(ratio), title: `${what}: ${rate(sum.achieved)} of ${rate(sum.asked)}` }, ...cellText(ratio, roomy));
}

function cellText(ratio: number, roomy: boolean): Node[] {
  const value = percentValue(ratio, 0);
  const text = roomy ? h("span", { class: "value" }, value) : hidden(value);
  return [mark(ratio), text, hidden(` percent (${LEVEL_WORDS[level(ratio)]})`)];
}

function add(sum: Sum, link: Link): void {
  sum.asked += link.asked_bps ?? 0;
  sum.achieved += link.achieved_bps ?? 0;
}

/** In the order of first appearance, which is that of the challenge. */
function names(links: readonly Link[], end: "source" | "destination"): string[] {
  const all = new Set(links.map((link) => link[end]));
  // Rows and columns in one order, so that the diagonal is one.
  const order = [...new Set(links.flatMap((link) => [link.destination, link.source]))];
  return order.filter((name) => all.has(name));
}

/** One cell at a time takes the focus; arrows, Home and End move it. */
function walk(grid: HTMLTableElement, focused: (cell: HTMLElement) => void): void {
  const cells = [...grid.tBodies].flatMap((body) => [...body.rows].map((row) => [...row.cells].filter((cell) => cell.tagName === "TD")));
  const first = cells.flat().find((cell) => cell.dataset["link"] !== undefined);
  if (first) first.tabIndex = 0;
  const focusable = (row: number, column: number): HTMLElement | undefined => {
    const cell = cells[row]?.[column];
    return cell?.dataset["link"] === undefined ? undefined : cell;
  };
  grid.addEventListener("focusin", (event) => {
    const cell = (event.target as Element).closest<HTMLElement>("td[data-link]");
    if (!cell) return;
    grid.querySelector('td[tabindex="0"]')?.setAttribute("tabindex", "-1");
    cell.tabIndex = 0;
    focused(cell);
  });
  grid.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (!step) return;
    const [down = 0, right = 0] = step;
    let row = cells.findIndex((line) => line.includes(event.target as HTMLTableCellElement));
    let column = cells[row]?.indexOf(event.target as HTMLTableCellElement) ?? -1;
    if (row < 0) return;
    event.preventDefault();
    // Over the gaps (the diagonal, pairs that are not asked) to the next link in that direction.
    do {
      row += down;
      column += right;
    } while (cells[row]?.[column] && !focusable(row, column));
    focusable(row, column)?.focus();
  });
}
