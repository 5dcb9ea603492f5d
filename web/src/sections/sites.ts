// What each site took in and gave out, expected and achieved, in the layout that the sites' own reports use.
import { breakable, h, type Child } from "../dom";
import { note } from "../methods";
import { figure, levelKey, ratioPill, type Section } from "../parts";
import type { Rate, Report, Site } from "../report";
import { table, type Column } from "../table";
import { count, digits, GAP, NONE, prefixFor } from "../units";

interface Row {
  readonly site: Site;
  readonly index: number;
}

export function sites(report: Report, showSite: (name: string) => void): Section | null {
  if (report.sites.length === 0) return null;
  const rows = report.sites.map((site, index) => ({ site, index }));
  const rates = report.sites.flatMap((site) => [site.asked_bps, site.achieved_bps, site.egress?.asked_bps, site.egress?.achieved_bps]);
  const prefix = prefixFor(Math.max(...rates.map((bps) => bps ?? 0)));
  // Where nothing was asked of a rate, there is nothing to compare with.
  const asked = rows.some(({ site }) => site.ratio !== null || (site.egress?.ratio ?? null) !== null);
  const side = (group: string, percent: string, of: (site: Site) => Rate | Site | null, key: string): Column<Row>[] => {
    const unit = `${prefix.letter}b/s`;
    const bps = (field: "asked_bps" | "achieved_bps") => ({
      group,
      unit,
      numeric: true,
      cell: ({ site, index }: Row): Child => {
        const value = of(site)?.[field];
        return value === null || value === undefined
          ? NONE
          : h("span", { "data-path": `sites[${index}]${key}.${field}`, "data-unit": unit }, digits(value / prefix.factor));
      },
      sortBy: ({ site }: Row) => of(site)?.[field] ?? null,
    });
    const achieved = { label: "achieved", ...bps("achieved_bps") };
    if (!asked) return [achieved];
    return [
      { label: "expected", ...bps("asked_bps") },
      achieved,
      {
        label: percent,
        group,
        numeric: true,
        cell: ({ site, index }) => ratioPill(of(site)?.ratio ?? null, `sites[${index}]${key}.ratio`),
        sortBy: ({ site }) => of(site)?.ratio ?? null,
      },
    ];
  };
  const made = table<Row>({
    caption: ["Every site over the hold, in and out", note("achieved"), "."],
    rows,
    className: "sites",
    columns: [
      { label: "Site", cell: ({ site }) => siteName(site.site, report, showSite), sortBy: ({ site }) => site.site },
      ...side("In", "% in", (site) => site, ""),
      ...side("Out", "% out", (site) => site.egress, ".egress"),
      { group: "Transfers in", label: "all", numeric: true, cell: ({ site, index }) => figure(`sites[${index}].transfers`, count(site.transfers)), sortBy: ({ site }) => site.transfers },
      { group: "Transfers in", label: "failed", numeric: true, cell: ({ site, index }) => figure(`sites[${index}].failed`, count(site.failed)), sortBy: ({ site }) => site.failed },
      { group: "Transfers in", label: "errors", className: "errors", cell: ({ site }) => errorList(site.errors) },
    ],
    ...(report.sites.length > 1 ? { footer: totalRow(report, prefix.factor, asked) } : {}),
  });
  return { id: "sites", title: "Sites", content: [made.element, asked && levelKey()] };
}

/** The name; with a curve behind it where there is one. */
function siteName(name: string, report: Report, showSite: (name: string) => void): Child {
  if (!report.series?.sites.has(name)) return breakable(name);
  return h("button", { type: "button", class: "plain", title: `Throughput into ${name}`, on: { click: () => showSite(name) } }, breakable(name));
}

/** Error classes with their counts: `checksum × 3, stall × 1`. */
export function errorList(errors: Site["errors"]): Child {
  if (errors.length === 0) return h("span", { class: "none" }, NONE);
  const items = errors.map((error, index) => [
    index > 0 ? ", " : "",
    h("span", { title: error.sample ?? "" }, `${error.class}${GAP}×${GAP}${count(error.count)}`),
  ]);
  return h("span", { class: "error-list" }, items);
}

/** All sites: what all took in is what all gave out. */
function totalRow({ totals }: Report, factor: number, asked: boolean): HTMLTableSectionElement {
  const cell = (value: number | null): HTMLElement => h("td", { class: "num" }, value === null ? NONE : digits(value / factor));
  const side = (): HTMLElement[] =>
    asked
      ? [cell(totals.asked_bps), cell(totals.achieved_bps), h("td", { class: "num" }, ratioPill(totals.ratio, "totals.ratio"))]
      : [cell(totals.achieved_bps)];
  const counts = [totals.transfers, totals.failed].map((value) => h("td", { class: "num" }, count(value)));
  return h("tfoot", {}, h("tr", {}, h("th", { scope: "row" }, "All"), side(), side(), counts, h("td", {})));
}
