// The rates of all links together in the course of time, a line per policy.
import { Chart, N_LINES, tooltipStyle, type ChartOption, type LineSeriesOption, type Palette } from "../../chart";
import type { Comparison, Policy } from "../../comparison";
import { h } from "../../dom";
import { onDemand, type Section } from "../../parts";
import { highest, mean, merge, merging, steps, untilItEnds, type Point } from "../../series";
import { table } from "../../table";
import { clock, duration, NONE, rate } from "../../units";
import { legend, timeAxis, timeOf, valueAxis, type Key } from "../timeline";

/** More points of a line than this are thinner than the line. */
const POINTS = 300;

interface Curve {
  readonly name: string;
  readonly binSeconds: number;
  readonly bins: readonly (number | null)[];
}

export function course(comparison: Comparison): Section {
  const curves = comparison.policies.map(curve);
  const asked = askedCurve(comparison);
  const span = Math.max(...curves.map((of) => of.bins.length * of.binSeconds), 1);
  const host = h("div", { class: "chart tall", id: "course-chart" });
  return {
    id: "course",
    title: "All links together in the course of time",
    short: "Course of time",
    content: [h("div", { class: "legend-line" }, legend(keys(comparison, asked))), host, onDemand("These curves as a table", () => asTable(curves, span))],
    mounted: () => {
      const chart = new Chart(host);
      chart.show((colours, width) => draw(comparison, curves, asked, span, colours, width), summary(curves));
      return () => chart.dispose();
    },
  };
}

function curve(policy: Policy): Curve {
  const by = merging(policy.series.achieved_bps.length, POINTS);
  return { name: policy.policy, binSeconds: policy.series.bin_s * by, bins: merge(policy.series.achieved_bps, by) };
}

/** What is asked, the same under every policy; null where nothing is. */
function askedCurve(comparison: Comparison): Point[] | null {
  const series = comparison.policies[0]?.series;
  if (!series || comparison.asked_bps === 0) return null;
  return steps(untilItEnds(series.asked_bps), series.bin_s);
}

function keys(comparison: Comparison, asked: Point[] | null): Key[] {
  const policies = comparison.policies.map((policy, at): Key => ({ name: policy.policy, kind: "line", layer: (at % N_LINES) * 2 }));
  if (asked === null) return policies;
  const possible: Key[] = comparison.optimum_spans.length === 0 ? [] : [{ name: "estimated optimum", kind: "line", layer: null }];
  return [...policies, { name: "asked", kind: "dash", layer: null }, ...possible];
}

function draw(comparison: Comparison, curves: readonly Curve[], asked: Point[] | null, span: number, colours: Palette, width: number): ChartOption {
  const line = (data: readonly Point[], style: LineSeriesOption["lineStyle"], z: number): LineSeriesOption => ({
    type: "line",
    data: data as [number, number][],
    showSymbol: false,
    z,
    lineStyle: { width: 1.8, ...style },
    emphasis: { disabled: true },
  });
  const spans = asked === null ? [] : comparison.optimum_spans;
  const possible = spans.flatMap((of): Point[] => [[of.from_s, of.rate_bps], [of.until_s, of.rate_bps]]);
  const top = Math.max(...curves.map((of) => highest(of.bins) ?? 0), ...(asked ?? []).map((point) => point[1] ?? 0), ...possible.map((point) => point[1] ?? 0), 1);
  const { axis, inset } = valueAxis(top, "b/s", colours);
  // The first policies lie on top.
  const policies = curves.map((of, at) => line(middles(of), { color: colours.lines[at % colours.lines.length] ?? colours.accent }, 10 - at));
  return {
    grid: { left: inset, right: 14, top: 34, bottom: 28 },
    xAxis: timeAxis(span, colours, width),
    yAxis: axis,
    tooltip: {
      ...tooltipStyle(colours),
      trigger: "axis",
      axisPointer: { type: "line", snap: false, lineStyle: { color: colours.muted, type: "solid" } },
      formatter: (params) => tip(timeOf(params), curves, span),
    },
    series: [line(possible, { color: colours.ink, width: 1.2 }, 2), line(asked ?? [], { color: colours.ink, type: [6, 4] }, 3), ...policies],
  };
}

const middles = (of: Curve): Point[] => of.bins.map((value, bin): Point => [(bin + 0.5) * of.binSeconds, value]);

function at(of: Curve, seconds: number): number | null {
  return of.bins[Math.floor(seconds / of.binSeconds)] ?? null;
}

function tip(seconds: number | null, curves: readonly Curve[], span: number): HTMLElement {
  const rows = curves.map((of) => {
    const value = seconds === null ? null : at(of, seconds);
    return h("tr", {}, h("th", {}, of.name), h("td", {}, value === null ? "no data" : rate(value)));
  });
  return h("div", { class: "tip" }, h("p", {}, seconds === null ? "" : clock(seconds, span)), h("table", {}, rows));
}

function summary(curves: readonly Curve[]): string {
  return curves.map((of) => `${of.name}: mean ${rate(mean(of.bins))}, highest ${rate(highest(of.bins))}`).join("; ");
}

function asTable(curves: readonly Curve[], span: number): HTMLElement {
  const width = Math.max(...curves.map((of) => of.binSeconds));
  const rows = Array.from({ length: Math.ceil(span / width) }, (_, row) => row * width);
  return table<number>({
    caption: `Rates in bins of ${duration(width)}.`,
    rows,
    className: "narrow",
    columns: [
      { label: "from", cell: (from) => clock(from, span) },
      ...curves.map((of) => ({
        label: of.name,
        numeric: true,
        cell: (from: number) => {
          const value = at(of, from);
          return value === null ? NONE : rate(value);
        },
      })),
    ],
  }).element;
}
