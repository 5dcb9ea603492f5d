// The ramp: rate against the number of parallel transfers, a row per direction, and the same as curves.
import { Chart, N_LINES, tooltipStyle, type ChartOption, type LineSeriesOption, type Palette } from "../chart";
import { h, type Child } from "../dom";
import { note } from "../methods";
import type { Step, Workload } from "../report";
import { table, type Column } from "../table";
import { digits, prefixFor, rate, share, size } from "../units";
import { legend, timeOf, valueAxis } from "./timeline";

/** More lines than this cannot be followed; the table has them all. */
const MAX_LINES = 10;
/** What marks the points of a line, in the chart and in the legend. */
const SYMBOLS = [
  ["circle", "●"],
  ["rect", "■"],
  ["triangle", "▲"],
  ["diamond", "◆"],
  ["emptyCircle", "○"],
  ["emptyRect", "□"],
  ["emptyTriangle", "△"],
  ["emptyDiamond", "◇"],
] as const;

interface Direction {
  readonly name: string;
  readonly source: string;
  readonly destination: string;
  readonly steps: ReadonlyMap<number, Step & { readonly path: string }>;
}

export function ramp(workload: Workload, index: number): { readonly content: Child; readonly mounted: () => () => void } {
  const parallels = [...new Set(workload.steps.map((step) => step.parallel))].sort((a, b) => a - b);
  const all = directions(workload, index);
  const sizes = [...new Set(workload.steps.map((step) => step.file_bytes).filter((bytes) => bytes !== null))];
  const lines = [...all].sort((a, b) => peak(b) - peak(a)).slice(0, MAX_LINES);
  const host = h("div", { class: "chart tall" });
  const keys = lines.map((line, layer) => ({ name: line.name, kind: layer < N_LINES ? ("line" as const) : ("dash" as const), layer: (layer % N_LINES) * 2, sign: SYMBOLS[layer % SYMBOLS.length]?.[1] ?? "" }));
  const prefix = prefixFor(Math.max(0, ...workload.steps.map((step) => step.achieved_bps ?? 0)));
  const unit = `${prefix.letter}b/s`;
  const columns: Column<Direction>[] = [
    { label: "From", cell: (row) => row.source, sortBy: (row) => row.source },
    { label: "To", cell: (row) => row.destination, sortBy: (row) => row.destination },
    ...parallels.map((parallel): Column<Direction> => ({
      label: String(parallel),
      unit,
      group: "Parallel transfers",
      numeric: true,
      cell: (row) => stepCell(row.steps.get(parallel), row, prefix.factor, unit),
      sortBy: (row) => row.steps.get(parallel)?.achieved_bps ?? null,
    })),
    { label: "Failed", numeric: true, cell: (row) => failures(row) },
  ];
  const made = table({
    caption: [`Rate per direction and number of parallel transfers${sizes.length === 1 ? `, files of ${size(sizes[0] ?? null)}` : ""}`, note("ramp"), "; the best of each row is bold."],
    columns,
    rows: all,
    className: "ramp",
  });
  const hint = all.length > lines.length ? h("p", { class: "hint" }, `Curves of the ${lines.length} fastest of ${all.length} directions; the table has all.`) : null;
  const mounted = (): (() => void) => {
    const chart = new Chart(host);
    const sentence = lines.map((line) => `${line.name}: ${[...line.steps].map(([parallel, step]) => `${parallel} parallel ${rate(step.achieved_bps)}`).join(", ")}`);
    chart.show((colours) => draw(lines, parallels, colours), sentence.join(". "));
    return () => chart.dispose();
  };
  const curves = h("div", { class: "curves" }, h("div", { class: "legend-line" }, legend(keys)), hint, host);
  return { content: h("div", { class: "beside" }, made.element, curves), mounted };
}

function directions(workload: Workload, index: number): Direction[] {
  const found = new Map<string, { name: string; source: string; destination: string; steps: Map<number, Step & { path: string }> }>();
  workload.steps.forEach((step, position) => {
    const name = `${step.source}→${step.destination}`;
    const entry = found.get(name) ?? { name, source: step.source, destination: step.destination, steps: new Map() };
    entry.steps.set(step.parallel, { ...step, path: `workloads[${index}].steps[${position}].achieved_bps` });
    found.set(name, entry);
  });
  return [...found.values()];
}

const peak = (direction: Direction): number => Math.max(0, ...[...direction.steps.values()].map((step) => step.achieved_bps ?? 0));

function stepCell(step: (Step & { readonly path: string }) | undefined, row: Direction, factor: number, unit: string): Child {
  if (!step || step.achieved_bps === null) return "–";
  const text = digits(step.achieved_bps / factor);
  const value = h("span", { "data-path": step.path, "data-unit": unit, class: step.achieved_bps === peak(row) ? "best" : "" }, text);
  return step.failed === 0 ? value : [value, h("span", { class: "lost" }, `${step.failed} failed`)];
}

function failures(row: Direction): Child {
  const steps = [...row.steps.values()];
  const failed = steps.reduce((sum, step) => sum + step.failed, 0);
  const all = steps.reduce((sum, step) => sum + step.transfers, 0);
  return failed === 0 ? "none" : `${failed} of ${all} (${share(failed, all)})`;
}

function draw(lines: readonly Direction[], parallels: readonly number[], colours: Palette): ChartOption {
  const { axis, inset } = valueAxis(Math.max(0, ...lines.map(peak)), "b/s", colours);
  const series = lines.map((line, index): LineSeriesOption => {
    const shade = colours.lines[index % colours.lines.length] ?? colours.accent;
    return {
      type: "line",
      name: line.name,
      data: parallels.map((parallel) => line.steps.get(parallel)?.achieved_bps ?? null),
      symbol: SYMBOLS[index % SYMBOLS.length]?.[0] ?? "circle",
      symbolSize: 8,
      lineStyle: { width: 2, color: shade, type: index < colours.lines.length ? "solid" : [5, 3] },
      itemStyle: { color: shade },
      emphasis: { disabled: true },
    };
  });
  return {
    grid: { left: inset, right: 20, top: 30, bottom: 44 },
    xAxis: {
      type: "category",
      data: parallels.map(String),
      name: "parallel transfers",
      nameLocation: "middle",
      nameGap: 26,
      nameTextStyle: { color: colours.muted, fontSize: colours.small },
      axisLine: { lineStyle: { color: colours.muted } },
      axisTick: { alignWithLabel: true, lineStyle: { color: colours.muted } },
      axisLabel: { color: colours.muted, fontSize: colours.small },
    },
    yAxis: axis,
    tooltip: {
      ...tooltipStyle(colours),
      trigger: "axis",
      formatter: (params) => tip(lines, parallelOf(params, parallels)),
    },
    series,
  };
}

function parallelOf(params: unknown, parallels: readonly number[]): number | null {
  const first: unknown = Array.isArray(params) ? params[0] : params;
  const index = (first as { readonly dataIndex?: unknown } | undefined)?.dataIndex;
  return typeof index === "number" ? (parallels[index] ?? null) : timeOf(params);
}

function tip(lines: readonly Direction[], parallel: number | null): HTMLElement {
  const rows = lines.flatMap((line) => {
    const step = parallel === null ? undefined : line.steps.get(parallel);
    return step ? [h("tr", {}, h("th", {}, line.name), h("td", {}, rate(step.achieved_bps)))] : [];
  });
  return h("div", { class: "tip" }, h("p", {}, `${parallel ?? ""} parallel`), h("table", {}, rows));
}
