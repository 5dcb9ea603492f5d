// Throughput over time against what was asked: the whole, stacked by site, one site, one link; and every site at a glance.
import { Chart, tooltipStyle, type ChartOption, type LineSeriesOption, type Palette } from "../chart";
import { combobox } from "../combobox";
import { h, type Child } from "../dom";
import { note } from "../methods";
import { figure, onDemand, segmented, type Section } from "../parts";
import type { Bins, RateSeries, Report, Series } from "../report";
import { highest, mean, merge, merging, stack, steps, sum, untilItEnds } from "../series";
import { table } from "../table";
import { clock, duration, NONE, percent, rate } from "../units";
import { multiples } from "./multiples";
import { eventLines, legend, timeAxis, timeOf, valueAxis, windowBands, zoom, zooms, type Key } from "./timeline";

type View = "total" | "stacked" | "site" | "link";

/** More layers than this are too thin to tell apart; the smallest are added up. */
const MAX_LAYERS = 9;

/** What the chart shows at the moment. */
interface Scene {
  readonly title: string;
  readonly asked: Bins | null;
  /** Lowest layer first. */
  readonly layers: readonly { readonly name: string; readonly bins: Bins }[];
}

export interface Throughput {
  readonly section: Section;
  readonly showSite: (name: string) => void;
  readonly showLink: (name: string) => void;
}

export function throughput(report: Report): Throughput | null {
  const series = report.series;
  if (!series) return null;
  const sites = [...series.sites.keys()];
  const links = [...series.links.keys()];
  let view: View = "total";
  let site = sites[0] ?? "";
  let link = worstLink(report) ?? links[0] ?? "";
  let chart: Chart | null = null;

  const host = h("div", { class: "chart tall", id: "throughput-chart" });
  const title = h("h3", { id: "throughput-title" });
  const under = h("div", { class: "legend-line" });
  const figures = h("div");
  const pickSite = combobox("Site", sites, (name) => {
    site = name;
    refresh();
  });
  const pickLink = combobox("Link", links, (name) => {
    link = name;
    refresh();
  });
  const views: (readonly [View, string])[] = [["total", "Total"]];
  if (sites.length > 1) views.push(["stacked", "Sites, stacked"]);
  if (sites.length > 0) views.push(["site", "One site"]);
  if (links.length > 0) views.push(["link", "One link"]);
  const choice = segmented("Curve shown", views, (next) => {
    view = next;
    refresh();
  });

  const refresh = (): void => {
    pickSite.element.hidden = view !== "site";
    pickLink.element.hidden = view !== "link";
    const scene = compose(view, series, site, link);
    title.textContent = scene.title;
    under.replaceChildren(legend(keys(scene)));
    figures.replaceChildren(onDemand("These curves as a table", () => asTable(scene, series)));
    chart?.show((colours, width) => draw(scene, report, series, colours, width), summary(scene, report, series));
  };
  const jump = (next: View): void => {
    view = next;
    choice.set(next);
    refresh();
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    host.closest("section")?.scrollIntoView({ behavior: calm ? "auto" : "smooth" });
  };
  pickSite.set(site);
  pickLink.set(link);

  const section: Section = {
    id: "throughput",
    title: "Throughput over time",
    short: "Throughput",
    content: [
      h("div", { class: "controls" }, choice.element, pickSite.element, pickLink.element),
      h("div", { class: "chart-head" }, title, under),
      host,
      eventList(report),
      spread(report),
      seconds(report),
      figures,
      multiples(report, (name) => showSite(name)),
    ],
    mounted: () => {
      chart = new Chart(host);
      refresh();
      return () => chart?.dispose();
    },
  };
  const showSite = (name: string): void => {
    if (!series.sites.has(name)) return;
    site = name;
    pickSite.set(name);
    jump("site");
  };
  const showLink = (name: string): void => {
    if (!series.links.has(name)) return;
    link = name;
    pickLink.set(name);
    jump("link");
  };
  return { section, showSite, showLink };
}

function worstLink(report: Report): string | null {
  const known = report.links.filter((link) => link.ratio !== null && report.series?.links.has(`${link.source}→${link.destination}`));
  const worst = known.reduce<(typeof known)[number] | null>((low, link) => (low === null || (link.ratio ?? 0) < (low.ratio ?? 0) ? link : low), null);
  return worst ? `${worst.source}→${worst.destination}` : null;
}

function compose(view: View, series: Series, site: string, link: string): Scene {
  if (view === "stacked") return stacked(series);
  const of: RateSeries | undefined = view === "site" ? series.sites.get(site) : view === "link" ? series.links.get(link) : series.total;
  const title = view === "site" ? `Into ${site}` : view === "link" ? link : "All links together";
  return { title, asked: known(of?.asked_bps), layers: of?.achieved_bps ? [{ name: "achieved", bins: of.achieved_bps }] : [] };
}

function stacked(series: Series): Scene {
  const all = [...series.sites].flatMap(([name, of]) => (of.achieved_bps ? [{ name, bins: of.achieved_bps as Bins }] : []));
  const bySize = [...all].sort((a, b) => (mean(b.bins) ?? 0) - (mean(a.bins) ?? 0));
  const kept = bySize.slice(0, bySize.length > MAX_LAYERS + 1 ? MAX_LAYERS : bySize.length);
  const rest = bySize.slice(kept.length);
  const layers = rest.length === 0 ? kept : [...kept, { name: `${rest.length} others`, bins: sum(rest.map((layer) => layer.bins)) }];
  return { title: "Into each site, stacked", asked: known(series.total.asked_bps), layers };
}

/** Asked rates, if any was. */
function known(asked: Bins | null | undefined): Bins | null {
  return asked?.some((value) => value !== null && value > 0) ? asked : null;
}

function draw(scene: Scene, report: Report, series: Series, colours: Palette, width: number): ChartOption {
  const by = merging(series.n_bins);
  const binSeconds = series.bin_s * by;
  const span = series.n_bins * series.bin_s;
  const merged = scene.layers.map((layer) => merge(layer.bins, by));
  const asked = scene.asked ? merge(untilItEnds(scene.asked), by) : null;
  const tops = stack(merged);
  const top = Math.max(highest(tops.at(-1) ?? []) ?? 0, highest(asked ?? []) ?? 0);
  // Painted from the highest layer down, each over the one before: exact even where a layer has a gap.
  const areas: LineSeriesOption[] = tops.map((bins, index) => {
    const fill = scene.layers.length === 1 ? colours.accentSoft : (colours.layers[index % colours.layers.length] ?? colours.accent);
    return {
      type: "line",
      data: steps(bins, binSeconds) as [number, number][],
      showSymbol: false,
      z: 2 + (tops.length - index) * 0.01,
      lineStyle: { width: scene.layers.length === 1 ? 1.6 : 0.8, color: scene.layers.length === 1 ? colours.accent : colours.surface },
      areaStyle: { color: fill, opacity: 1 },
      emphasis: { disabled: true },
    };
  });
  areas.reverse();
  const line: LineSeriesOption[] = asked
    ? [{ type: "line", data: steps(asked, binSeconds) as [number, number][], showSymbol: false, z: 5, lineStyle: { width: 1.8, type: [6, 4], color: colours.ink }, emphasis: { disabled: true } }]
    : [];
  const { axis, inset } = valueAxis(top, "b/s", colours);
  return {
    grid: { left: inset, right: 14, top: 34, bottom: zooms(series.n_bins) ? 58 : 28 },
    xAxis: timeAxis(span, colours, width),
    yAxis: axis,
    dataZoom: zoom(series.n_bins, colours),
    tooltip: {
      ...tooltipStyle(colours),
      trigger: "axis",
      axisPointer: { type: "line", snap: false, lineStyle: { color: colours.muted, type: "solid" } },
      formatter: (params) => tip(timeOf(params), scene, merged, asked, binSeconds, span),
    },
    series: [
      { type: "line", data: [], markArea: windowBands(report.windows, span, colours, width), markLine: eventLines(report.events, span, colours, width), z: 6, silent: true },
      ...areas,
      ...line,
    ],
  };
}

function tip(seconds: number | null, scene: Scene, layers: readonly Bins[], asked: Bins | null, binSeconds: number, span: number): HTMLElement {
  const bin = seconds === null ? -1 : Math.floor(seconds / binSeconds);
  const at = (bins: Bins | null): number | null => bins?.[bin] ?? null;
  const rows = scene.layers.map((layer, index): readonly [string, number | null] => [layer.name, at(layers[index] ?? null)]).reverse();
  const whole = layers.length > 1 ? [["all", sum(layers.map((bins) => [at(bins)]))[0] ?? null] as const] : [];
  const lines: Child[] = [...(asked ? [["asked", at(asked)] as const] : []), ...whole, ...rows].map(([name, value]) =>
    h("tr", {}, h("th", {}, name), h("td", {}, value === null ? "no data" : rate(value))),
  );
  return h("div", { class: "tip" }, h("p", {}, `${clock(bin * binSeconds, span)} to ${clock((bin + 1) * binSeconds, span)}`), h("table", {}, lines));
}

function keys(scene: Scene): Key[] {
  const single = scene.layers.length === 1;
  const layers = scene.layers.map((layer, index) => ({ name: layer.name, kind: "area" as const, layer: single ? null : index })).reverse();
  return [...(scene.asked ? [{ name: "asked", kind: "dash" as const, layer: null }] : []), ...layers];
}

/** What the curve shows, in a sentence. */
function summary(scene: Scene, report: Report, series: Series): string {
  const all = sum(scene.layers.map((layer) => layer.bins));
  const hold = report.windows.hold;
  const inHold = hold ? all.slice(Math.floor(hold.start_s / series.bin_s), Math.ceil(hold.end_s / series.bin_s)) : all;
  const known = inHold.filter((value): value is number => value !== null);
  if (known.length === 0) return `${scene.title}: no data.`;
  const asked = scene.asked ? highest(scene.asked) : null;
  const range = `mean ${rate(mean(inHold))}, lowest ${rate(Math.min(...known))}, highest ${rate(Math.max(...known))}`;
  return `${scene.title}, ${hold ? "in the hold" : "over the run"}: ${range}${asked === null ? "" : `; asked ${rate(asked)}`}.`;
}

function spread(report: Report): Child {
  const found = report.stability;
  if (!found || found.cv_total === null) return null;
  const sites = [...found.cv_sites].filter((entry): entry is [string, number] => entry[1] !== null);
  const [name, most] = sites.reduce<readonly [string, number]>((top, entry) => (entry[1] > top[1] ? entry : top), ["", -1]);
  const widest = most > found.cv_total ? [`; most at ${name}, `, figure(`stability.cv_sites[${JSON.stringify(name)}]`, percent(most))] : null;
  return h("p", { class: "hint" }, `Spread over ${found.parts} parts of ${duration(found.part_s)} of the hold`, note("spread"), ": ", figure("stability.cv_total", percent(found.cv_total)), widest, ".");
}

/** How much the rate of single seconds varied, beside what the plan makes possible. */
function seconds(report: Report): Child {
  const found = report.evenness;
  if (!found || found.total.achieved === null) return null;
  const sites = [...found.sites].flatMap(([name, cv]) => (cv.achieved === null ? [] : [[name, cv.achieved] as const]));
  const [name, most] = sites.reduce<readonly [string, number]>((top, entry) => (entry[1] > top[1] ? entry : top), ["", -1]);
  const planned = found.total.planned === null ? null : [" (as injected ", figure("evenness.total.planned", percent(found.total.planned)), ")"];
  const widest = most < 0 ? null : [`; most at ${name}, `, figure(`evenness.sites[${JSON.stringify(name)}].achieved`, percent(most))];
  return h("p", { class: "hint" }, "Spread over the seconds of the hold", note("spread"), ": ", figure("evenness.total.achieved", percent(found.total.achieved)), planned, widest, ".");
}

function eventList(report: Report): Child {
  if (report.events.length === 0) return null;
  const span = report.series ? report.series.n_bins * report.series.bin_s : 0;
  const items = report.events.map((event) => h("li", {}, h("span", { class: "when" }, clock(event.t_s, span)), ` ${event.text}`));
  return h("ol", { class: "events", "aria-label": "Events" }, items);
}

function asTable(scene: Scene, series: Series): HTMLElement {
  const by = merging(series.n_bins, 240);
  const binSeconds = series.bin_s * by;
  const asked = scene.asked ? merge(scene.asked, by) : null;
  const layers = scene.layers.map((layer) => ({ name: layer.name, bins: merge(layer.bins, by) }));
  const span = series.n_bins * series.bin_s;
  const value = (bins: Bins | null, bin: number): string => {
    const found = bins?.[bin];
    return found === null || found === undefined ? NONE : rate(found);
  };
  const rows = Array.from({ length: Math.ceil(series.n_bins / by) }, (_, bin) => bin);
  return table<number>({
    caption: [`${scene.title}: means over ${duration(binSeconds)}`, note("series"), "."],
    rows,
    className: "narrow",
    columns: [
      { label: "from", cell: (bin) => clock(bin * binSeconds, span) },
      ...(asked ? [{ label: "asked", numeric: true, cell: (bin: number) => value(asked, bin) }] : []),
      ...layers.map((layer) => ({ label: layer.name, numeric: true, cell: (bin: number) => value(layer.bins, bin) })),
    ],
  }).element;
}
