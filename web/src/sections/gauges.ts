// Figures of hosts, storages, paths and services over the run: evidence for what held transfers back.
import { breakable, h, s } from "../dom";
import { note } from "../methods";
import type { Section } from "../parts";
import type { GaugeSeries, Report } from "../report";
import { merge, merging } from "../series";
import { table } from "../table";
import { bytes, digits, NONE, percent, rate } from "../units";

const WIDTH = 160;
const HEIGHT = 18;
/** Rows at once; a grid with many links has thousands. */
const ROWS = 30;

export function gauges(report: Report): Section | null {
  const rows = report.gauges.filter((series) => series.values.some((value) => value !== null));
  if (rows.length === 0) return null;
  const shown = table<GaugeSeries>({
    caption: "Means over bins; the largest bin; the run from left to right, from zero to the largest.",
    rows,
    limit: ROWS,
    columns: [
      { label: "gauge", cell: (series) => series.gauge, sortBy: (series) => series.gauge },
      { label: "place", cell: (series) => breakable(series.place), sortBy: (series) => series.place },
      { label: "mean", numeric: true, cell: (series) => written(mean(known(series)), series.unit) },
      { label: "largest", numeric: true, cell: (series) => written(Math.max(...known(series)), series.unit) },
      { label: "over the run", cell: (series) => spark(series, report) },
    ],
  });
  return {
    id: "gauges",
    title: "Hosts, storages and paths",
    short: "Gauges",
    content: [h("p", { class: "hint" }, "What they were seen to do meanwhile", note("gauges"), "."), shown.element],
  };
}

const known = (series: GaugeSeries): number[] => series.values.filter((value) => value !== null);
const mean = (values: readonly number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

/** A value with its unit; shares in percent. */
export function written(value: number, unit: string): string {
  if (!Number.isFinite(value)) return NONE;
  if (unit === "1") return percent(value);
  if (unit === "bit/s") return rate(value);
  if (unit === "B") return bytes(value);
  return unit === "n" ? digits(value) : `${digits(value)} ${unit}`;
}

function spark(series: GaugeSeries, report: Report): SVGElement | string {
  const top = Math.max(...known(series));
  if (top <= 0) return NONE;
  const span = report.series ? report.series.n_bins * report.series.bin_s : (series.first_bin + series.values.length) * series.bin_s;
  const bins = Array.from({ length: Math.max(1, Math.ceil(span / series.bin_s)) }, (_, bin) => series.values[bin - series.first_bin] ?? null);
  const merged = merge(bins, merging(bins.length, WIDTH));
  const x = (bin: number): string => ((bin / merged.length) * WIDTH).toFixed(1);
  const step = (value: number | null, bin: number): string =>
    value === null ? "" : `M${x(bin)},${HEIGHT}V${((1 - Math.max(0, value) / top) * HEIGHT).toFixed(1)}H${x(bin + 1)}V${HEIGHT}Z`;
  const path = s("path", { d: merged.map(step).join(""), style: "fill: var(--layer-0)" });
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, "aria-hidden": "true" }, path);
}
