// What every chart over time has in common: axes, the windows of the run as bands, events as lines, legends, zoom.
import type { ChartOption, LineSeriesOption, Palette } from "../chart";
import { h } from "../dom";
import type { Report, Windows } from "../report";
import { clock, limit, prefixFor } from "../units";

type TimeAxis = Exclude<NonNullable<ChartOption["xAxis"]>, readonly unknown[]>;
type ValueAxis = Exclude<NonNullable<ChartOption["yAxis"]>, readonly unknown[]>;
type Zoom = Exclude<NonNullable<ChartOption["dataZoom"]>, readonly unknown[]>;

/** Steps of a time axis that people count in. */
const TIME_STEPS = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400, 172_800, 604_800];

export function timeAxis(span: number, colours: Palette, width: number): TimeAxis {
  const wanted = span / Math.max(3, Math.floor(width / 90));
  return {
    type: "value",
    min: 0,
    max: span,
    interval: TIME_STEPS.find((step) => step >= wanted) ?? wanted,
    axisLine: { onZero: false, lineStyle: { color: colours.muted } },
    axisTick: { show: true, lineStyle: { color: colours.muted } },
    splitLine: { show: false },
    axisLabel: { color: colours.muted, fontSize: colours.small, showMaxLabel: false, formatter: (value: number) => clock(value, span) },
  };
}

/** A value axis in one unit with round steps; `inset` is the room that its labels need. */
export function valueAxis(top: number, unit: string, colours: Palette): { readonly axis: ValueAxis; readonly inset: number; readonly max: number } {
  const prefix = prefixFor(top);
  const step = roundStep(top / 4);
  const max = top <= 0 ? 1 : Math.ceil((top * 1.04) / step) * step;
  const label = (value: number): string => limit(value / prefix.factor, "");
  const widest = Math.max(...Array.from({ length: 6 }, (_, index) => label(step * index).length));
  return {
    inset: Math.max(34, 14 + widest * 7),
    max,
    axis: {
      type: "value",
      min: 0,
      max,
      interval: top <= 0 ? 1 : step,
      name: `${prefix.letter}${unit}`,
      nameLocation: "end",
      nameGap: 12,
      nameTextStyle: { color: colours.muted, fontSize: colours.small, align: "right", padding: [0, 6, 0, 0] },
      axisLine: { show: false },
      axisTick: { show: false },
      splitLine: { lineStyle: { color: colours.rule, width: 1 } },
      axisLabel: { color: colours.muted, fontSize: colours.small, formatter: label },
    },
  };
}

/** 1, 2 or 5 times a power of ten, at least `value`. */
export function roundStep(value: number): number {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return ([1, 2, 5].find((factor) => factor * power >= value) ?? 10) * power;
}

/** Ramp, hold and drain as bands with their names; a band too narrow for its name has none. */
export function windowBands(windows: Windows, span: number, colours: Palette, width: number): NonNullable<LineSeriesOption["markArea"]> {
  const plot = width - 70;
  const bands = (["ramp", "hold", "drain"] as const).flatMap((name) => {
    const window = windows[name];
    if (!window || window.end_s <= window.start_s) return [];
    const room = ((window.end_s - window.start_s) / span) * plot;
    const label = { show: room > name.length * 7, position: "insideTopLeft" as const, distance: 5, color: colours.muted, fontSize: colours.small };
    const itemStyle = { color: name === "hold" ? "transparent" : colours.band };
    return [[{ name, xAxis: window.start_s, itemStyle, label }, { xAxis: window.end_s }]];
  });
  return { silent: true, data: bands as NonNullable<NonNullable<LineSeriesOption["markArea"]>["data"]> };
}

/** Numbers above the lines of events, and how many pixels one needs. */
const MOST_NUMBERS = 12;
const NUMBER_ROOM = 26;

/**
 * The numbers to write above the lines of events, like those of the list below the chart. Events whose numbers would overprint share one label,
 * "3–5", at the first of them; nothing stands at the others, nor anywhere if labels would be too many. Times are in order.
 */
export function eventNumbers(times: readonly number[], span: number, width: number): readonly string[] {
  const plot = width - 70;
  const groups: { first: number; last: number }[] = [];
  times.forEach((time, index) => {
    const group = groups.at(-1);
    const start = group === undefined ? undefined : times[group.first];
    if (group !== undefined && start !== undefined && ((time - start) / span) * plot < NUMBER_ROOM) group.last = index;
    else groups.push({ first: index, last: index });
  });
  const labels = times.map(() => "");
  if (groups.length > MOST_NUMBERS) return labels;
  for (const { first, last } of groups) labels[first] = first === last ? `${first + 1}` : `${first + 1}–${last + 1}`;
  return labels;
}

/** Events as thin lines, numbered like the list below the chart. */
export function eventLines(events: Report["events"], span: number, colours: Palette, width: number): NonNullable<LineSeriesOption["markLine"]> {
  const numbers = eventNumbers(
    events.map((event) => event.t_s),
    span,
    width,
  );
  return {
    silent: true,
    symbol: "none",
    animation: false,
    lineStyle: { color: colours.muted, type: [2, 3], width: 1 },
    data: events.map((event, index) => {
      const number = numbers[index] ?? "";
      return {
        xAxis: event.t_s,
        label: { show: number !== "", position: "end" as const, distance: 3, formatter: number, color: colours.muted, fontSize: colours.small - 1 },
      };
    }),
  };
}

/** A slider below the chart, for long runs. */
export function zoom(nBins: number, colours: Palette): Zoom[] {
  if (!zooms(nBins)) return [];
  return [
    {
      type: "slider",
      height: 16,
      bottom: 6,
      showDetail: false,
      filterMode: "none",
      brushSelect: false,
      showDataShadow: false,
      backgroundColor: colours.band,
      borderColor: colours.rule,
      fillerColor: colours.accentSoft,
      handleStyle: { color: colours.surface, borderColor: colours.muted },
      moveHandleStyle: { color: colours.muted },
      emphasis: { handleStyle: { borderColor: colours.accent }, moveHandleStyle: { color: colours.accent } },
    },
  ];
}

/** Whether a run is long enough to be zoomed. */
export const zooms = (nBins: number): boolean => nBins > 400;

/** The moment under the pointer, from what ECharts hands to a tooltip. */
export function timeOf(params: unknown): number | null {
  const first: unknown = Array.isArray(params) ? params[0] : params;
  const value = (first as { readonly axisValue?: unknown } | undefined)?.axisValue;
  return typeof value === "number" ? value : null;
}

/** One entry of a legend; `layer` is the colour, `sign` what marks the points of a line. */
export interface Key {
  readonly name: string;
  readonly kind: "line" | "dash" | "area";
  readonly layer: number | null;
  readonly sign?: string;
}

/** Names with swatches, in the order in which they lie on each other. */
export function legend(keys: readonly Key[]): HTMLElement {
  return h(
    "ul",
    { class: "legend" },
    keys.map(({ name, kind, layer, sign }) => {
      const style = layer === null ? false : `--swatch: var(--layer-${layer % 10})`;
      return h("li", {}, h("span", { class: `swatch ${kind}`, style, "aria-hidden": "true" }, sign && h("span", { class: "sign" }, sign)), name);
    }),
  );
}
