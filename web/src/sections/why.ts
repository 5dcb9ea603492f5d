// The causes that held links back: one statement each with its evidence, then the largest cause of each link, then the
// missing bits over time by cause.
import { Chart, tooltipStyle, type ChartOption, type LineSeriesOption, type Palette } from "../chart";
import { breakable, h, type Child } from "../dom";
import { note } from "../methods";
import { onDemand, type Section } from "../parts";
import type { Report, Statement } from "../report";
import { highest, merge, merging, stack, steps } from "../series";
import { table } from "../table";
import { clock, digits, NONE, percent, rate } from "../units";
import { CAUSES_SHOWN, classes, layerOf, layers, missed, UNEXPLAINED, type Missed } from "../why";
import { concurrency } from "./concurrency";
import { lanes, withdrawn } from "./lanes";
import { eventLines, legend, timeAxis, timeOf, valueAxis, windowBands, zoom, zooms } from "./timeline";

/** Statements shown at once; the rest on demand. */
const SHOWN = 6;
/** Other answers that are less likely are not shown. */
const UNLIKELY = 0.01;

export function why(report: Report, showLink: (name: string) => void): Section | null {
  if (report.statements.length === 0 && report.withdrawn.length === 0) return null;
  const shown = classes(report.ledger);
  const causes = layers(report.ledger, shown);
  let chart: Chart | null = null;
  const host = h("div", { class: "chart tall", id: "why-chart" });
  const items = report.statements.map((statement, index) => item(statement, index, showLink));
  const rest = items.slice(SHOWN);
  const names = causes.map((layer, index) => ({ name: layer.name, kind: "area" as const, layer: index }));
  return {
    id: "why",
    title: "Why links fell short",
    short: "Why",
    content: [
      h("ol", { class: "statements" }, items.slice(0, SHOWN)),
      rest.length > 0 ? onDemand(`${rest.length} more statements`, () => h("ol", { class: "statements", start: SHOWN + 1 }, rest)) : null,
      withdrawn(report),
      lanes(report, shown),
      report.ledger.length > 0 ? matrix(report, shown, showLink) : null,
      causes.length > 0
        ? [h("div", { class: "chart-head" }, h("h3", {}, "Missing bits by cause", note("why")), h("div", { class: "legend-line" }, legend(names))), host]
        : null,
      concurrency(report, showLink),
    ],
    mounted: () => {
      if (causes.length === 0) return () => undefined;
      chart = new Chart(host);
      chart.show((colours, width) => draw(report, causes, colours, width), summary(causes));
      return () => chart?.dispose();
    },
  };
}

function item(statement: Statement, index: number, showLink: (name: string) => void): HTMLElement {
  const links = statement.links.map((link) => h("button", { type: "button", class: "plain", on: { click: () => showLink(link) } }, breakable(link)));
  const others = statement.others.filter((other) => other.probability >= UNLIKELY);
  const said = h("span", { role: "status" });
  const copy = (): void => {
    navigator.clipboard.writeText(ticket(statement)).then(
      () => (said.textContent = "Copied"),
      () => (said.textContent = "Select the text and copy by hand"),
    );
  };
  return h(
    "li",
    { "data-class": statement.class },
    h(
      "details",
      { open: index === 0 },
      h("summary", {}, statement.text),
      evidence(statement),
      statement.via.length > 0 && h("p", {}, `The links waited for slots of ${statement.via.join(", ")}; the cause is behind them.`),
      others.length > 0 &&
        h("p", {}, "Else: ", others.map((other) => `${other.class}${other.place === null ? "" : ` at ${other.place}`} ${percent(other.probability, 0)}`).join(", "), "."),
      statement.settle !== null && h("p", {}, h("span", { class: "label" }, "To settle "), statement.settle),
      statement.advice !== null && h("p", { class: "remedy" }, h("span", { class: "label" }, "To do "), statement.advice),
      links.length > 0 && h("p", { class: "links" }, "Links: ", links.flatMap((link, at): Child[] => (at === 0 ? [link] : [", ", link]))),
      navigator.clipboard ? h("p", {}, h("button", { type: "button", class: "copy", on: { click: copy } }, "Copy as text"), " ", said) : null,
    ),
  );
}

function evidence(statement: Statement): Child {
  if (statement.evidence.length === 0) return null;
  const value = (number: number | null, unit: string): string => (number === null ? NONE : unit === "bit/s" ? rate(number) : digits(number));
  return table<Statement["evidence"][number]>({
    caption: "Evidence",
    rows: statement.evidence,
    className: "narrow",
    columns: [
      { label: "signal", cell: (one) => one.signal },
      { label: "place", cell: (one) => (one.place === null ? NONE : breakable(one.place)) },
      { label: "value", numeric: true, cell: (one) => value(one.value, one.unit) },
      { label: "usual", numeric: true, cell: (one) => value(one.usual, one.unit) },
      { label: "unit", cell: (one) => (one.unit === "bit/s" ? "" : one.unit) },
    ],
  }).element;
}

/** A statement for somebody who has not seen the page. */
function ticket(statement: Statement): string {
  const figure = (one: Statement["evidence"][number]): string => {
    const show = (number: number): string => (one.unit === "bit/s" ? rate(number) : `${digits(number)} ${one.unit}`);
    return `- ${one.signal}${one.place === null ? "" : ` at ${one.place}`}: ${show(one.value)}${one.usual === null ? "" : `, usually ${show(one.usual)}`}`;
  };
  const lines = [statement.text, "", ...statement.evidence.map(figure)];
  if (statement.links.length > 0) lines.push("", `Links: ${statement.links.join(", ")}`);
  if (statement.settle !== null) lines.push(`To settle: ${statement.settle}`);
  if (statement.advice !== null) lines.push(`To do: ${statement.advice}`);
  return lines.join("\n");
}

/** Sources in rows, destinations in columns: colour and letters say the class of the largest cause, depth the missing share. */
function matrix(report: Report, shown: readonly string[], showLink: (name: string) => void): HTMLElement {
  const all = report.ledger.map(missed).filter((one): one is Missed => one !== null && one.share >= 0.01);
  const by = new Map(all.map((one) => [one.link, one]));
  const ends = all.map((one) => one.link.split("→"));
  const sources = [...new Set(ends.map((end) => end[0] ?? ""))].sort();
  const destinations = [...new Set(ends.map((end) => end[1] ?? ""))].sort();
  const cell = (source: string, destination: string): HTMLElement => {
    const one = by.get(`${source}→${destination}`);
    if (!one) return h("td", {});
    const words = `${one.link}: ${percent(one.share, 0)} of the asked bits are missing, most of them by ${one.class}${one.place === null ? "" : ` at ${one.place}`}`;
    return h(
      "td",
      {},
      h(
        "button",
        {
          type: "button",
          class: "cause",
          title: words,
          "aria-label": words,
          style: `--swatch: var(--layer-${layerOf(one.class, shown)}); --part: ${(20 + 80 * Math.min(1, one.share)).toFixed(0)}%`,
          on: { click: () => showLink(one.link) },
        },
        letters(one.class),
      ),
    );
  };
  return h(
    "div",
    { class: "scroll", role: "region", tabindex: 0, "aria-label": "Largest cause of each link" },
    h(
      "table",
      { class: "causes" },
      h("caption", {}, "Largest cause of each link, from the source in the row to the destination in the column. The letters are those of the class."),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "from \\ to"), destinations.map((name) => h("th", { scope: "col" }, breakable(name))))),
      h("tbody", {}, sources.map((source) => h("tr", {}, h("th", { scope: "row" }, breakable(source)), destinations.map((destination) => cell(source, destination))))),
    ),
  );
}

/** The first letters of the words of a class. */
function letters(name: string): string {
  return name
    .split("-")
    .map((word) => word.charAt(0).toUpperCase())
    .join("");
}

type Layers = ReturnType<typeof layers>;

function draw(report: Report, causes: Layers, colours: Palette, width: number): ChartOption {
  const binSeconds = report.ledger[0]?.bin_s ?? 1;
  const nBins = causes[0]?.bins.length ?? 0;
  const span = report.series ? report.series.n_bins * report.series.bin_s : nBins * binSeconds;
  const by = merging(nBins);
  const all = causes.map((layer) => ({ name: layer.name, bins: merge(layer.bins.map((bits) => bits / binSeconds), by) }));
  const tops = stack(all.map((layer) => layer.bins));
  const colour = (index: number): string =>
    all[index]?.name === UNEXPLAINED ? colours.muted : (colours.layers[Math.min(index, CAUSES_SHOWN) % colours.layers.length] ?? colours.accent);
  const areas: LineSeriesOption[] = tops.map((bins, index) => ({
    type: "line",
    data: steps(bins, binSeconds * by) as [number, number][],
    showSymbol: false,
    z: 2 + (tops.length - index) * 0.01,
    lineStyle: { width: 0.8, color: colours.surface },
    areaStyle: { color: colour(index), opacity: 1 },
    emphasis: { disabled: true },
  }));
  areas.reverse();
  const { axis, inset } = valueAxis(highest(tops.at(-1) ?? []) ?? 0, "b/s", colours);
  return {
    grid: { left: inset, right: 14, top: 34, bottom: zooms(nBins) ? 58 : 28 },
    xAxis: timeAxis(span, colours, width),
    yAxis: axis,
    dataZoom: zoom(nBins, colours),
    tooltip: {
      ...tooltipStyle(colours),
      trigger: "axis",
      axisPointer: { type: "line", snap: false, lineStyle: { color: colours.muted, type: "solid" } },
      formatter: (params) => tip(Math.floor((timeOf(params) ?? -1) / (binSeconds * by)), all, binSeconds * by, span),
    },
    series: [
      { type: "line", data: [], markArea: windowBands(report.windows, span, colours, width), markLine: eventLines(report.events, span, colours, width), z: 6, silent: true },
      ...areas,
    ],
  };
}

function tip(bin: number, all: readonly { readonly name: string; readonly bins: readonly (number | null)[] }[], binSeconds: number, span: number): HTMLElement {
  const rows = all
    .map((layer) => ({ name: layer.name, value: layer.bins[bin] ?? 0 }))
    .filter(({ value }) => value > 0)
    .map(({ name, value }) => h("tr", {}, h("th", {}, name), h("td", {}, rate(value))));
  const when = `${clock(bin * binSeconds, span)} to ${clock((bin + 1) * binSeconds, span)}`;
  return h("div", { class: "tip" }, h("p", {}, when), rows.length > 0 ? h("table", {}, rows) : h("p", {}, "nothing is missing"));
}

function summary(causes: Layers): string {
  const sums = causes.map((layer) => ({ name: layer.name, sum: layer.bins.reduce((sum, bits) => sum + bits, 0) }));
  const whole = sums.reduce((sum, layer) => sum + layer.sum, 0);
  const parts = sums.filter((layer) => layer.sum > 0).map((layer) => `${layer.name} ${percent(layer.sum / whole, 0)}`);
  return `Missing bits of all links that were held back: ${parts.join(", ")}.`;
}
