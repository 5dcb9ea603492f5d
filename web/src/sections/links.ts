// The links: the matrix, those that fell furthest short, and on demand every one of them, to filter and to sort.
import { matches } from "../combobox";
import { breakable, h, uniqueId, type Child } from "../dom";
import { figure, levelKey, onDemand, ratioPill, type Section } from "../parts";
import type { Link, Report } from "../report";
import { table, type Column } from "../table";
import { bytes, count, digits, NONE, prefixFor, size } from "../units";
import { linkMatrix, linkName } from "./matrix";
import { errorList } from "./sites";

/** Links named beside the matrix. */
const WORST = 8;

interface Row {
  readonly link: Link;
  readonly index: number;
}

export function links(report: Report, showLink: (name: string) => void): Section | null {
  if (report.links.length === 0) return null;
  const rows = report.links
    .map((link, index) => ({ link, index }))
    .sort((a, b) => (a.link.ratio ?? Infinity) - (b.link.ratio ?? Infinity) || b.link.failed - a.link.failed);
  const matrix = linkMatrix(report, showLink);
  const all = onDemand(`All ${count(rows.length)} links${matrix ? ", worst first" : ""}`, () => list(report, rows, showLink));
  const top = matrix && h("div", { class: "beside" }, matrix, worst(report, rows, showLink));
  return { id: "links", title: "Links", content: [top, matrix && levelKey(), all] };
}

function worst(report: Report, rows: readonly Row[], showLink: (name: string) => void): Child {
  const few = rows.filter(({ link }) => link.ratio !== null).slice(0, WORST);
  if (few.length < 2) return null;
  const columns = columnsOf(report, few, showLink);
  const caption = `The ${few.length} links that fell furthest below their asked rates.`;
  return table<Row>({ caption, rows: few, className: "links", columns: [columns.link, columns.asked, columns.achieved, columns.percent, columns.failed] }).element;
}

function list(report: Report, rows: readonly Row[], showLink: (name: string) => void): HTMLElement {
  const made = table<Row>({
    caption: "Every link over the hold.",
    rows,
    limit: 60,
    className: "links",
    columns: Object.values(columnsOf(report, rows, showLink)),
  });
  const id = uniqueId("filter");
  const input = h("input", { id, type: "search", autocomplete: "off", spellcheck: "false" });
  const names = rows.map(({ link }) => linkName(link));
  input.addEventListener("input", () => {
    const kept = new Set(matches(names, input.value));
    made.setRows(rows.filter(({ link }) => kept.has(linkName(link))));
  });
  return h("div", {}, h("p", { class: "filter" }, h("label", { for: id }, "Only links with "), input), made.element);
}

function columnsOf(report: Report, rows: readonly Row[], showLink: (name: string) => void) {
  const prefix = prefixFor(Math.max(...rows.map(({ link }) => Math.max(link.asked_bps ?? 0, link.achieved_bps ?? 0))));
  const unit = `${prefix.letter}b/s`;
  const bps = (field: "asked_bps" | "achieved_bps"): Omit<Column<Row>, "label"> => ({
    unit,
    numeric: true,
    sortBy: ({ link }) => link[field],
    cell: ({ link, index }) => {
      const value = link[field];
      return value === null ? NONE : h("span", { "data-path": `links[${index}].${field}`, "data-unit": unit }, digits(value / prefix.factor));
    },
  });
  const number = (field: "transfers" | "failed"): Omit<Column<Row>, "label"> => ({
    numeric: true,
    sortBy: ({ link }) => link[field],
    cell: ({ link, index }) => figure(`links[${index}].${field}`, count(link[field])),
  });
  const name = ({ link }: Row): Child =>
    report.series?.links.has(linkName(link))
      ? h("button", { type: "button", class: "plain", title: `Throughput of ${linkName(link)}`, on: { click: () => showLink(linkName(link)) } }, breakable(linkName(link)))
      : breakable(linkName(link));
  return {
    link: { label: "Link", sortBy: ({ link }) => linkName(link), cell: name },
    asked: { label: "asked", ...bps("asked_bps") },
    achieved: { label: "achieved", ...bps("achieved_bps") },
    percent: { label: "%", numeric: true, sortBy: ({ link }) => link.ratio, cell: ({ link, index }) => ratioPill(link.ratio, `links[${index}].ratio`) },
    file: { label: "file size", numeric: true, sortBy: ({ link }) => link.file_bytes, cell: ({ link }) => size(link.file_bytes) },
    verified: { label: "verified", numeric: true, sortBy: ({ link }) => link.verified_bytes, cell: ({ link, index }) => figure(`links[${index}].verified_bytes`, bytes(link.verified_bytes)) },
    transfers: { label: "transfers", ...number("transfers") },
    failed: { label: "failed", ...number("failed") },
    modes: { label: "modes", className: "text", cell: ({ link }) => modes(link) },
    errors: { label: "errors", className: "errors", cell: ({ link }) => errorList(link.errors) },
  } satisfies Record<string, Column<Row>>;
}

function modes(link: Link): string {
  const used = [...link.modes].filter(([, n]) => n > 0);
  const [only] = used;
  if (used.length === 1 && only) return only[0];
  return used.map(([mode, n]) => `${mode} ${count(n)}`).join(", ");
}
