// Every link with its figures, worst first; the matrix as a list, to filter and to sort.
import { h, uniqueId } from "../dom";
import { figure, onDemand, ratioCell, type Section } from "../parts";
import type { Link, Report } from "../report";
import { table } from "../table";
import { matches } from "../combobox";
import { bytes, count, digits, NONE, prefixFor, size } from "../units";
import { linkName } from "./matrix";
import { errorList } from "./sites";

interface Row {
  readonly link: Link;
  readonly index: number;
}

export function links(report: Report, showLink: (name: string) => void): Section | null {
  if (report.links.length === 0) return null;
  const rows = report.links
    .map((link, index) => ({ link, index }))
    .sort((a, b) => (a.link.ratio ?? Infinity) - (b.link.ratio ?? Infinity) || b.link.failed - a.link.failed);
  const label = `All ${count(rows.length)} links, worst first`;
  return { id: "links", title: "Links", content: onDemand(label, () => list(report, rows, showLink)) };
}

function list(report: Report, rows: readonly Row[], showLink: (name: string) => void): HTMLElement {
  const prefix = prefixFor(Math.max(...rows.map(({ link }) => Math.max(link.asked_bps ?? 0, link.achieved_bps ?? 0))));
  const unit = `${prefix.letter}b/s`;
  const bps = (value: number | null, path: string) =>
    value === null ? NONE : h("span", { "data-path": path, "data-unit": unit }, digits(value / prefix.factor));
  const name = ({ link }: Row): string => linkName(link);
  const made = table<Row>({
    caption: "Every link over the hold.",
    rows,
    limit: 60,
    className: "links",
    columns: [
      {
        label: "Link",
        sortBy: name,
        cell: (row) =>
          report.series?.links.has(name(row))
            ? h("button", { type: "button", class: "plain", title: `Throughput of ${name(row)}`, on: { click: () => showLink(name(row)) } }, name(row))
            : name(row),
      },
      { label: "asked", unit, numeric: true, sortBy: ({ link }) => link.asked_bps, cell: ({ link, index }) => bps(link.asked_bps, `links[${index}].asked_bps`) },
      { label: "achieved", unit, numeric: true, sortBy: ({ link }) => link.achieved_bps, cell: ({ link, index }) => bps(link.achieved_bps, `links[${index}].achieved_bps`) },
      { label: "%", numeric: true, sortBy: ({ link }) => link.ratio, cell: ({ link, index }) => ratioCell(link.ratio, `links[${index}].ratio`) },
      { label: "file", numeric: true, sortBy: ({ link }) => link.file_bytes, cell: ({ link }) => size(link.file_bytes) },
      { label: "verified", numeric: true, sortBy: ({ link }) => link.verified_bytes, cell: ({ link, index }) => figure(`links[${index}].verified_bytes`, bytes(link.verified_bytes)) },
      { label: "transfers", numeric: true, sortBy: ({ link }) => link.transfers, cell: ({ link, index }) => figure(`links[${index}].transfers`, count(link.transfers)) },
      { label: "failed", numeric: true, sortBy: ({ link }) => link.failed, cell: ({ link, index }) => figure(`links[${index}].failed`, count(link.failed)) },
      { label: "modes", cell: ({ link }) => modes(link) },
      { label: "errors", className: "errors", cell: ({ link }) => errorList(link.errors) },
    ],
  });
  const id = uniqueId("filter");
  const input = h("input", { id, type: "search", placeholder: "RAL QMUL", autocomplete: "off", spellcheck: "false" });
  input.addEventListener("input", () => {
    const kept = new Set(matches(rows.map(name), input.value));
    made.setRows(rows.filter((row) => kept.has(name(row))));
  });
  return h("div", {}, h("p", { class: "filter" }, h("label", { for: id }, "Filter "), input), made.element);
}

function modes(link: Link): string {
  const used = [...link.modes].filter(([, n]) => n > 0);
  const [only] = used;
  if (used.length === 1 && only) return only[0];
  return used.map(([mode, n]) => `${mode} ${count(n)}`).join(", ");
}
