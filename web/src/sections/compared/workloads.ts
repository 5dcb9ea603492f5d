// What came of each workload under each policy: shares of what is asked, cells that worked, rates of a ramp's steps.
import type { ComparedWorkload, Comparison } from "../../comparison";
import { breakable } from "../../dom";
import { figure, ratioPill, type Section } from "../../parts";
import { table } from "../../table";
import { rate } from "../../units";
import { perPolicy } from "./columns";

interface Row {
  readonly workload: ComparedWorkload;
  readonly index: number;
}

export function workloads(comparison: Comparison): Section[] {
  const all = (comparison.policies[0]?.workloads ?? []).map((workload, index) => ({ workload, index }));
  const rated = all.filter(({ workload }) => workload.kind === "rates");
  const others = all.flatMap((row) => (row.workload.kind === "matrix" ? [matrix(comparison, row)] : row.workload.kind === "ramp" ? [ramp(comparison, row)] : []));
  return [...(rated.length === 0 ? [] : [rates(comparison, rated)]), ...others];
}

function rates(comparison: Comparison, rows: readonly Row[]): Section {
  const ratio = ({ index }: Row, at: number): number | null => comparison.policies[at]?.workloads[index]?.ratio ?? null;
  const made = table<Row>({
    caption: "Achieved ÷ asked, each workload in its own time.",
    rows,
    className: "compared",
    columns: [
      { label: "Workload", cell: ({ workload }) => breakable(workload.name), sortBy: ({ workload }) => workload.name },
      { label: "asked", numeric: true, cell: ({ workload, index }) => figure(`policies[0].workloads[${index}].asked_bps`, rate(workload.asked_bps)), sortBy: ({ workload }) => workload.asked_bps },
      ...perPolicy<Row>(comparison, (row, at) => ratioPill(ratio(row, at), `policies[${at}].workloads[${row.index}].ratio`), ratio),
    ],
  });
  return { id: "workloads", title: "Workloads", content: made.element };
}

function matrix(comparison: Comparison, { workload, index }: Row): Section {
  const worked = (at: number): number => comparison.policies[at]?.workloads[index]?.cells.filter((cell) => cell.ok).length ?? 0;
  const made = table<string>({
    caption: `Cells of ${workload.name} that worked, of ${workload.cells.length}.`,
    rows: ["all modes and sizes"],
    className: "compared",
    columns: [{ label: "", cell: (row) => row }, ...perPolicy<string>(comparison, (_, at) => String(worked(at)))],
  });
  return { id: `workload-${index}`, title: `Copy matrix: ${workload.name}`, short: workload.name, content: made.element };
}

function ramp(comparison: Comparison, { workload, index }: Row): Section {
  const achieved = (step: number, at: number): number | null => comparison.policies[at]?.workloads[index]?.steps[step]?.achieved_bps ?? null;
  const name = (step: number): string => {
    const of = workload.steps[step];
    return of ? `${of.source}→${of.destination} × ${of.parallel}` : "";
  };
  const made = table<number>({
    caption: `Rate of each step of ${workload.name}: so many transfers at once.`,
    rows: workload.steps.map((_, step) => step),
    limit: 40,
    className: "compared",
    columns: [
      { label: "Step", cell: (step) => breakable(name(step)) },
      ...perPolicy<number>(comparison, (step, at) => figure(`policies[${at}].workloads[${index}].steps[${step}].achieved_bps`, rate(achieved(step, at))), achieved),
    ],
  });
  return { id: `workload-${index}`, title: `Ramp: ${workload.name}`, short: workload.name, content: made.element };
}
