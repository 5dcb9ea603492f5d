// What each site took in and gave out, expected and achieved, in the layout that the sites' own reports use.
import type { Child } from "../dom";
import { h } from "../dom";
import { note } from "../methods";
import { figure, levelKey, ratioCell, type Section } from "../parts";
import type { Report, Site } from "../report";
import { table, type Column } from "../table";
import { count, digits, NONE, prefixFor, rate, THIN } from "../units";

interface Row {
  readonly site: Site;
  readonly index: number;
}

export function sites(report: Report, showSite: (name: string) => void): Section | null {
  if (report.sites.length === 0) return null;
  const rows = report.sites.map((site, index) => ({ site, index }));
  const highest = Math.max(
    ...report.sites.flatMap((site) => [site.asked_bps, site.achieved_bps, site.egress?.asked_bps, site.egress?.achieved_bps].map((bps) => bps ?? 0)),
  );
  const prefix = prefixFor(highest);
  const unit = `${prefix.letter}b/s`;
  const bps = (value: number | null | undefined, path: string): Child =>
    value === null || value === undefined ? NONE : h("span", { "data-path": path, "data-unit": unit }, digits(value / prefix.factor));

  const columns: Column<Row>[] = [
    { label: "Site", cell: ({ site }) => siteName(site.site, report, showSite), sortBy: ({ site }) => site.site },
    { group: "In", label: "expected", unit, numeric: true, cell: ({ site, index }) => bps(site.asked_bps, `sites[${index}].asked_bps`), sortBy: ({ site }) => site.asked_bps },
    { group: "In", label: "achieved", unit, numeric: true, cell: ({ site, index }) => bps(site.achieved_bps, `sites[${index}].achieved_bps`), sortBy: ({ site }) => site.achieved_bps },
    { group: "In", label: "% in", numeric: true, cell: ({ site, index }) => ratioCell(site.ratio, `sites[${index}].ratio`), sortBy: ({ site }) => site.ratio },
    { group: "Out", label: "expected", unit, numeric: true, cell: ({ site, index }) => bps(site.egress?.asked_bps, `sites[${index}].egress.asked_bps`), sortBy: ({ site }) => site.egress?.asked_bps ?? null },
    { group: "Out", label: "achieved", unit, numeric: true, cell: ({ site, index }) => bps(site.egress?.achieved_bps, `sites[${index}].egress.achieved_bps`), sortBy: ({ site }) => site.egress?.achieved_bps ?? null },
    { group: "Out", label: "% out", numeric: true, cell: ({ site, index }) => ratioCell(site.egress?.ratio ?? null, `sites[${index}].egress.ratio`), sortBy: ({ site }) => site.egress?.ratio ?? null },
    { group: "Transfers in", label: "all", numeric: true, cell: ({ site, index }) => figure(`sites[${index}].transfers`, count(site.transfers)), sortBy: ({ site }) => site.transfers },
    { group: "Transfers in", label: "failed", numeric: true, cell: ({ site, index }) => figure(`sites[${index}].failed`, count(site.failed)), sortBy: ({ site }) => site.failed },
    { group: "Transfers in", label: "errors", className: "errors", cell: ({ site }) => errorList(site.errors) },
  ];
  const made = table({
    caption: ["Every site over the hold, in and out", note("achieved"), "."],
    columns,
    rows,
    className: "sites",
    ...(report.sites.length > 1 ? { footer: totalRow(report, prefix.factor) } : {}),
  });
  return { id: "sites", title: "Sites", content: [made.element, levelKey()] };
}

/** The name; with a curve behind it where there is one. */
function siteName(name: string, report: Report, showSite: (name: string) => void): Child {
  if (!report.series?.sites.has(name)) return name;
  return h("button", { type: "button", class: "plain", title: `Throughput into ${name}`, on: { click: () => showSite(name) } }, name);
}

/** Error classes with their counts: `checksum 3, stall 1`. */
export function errorList(errors: Site["errors"]): Child {
  if (errors.length === 0) return h("span", { class: "none" }, NONE);
  return errors.map((error, index) => [index > 0 ? ", " : "", h("span", { title: error.sample ?? "" }, `${error.class}${THIN}×${THIN}${count(error.count)}`)]);
}

function totalRow(report: Report, factor: number): HTMLTableSectionElement {
  const { totals } = report;
  const cell = (value: number | null): HTMLElement => h("td", { class: "num" }, value === null ? NONE : digits(value / factor));
  const ratio = (): HTMLElement => {
    const { content, attributes } = ratioCell(totals.ratio, "totals.ratio");
    return h("td", { ...attributes, class: `num ${attributes["class"] ?? ""}` }, content);
  };
  return h(
    "tfoot",
    {},
    h(
      "tr",
      { title: `All sites: ${rate(totals.achieved_bps)} of ${rate(totals.asked_bps)}` },
      h("th", { scope: "row" }, "All"),
      cell(totals.asked_bps),
      cell(totals.achieved_bps),
      ratio(),
      cell(totals.asked_bps),
      cell(totals.achieved_bps),
      ratio(),
      h("td", { class: "num" }, count(totals.transfers)),
      h("td", { class: "num" }, count(totals.failed)),
      h("td", {}),
    ),
  );
}
