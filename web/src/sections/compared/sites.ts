// Achieved ÷ asked into each site under each policy, first those where most is lost.
import type { ComparedSite, Comparison } from "../../comparison";
import { breakable, h } from "../../dom";
import { figure, levelKey, onDemand, ratioPill, type Section } from "../../parts";
import { table } from "../../table";
import { NONE, percent, rate } from "../../units";
import { perPolicy } from "./columns";

interface Row {
  readonly site: ComparedSite;
  readonly index: number;
}

/** Rows before "show all". */
const SHOWN = 25;

export function sites(comparison: Comparison): Section | null {
  if (comparison.asked_bps === 0 || comparison.sites.length === 0) return null;
  const rows = comparison.sites.map((site, index) => ({ site, index })).sort((a, b) => lost(b.site) - lost(a.site));
  const ratio = ({ site }: Row, at: number): number | null => site.policies[at]?.ratio ?? null;
  const possible = ({ site }: Row): number | null => (site.optimum_bps === null ? null : site.optimum_bps / Math.max(1, site.asked_bps));
  const made = table<Row>({
    caption: "Achieved ÷ asked into each site; first those where most is lost.",
    rows,
    limit: SHOWN,
    className: "compared sites",
    columns: [
      { label: "Site", cell: ({ site }) => breakable(site.site), sortBy: ({ site }) => site.site },
      { label: "asked", numeric: true, cell: ({ site, index }) => figure(`sites[${index}].asked_bps`, rate(site.asked_bps)), sortBy: ({ site }) => site.asked_bps },
      ...perPolicy<Row>(comparison, (row, at) => ratioPill(ratio(row, at), `sites[${row.index}].policies[${at}].ratio`), ratio),
      { label: "optimum", numeric: true, cell: (row) => percent(possible(row)), sortBy: possible },
    ],
  });
  const hint = "The optimum is what comes in where the whole grid gets most, by estimate: a policy may bring one site more at the expense of others.";
  return {
    id: "sites",
    title: "Sites",
    content: [made.element, levelKey(), h("p", { class: "hint" }, hint), onDemand("Causes at each site, in words", () => reasons(comparison, rows))],
  };
}

/** Difference between the possible rate of a site and its rate under the worst policy. */
function lost(site: ComparedSite): number {
  const possible = Math.min(site.optimum_bps ?? site.asked_bps, site.asked_bps);
  return possible - Math.min(...site.policies.map((policy) => policy.achieved_bps));
}

function reasons(comparison: Comparison, rows: readonly Row[]): HTMLElement {
  return table<Row>({
    caption: "Cause at each site under each policy.",
    rows: rows.filter(({ site }) => site.policies.some((policy) => policy.held_back !== null)),
    className: "reasons",
    columns: [
      { label: "Site", cell: ({ site }) => breakable(site.site) },
      ...comparison.policies.map((policy, at) => ({ label: policy.policy, cell: ({ site }: Row) => site.policies[at]?.held_back ?? NONE })),
    ],
  }).element;
}
