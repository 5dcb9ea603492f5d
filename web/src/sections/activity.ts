// Transfers active and queued over time, and the failures as they came.
import { Chart, tooltipStyle, type ChartOption, type LineSeriesOption, type Palette } from "../chart";
import { h } from "../dom";
import { onDemand, type Section } from "../parts";
import type { Bins, Report, Series } from "../report";
import { highest, mean, merge, merging, mergeSum, steps } from "../series";
import { table } from "../table";
import { clock, count, digits, duration, NONE } from "../units";
import { eventLines, legend, timeAxis, timeOf, valueAxis, windowBands, zoom, zooms } from "./timeline";

export function activity(report: Report): Section | null {
  const series = report.series;
  if (!series || (!series.total.active && !series.total.queued)) return null;
  const host = h("div", { class: "chart", id: "activity-chart" });
  const failures = (series.total.failed ?? []).some((value) => (value ?? 0) > 0);
  const keys = [
    { name: "active", kind: "area" as const, layer: null },
    { name: "queued", kind: "line" as const, layer: null },
  ];
  const list = legend(keys);
  if (failures) list.append(h("li", { class: "failures" }, h("span", { class: "swatch cross", "aria-hidden": "true" }, "✗"), "failed in a bin"));
  return {
    id: "activity",
    title: "Active and queued transfers",
    short: "Active, queued",
    content: [h("div", { class: "legend-line" }, list), host, onDemand("These curves as a table", () => asTable(series))],
    mounted: () => {
      const chart = new Chart(host);
      chart.show((colours, width) => draw(report, series, colours, width), summary(series));
      return () => chart.dispose();
    },
  };
}

function draw(report: Report, series: Series, colours: Palette, width: number): ChartOption {
  const by = merging(series.n_bins);
  const binSeconds = series.bin_s * by;
  const span = series.n_bins * series.bin_s;
  const active = merge(activeOf(series.total) ?? [], by);
  const queued = merge(series.total.queued ?? [], by);
  const failed = mergeSum(series.total.failed ?? [], by);
  const { axis, inset, max } = valueAxis(Math.max(highest(active) ?? 0, highest(queued) ?? 0, 4), "", colours);
  const line = (bins: Bins, extra: LineSeriesOption): LineSeriesOption => ({
    type: "line",
    data: steps(bins, binSeconds) as [number, number][],
    showSymbol: false,
    emphasis: { disabled: true },
    ...extra,
  });
  // On the upper edge, where they meet no curve; the size says nothing, the tooltip gives the number.
  const crosses = failed.flatMap((value, bin): [number, number][] => (value ? [[(bin + 0.5) * binSeconds, max]] : []));
  return {
    grid: { left: inset, right: 14, top: 30, bottom: zooms(series.n_bins) ? 58 : 28 },
    xAxis: timeAxis(span, colours, width),
    yAxis: axis,
    dataZoom: zoom(series.n_bins, colours),
    tooltip: {
      ...tooltipStyle(colours),
      trigger: "axis",
      axisPointer: { type: "line", snap: false, lineStyle: { color: colours.muted, type: "solid" } },
      formatter: (params) => tip(Math.floor((timeOf(params) ?? -1) / binSeconds), { active, queued, failed }, binSeconds, span),
    },
    series: [
      { type: "line", data: [], markArea: windowBands(report.windows, span, colours, width), markLine: eventLines(report.events, span, colours, width), silent: true },
      line(active, { lineStyle: { width: 1.4, color: colours.accent }, areaStyle: { color: colours.accentSoft, opacity: 1 } }),
      line(queued, { lineStyle: { width: 1.6, color: colours.ink } }),
      {
        type: "line",
        data: crosses,
        lineStyle: { width: 0 },
        symbol: "path://M0,0L10,10M10,0L0,10",
        symbolSize: 7,
        itemStyle: { color: "transparent", borderColor: colours.bad, borderWidth: 1.6 },
        showSymbol: true,
        showAllSymbol: true,
        emphasis: { disabled: true },
      },
    ],
  };
}

function tip(bin: number, bins: Readonly<Record<string, Bins>>, binSeconds: number, span: number): HTMLElement {
  const rows = Object.entries(bins).map(([name, values]) => {
    const value = values[bin] ?? null;
    return h("tr", {}, h("th", {}, name), h("td", {}, value === null ? "no data" : digits(value)));
  });
  return h("div", { class: "tip" }, h("p", {}, `${clock(bin * binSeconds, span)} to ${clock((bin + 1) * binSeconds, span)}`), h("table", {}, rows));
}

function summary(series: Series): string {
  const { queued, failed } = series.total;
  const active = activeOf(series.total);
  const of = (name: string, bins: Bins | null): string =>
    bins && mean(bins) !== null ? `${name}: mean ${digits(mean(bins) ?? 0)}, highest ${count(highest(bins))}` : `${name}: no data`;
  const failures = (failed ?? []).reduce<number>((sum, value) => sum + (value ?? 0), 0);
  return `${of("Active", active)}. ${of("Queued", queued)}. Failed: ${count(failures)}.`;
}

function asTable(series: Series): HTMLElement {
  const by = merging(series.n_bins, 240);
  const binSeconds = series.bin_s * by;
  const span = series.n_bins * series.bin_s;
  const columns = { active: merge(activeOf(series.total) ?? [], by), queued: merge(series.total.queued ?? [], by), failed: mergeSum(series.total.failed ?? [], by) };
  return table<number>({
    caption: `Means over ${duration(binSeconds)}; failures are counts.`,
    rows: Array.from({ length: Math.ceil(series.n_bins / by) }, (_, bin) => bin),
    className: "narrow",
    columns: [
      { label: "from", cell: (bin) => clock(bin * binSeconds, span) },
      ...Object.entries(columns).map(([label, bins]) => ({
        label,
        numeric: true,
        cell: (bin: number) => {
          const value = bins[bin];
          return value === null || value === undefined ? NONE : digits(value);
        },
      })),
    ],
  }).element;
}

/** Transfers under way: the mean over each bin, or the samples of an older report. */
function activeOf(total: NonNullable<Report["series"]>["total"]): Bins | null {
  return total.active_mean !== null && total.active_mean.length > 0 ? total.active_mean : total.active;
}
