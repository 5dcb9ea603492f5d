// What the transfers of each link waited for: a bar of their states, the same over time as a lane, and one link as a curve.
import { Chart, tooltipStyle, type ChartOption, type LineSeriesOption, type Palette } from "../chart";
import { combobox } from "../combobox";
import { breakable, h, s } from "../dom";
import { note } from "../methods";
import { onDemand, type Section } from "../parts";
import type { LinkSignals, Report } from "../report";
import { highest, merge, merging, stack, steps } from "../series";
import { table } from "../table";
import { clock, digits, duration, NONE, percent } from "../units";
import { binsOf, layers, phaseOf, PHASES, shares, statesShown, waited, type Layer } from "../waits";
import { eventLines, legend, timeAxis, timeOf, valueAxis, windowBands, zoom, zooms } from "./timeline";

/** Links with a lane at once; the rest on demand, as many as a page can hold. */
const LANES = 8;
const LANES_MAX = 200;
const WIDTH = 300;
const HEIGHT = 20;

const nameOf = (link: LinkSignals): string => `${link.source}→${link.destination}`;

export function waits(report: Report): Section | null {
  const links = [...report.signals].filter((link) => waited(link) > 0).sort((a, b) => waited(b) - waited(a));
  const first = links[0];
  if (!first) return null;
  const span = spanOf(report, links);
  const shown = statesShown(links);
  let link = first;
  let chart: Chart | null = null;

  const host = h("div", { class: "chart tall", id: "waits-chart" });
  const title = h("h3", { id: "waits-title" });
  const figures = h("div");
  const refresh = (): void => {
    const current = link;
    title.textContent = `${nameOf(current)}: transfers in each state`;
    figures.replaceChildren(unmeasured(current), onDemand("States and places of this link as a table", () => asTable(current)));
    chart?.show((colours, width) => draw(report, current, shown, span, colours, width), summary(current));
  };
  const show = (name: string): void => {
    link = links.find((candidate) => nameOf(candidate) === name) ?? link;
    pick.set(nameOf(link));
    refresh();
  };
  const pick = combobox("Waits of", links.map(nameOf), show);
  pick.set(nameOf(link));
  const rest = links.slice(LANES, LANES_MAX);
  const lanes = (of: readonly LinkSignals[]): HTMLElement =>
    h("ul", { class: "lanes", "aria-label": "States of each link" }, of.map((candidate) => lane(report, candidate, shown, span, show)));
  return {
    id: "waits",
    title: "What transfers waited for",
    short: "Waits",
    content: [
      h("p", { class: "hint" }, "Per link: share of each state in the time of its transfers", note("waits"), ", and the same over the run."),
      h("div", { class: "legend-line" }, legend(shown.map((name, layer) => ({ name, kind: "area", layer })))),
      lanes(links.slice(0, LANES)),
      rest.length > 0 ? onDemand(`${rest.length} more links`, () => lanes(rest)) : null,
      h("div", { class: "chart-head" }, title, links.length > 1 ? pick.element : null),
      host,
      figures,
    ],
    mounted: () => {
      chart = new Chart(host);
      refresh();
      return () => chart?.dispose();
    },
  };
}

/** Seconds of the run. */
function spanOf(report: Report, links: readonly LinkSignals[]): number {
  if (report.series) return report.series.n_bins * report.series.bin_s;
  return Math.max(...links.map((link) => binsOf(link, 0) * link.bin_s));
}

function lane(report: Report, link: LinkSignals, shown: readonly string[], span: number, show: (name: string) => void): HTMLElement {
  const all = layers(link, shown, binsOf(link, span));
  const sum = waited(link);
  const bar = all.map((layer, index) =>
    layer.total > 0 ? h("span", { class: "part", style: `--part: ${((layer.total / sum) * 100).toFixed(2)}%; --swatch: var(--layer-${index % 10})` }) : null,
  );
  const words = all
    .filter((layer) => layer.total >= sum * 0.05)
    .sort((a, b) => b.total - a.total)
    .map((layer) => `${layer.state} ${percent(layer.total / sum, 0)}`)
    .join(", ");
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", on: { click: () => show(nameOf(link)) } },
      h("span", { class: "name" }, breakable(nameOf(link))),
      h("span", { class: "is" }, words),
      h("span", { class: "bar", "aria-hidden": "true" }, bar),
      overTime(report, all, span),
    ),
  );
}

/** Shares of the states over the run. */
function overTime(report: Report, all: readonly Layer[], span: number): SVGElement {
  const by = merging(all[0]?.bins.length ?? 1, WIDTH);
  const merged = all.map((layer) => ({ ...layer, bins: merge(layer.bins, by).map((value) => value ?? 0) }));
  const tops = shares(merged);
  const hold = report.windows.hold;
  const x = (seconds: number): string => ((seconds / span) * WIDTH).toFixed(1);
  const edge = (seconds: number): SVGElement => s("line", { class: "edge", x1: x(seconds), x2: x(seconds), y1: 0, y2: HEIGHT });
  const paths = tops.map((bins, index) => s("path", { d: area(bins), style: `fill: var(--layer-${index % 10})` })).reverse();
  return s("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" }, paths, hold && [edge(hold.start_s), edge(hold.end_s)]);
}

/** The outline of shares down to the ground; a bin in which nothing waited is left out. */
function area(bins: readonly (number | null)[]): string {
  const at = (bin: number): string => ((bin / bins.length) * WIDTH).toFixed(1);
  return bins
    .map((share, bin) => (share === null || share === 0 ? "" : `M${at(bin)},${HEIGHT}V${((1 - share) * HEIGHT).toFixed(1)}H${at(bin + 1)}V${HEIGHT}Z`))
    .join("");
}

function draw(report: Report, link: LinkSignals, shown: readonly string[], span: number, colours: Palette, width: number): ChartOption {
  const nBins = binsOf(link, span);
  const by = merging(nBins);
  const binSeconds = link.bin_s * by;
  // Seconds in a bin of so many seconds: the mean number of transfers in that state.
  const all = layers(link, shown, nBins).map((layer) => ({ state: layer.state, bins: merge(layer.bins.map((seconds) => seconds / link.bin_s), by) }));
  const tops = stack(all.map((layer) => layer.bins));
  const areas: LineSeriesOption[] = tops.map((bins, index) => ({
    type: "line",
    data: steps(bins, binSeconds) as [number, number][],
    showSymbol: false,
    z: 2 + (tops.length - index) * 0.01,
    lineStyle: { width: 0.8, color: colours.surface },
    areaStyle: { color: colours.layers[index % colours.layers.length] ?? colours.accent, opacity: 1 },
    emphasis: { disabled: true },
  }));
  areas.reverse();
  const { axis, inset } = valueAxis(highest(tops.at(-1) ?? []) ?? 0, "", colours);
  return {
    grid: { left: inset, right: 14, top: 34, bottom: zooms(nBins) ? 58 : 28 },
    xAxis: timeAxis(span, colours, width),
    yAxis: axis,
    dataZoom: zoom(nBins, colours),
    tooltip: {
      ...tooltipStyle(colours),
      trigger: "axis",
      axisPointer: { type: "line", snap: false, lineStyle: { color: colours.muted, type: "solid" } },
      formatter: (params) => tip(Math.floor((timeOf(params) ?? -1) / binSeconds), all, binSeconds, span),
    },
    series: [
      { type: "line", data: [], markArea: windowBands(report.windows, span, colours, width), markLine: eventLines(report.events, span, colours, width), z: 6, silent: true },
      ...areas,
    ],
  };
}

function tip(bin: number, all: readonly { readonly state: string; readonly bins: readonly (number | null)[] }[], binSeconds: number, span: number): HTMLElement {
  const rows = all
    .map((layer) => ({ state: layer.state, value: layer.bins[bin] ?? 0 }))
    .filter(({ value }) => value > 0)
    .map(({ state, value }) => h("tr", {}, h("th", {}, state), h("td", {}, digits(value))));
  const when = `${clock(bin * binSeconds, span)} to ${clock((bin + 1) * binSeconds, span)}`;
  return h("div", { class: "tip" }, h("p", {}, when), rows.length > 0 ? h("table", {}, rows) : h("p", {}, "nothing waited"));
}

/** The phases of which nothing is known. */
function unmeasured(link: LinkSignals): HTMLElement | string {
  const missing = PHASES.map(([phase]) => phase).filter((phase) => !link.known.includes(phase));
  return missing.length === 0 ? "" : h("p", { class: "hint" }, `Not measured on this link: ${missing.join(", ")}. No time there does not mean that nothing waited.`);
}

function summary(link: LinkSignals): string {
  const sum = waited(link);
  const largest = [...link.waits].sort((a, b) => b.total_s - a.total_s).slice(0, 3);
  const parts = largest.map((wait) => `${wait.wait}${wait.place ? ` (${wait.place})` : ""} ${percent(wait.total_s / sum, 0)}`);
  return `${nameOf(link)}: ${duration(sum)} in all states, most of it ${parts.join(", ")}.`;
}

/** The links that held the slots of a wait, with their parts of it. */
function holders(wait: LinkSignals["waits"][number]): string {
  const parts = wait.holders.map((holder) => `${holder.link} ${percent(holder.waited_s / wait.total_s, 0)}`);
  return parts.length > 0 ? parts.join(", ") : NONE;
}

function asTable(link: LinkSignals): HTMLElement {
  const sum = waited(link);
  const rows = link.waits.filter((wait) => wait.total_s > 0);
  return table<(typeof rows)[number]>({
    caption: `${nameOf(link)}: seconds of all its transfers together.`,
    rows,
    className: "narrow",
    columns: [
      { label: "phase", cell: (wait) => phaseOf(wait.wait) ?? NONE },
      { label: "state", cell: (wait) => wait.wait },
      { label: "place", cell: (wait) => (wait.place === null ? NONE : breakable(wait.place)) },
      { label: "seconds", numeric: true, cell: (wait) => digits(wait.total_s) },
      { label: "share", numeric: true, cell: (wait) => percent(wait.total_s / sum) },
      { label: "slots held by", cell: (wait) => holders(wait) },
    ],
  }).element;
}
