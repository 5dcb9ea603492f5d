// Every site's throughput at a glance: one small curve each, on its own scale, so that shapes compare.
import { h, s, type Child } from "../dom";
import { mark } from "../parts";
import type { Bins, RateSeries, Report } from "../report";
import { highest, merge, merging } from "../series";
import { percent, rate } from "../units";

/** More than this are a wall, not a glance. */
const MANY = 12;
const WIDTH = 300;
const HEIGHT = 64;

export function multiples(report: Report, showSite: (name: string) => void): Child {
  const series = report.series;
  if (!series || series.sites.size < 2) return null;
  const all = [...series.sites].map(([name, of]) => small(report, name, of, series.bin_s * series.n_bins, showSite));
  const grid = h("ul", { class: "multiples", "aria-label": "Throughput into each site" }, all);
  const anyAsked = [...series.sites.values()].some((of) => of.asked_bps?.some((value) => value !== null && value > 0));
  const heading = h("h3", {}, "Into each site");
  const hint = h("p", { class: "hint" }, anyAsked ? "Each on its own scale; dashed: asked." : "Each on its own scale.");
  if (all.length <= MANY) return h("div", {}, heading, hint, grid);
  return h("div", {}, heading, h("details", { class: "data" }, h("summary", {}, `Small curves of all ${all.length} sites`), hint, grid));
}

function small(report: Report, name: string, of: RateSeries, span: number, showSite: (name: string) => void): HTMLElement {
  const site = report.sites.find((candidate) => candidate.site === name);
  const achieved = of.achieved_bps ?? [];
  const asked = (of.asked_bps ?? []).map((value) => (value === 0 ? null : value));
  const top = Math.max(highest(achieved) ?? 0, highest(asked) ?? 0, 1) * 1.05;
  const by = merging(achieved.length, WIDTH);
  const hold = report.windows.hold;
  const x = (seconds: number): number => (seconds / span) * WIDTH;
  const picture = s(
    "svg",
    { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
    hold && s("rect", { class: "band", x: 0, y: 0, width: x(hold.start_s), height: HEIGHT }),
    hold && s("rect", { class: "band", x: x(hold.end_s), y: 0, width: Math.max(0, WIDTH - x(hold.end_s)), height: HEIGHT }),
    s("path", { class: "area", d: area(merge(achieved, by), top) }),
    s("path", { class: "asked", d: outline(merge(asked, by), top) }),
  );
  const ratio = site?.ratio ?? null;
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", on: { click: () => showSite(name) } },
      h("span", { class: "name" }, name),
      h("span", { class: "is" }, site ? rate(site.achieved_bps) : "", ratio === null ? null : [" ", mark(ratio), ` ${percent(ratio)}`]),
      picture,
    ),
  );
}

/** Steps closed to the ground, one shape per stretch without gaps. */
function area(bins: Bins, top: number): string {
  return stretches(bins)
    .map(({ start, values }) => `M${at(start, bins.length)},${HEIGHT}${corners(start, values, bins.length, top)}V${HEIGHT}Z`)
    .join("");
}

function outline(bins: Bins, top: number): string {
  return stretches(bins)
    .map(({ start, values }) => `M${corners(start, values, bins.length, top).slice(1)}`)
    .join("");
}

function corners(start: number, values: readonly number[], n: number, top: number): string {
  return values
    .map((value, index) => {
      const y = (HEIGHT - (value / top) * HEIGHT).toFixed(1);
      return `L${at(start + index, n)},${y}L${at(start + index + 1, n)},${y}`;
    })
    .join("");
}

const at = (bin: number, n: number): string => ((bin / n) * WIDTH).toFixed(1);

function stretches(bins: Bins): { readonly start: number; readonly values: readonly number[] }[] {
  const found: { start: number; values: number[] }[] = [];
  bins.forEach((value, index) => {
    if (value === null) return;
    const last = found.at(-1);
    if (last && last.start + last.values.length === index) last.values.push(value);
    else found.push({ start: index, values: [value] });
  });
  return found;
}
