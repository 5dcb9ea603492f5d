// What each policy brings in all, beside the estimated optimum.
import type { Comparison, Policy } from "../../comparison";
import { h, type Child } from "../../dom";
import { figure, ratioPill, type Section } from "../../parts";
import { table } from "../../table";
import { count, duration, NONE, percent, rate } from "../../units";
import { perPolicy } from "./columns";

interface Row {
  readonly name: string;
  readonly of: (policy: Policy, path: string) => Child;
  readonly most: Child;
}

export function totals(comparison: Comparison): Section {
  const made = table<Row>({
    caption: "Each policy, and an estimate of the optimum.",
    rows: rows(comparison),
    className: "compared",
    columns: [
      { label: "", cell: (row) => row.name },
      ...perPolicy<Row>(comparison, (row, at) => policyCell(comparison, row, at)),
      { label: "estimated optimum", numeric: true, cell: (row) => row.most },
    ],
  });
  return { id: "totals", title: "In all", content: [made.element, faults(comparison)] };
}

function policyCell(comparison: Comparison, row: Row, at: number): Child {
  const policy = comparison.policies[at];
  return policy ? row.of(policy, `policies[${at}]`) : null;
}

function rows(comparison: Comparison): Row[] {
  const { asked_bps: asked, optimum_bps: most, policies } = comparison;
  const ratio = most === null || asked === 0 ? null : most / asked;
  const rows: Row[] = [
    {
      name: "brought",
      of: (policy, path) => figure(`${path}.totals.achieved_bps`, rate(policy.totals.achieved_bps)),
      most: most === null ? NONE : figure("optimum_bps", rate(most)),
    },
    asked > 0
      ? { name: "of what is asked", of: (policy, path) => ratioPill(policy.totals.ratio, `${path}.totals.ratio`), most: percent(ratio) }
      : { name: "time for all steps", of: (policy, path) => figure(`${path}.hold_s`, duration(policy.hold_s)), most: null },
    { name: "of the optimum", of: (policy, path) => figure(`${path}.of_optimum`, percent(policy.of_optimum)), most: null },
  ];
  if (policies.some((policy) => policy.thresholds.length > 0)) rows.push({ name: "thresholds kept", of: kept, most: null });
  if (policies.some((policy) => policy.chain !== null)) rows.push(...chains());
  rows.push(
    { name: "transfers that failed", of: (policy, path) => figure(`${path}.totals.failed`, count(policy.totals.failed)), most: null },
    { name: "attempts made again", of: (policy, path) => figure(`${path}.totals.retries`, count(policy.totals.retries)), most: null },
  );
  return rows;
}

/** What became of rules, and of copies whose rules had ended. */
function chains(): Row[] {
  return [
    { name: "rules that became OK", of: ({ chain }, path) => (chain === null ? NONE : h("span", {}, figure(`${path}.chain.ok`, count(chain.ok)), " of ", figure(`${path}.chain.rules`, count(chain.rules)))), most: null },
    { name: "rule to OK, 95 % within", of: ({ chain }, path) => within(chain?.rule_to_ok_s?.p95, `${path}.chain.rule_to_ok_s.p95`), most: null },
    { name: "deletion, 95 % within", of: ({ chain }, path) => within(chain?.deletions?.delay_s?.p95, `${path}.chain.deletions.delay_s.p95`), most: null },
  ];
}

function within(seconds: number | undefined, path: string): Child {
  return seconds === undefined ? NONE : figure(path, duration(seconds));
}

function kept(policy: Policy): string {
  return `${policy.thresholds.filter((threshold) => threshold.pass).length} of ${policy.thresholds.length}`;
}

/** The thresholds that policies miss, and the rules that a world broke. */
function faults(comparison: Comparison): Child {
  return comparison.policies.flatMap((policy) => {
    const missed = policy.thresholds.filter((threshold) => !threshold.pass).map((threshold) => threshold.name);
    const broken = policy.violations[0];
    return [
      missed.length === 0 ? null : h("p", { class: "hint" }, `${policy.policy} misses: ${missed.join("; ")}`),
      broken === undefined ? null : h("p", { class: "broken" }, `${policy.policy} broke a rule of the world: ${broken}`),
    ];
  });
}
