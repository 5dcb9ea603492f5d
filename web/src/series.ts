// Time series: bins to points. A bin is the mean over its interval, so it is drawn as a step from its start to its end;
// a bin without data (null) is a gap.
import type { Bins } from "./report";

/** Time in seconds, and a value or a gap. */
export type Point = readonly [number, number | null];

/** More bins than this are merged before drawing: about two per pixel of a wide chart. */
export const MAX_BINS = 1500;

/** How many bins to merge into one so that at most `limit` remain. */
export function merging(nBins: number, limit = MAX_BINS): number {
  return Math.max(1, Math.ceil(nBins / limit));
}

/** Merges groups of `by` bins into their mean; a group without any data stays a gap. */
export function merge(bins: Bins, by: number): (number | null)[] {
  if (by <= 1) return [...bins];
  const merged: (number | null)[] = [];
  for (let start = 0; start < bins.length; start += by) {
    let sum = 0;
    let known = 0;
    for (let index = start; index < Math.min(start + by, bins.length); index += 1) {
      const value = bins[index];
      if (value === null || value === undefined) continue;
      sum += value;
      known += 1;
    }
    merged.push(known === 0 ? null : sum / known);
  }
  return merged;
}

/** Merges groups of `by` bins into their sum, for counts per bin. */
export function mergeSum(bins: Bins, by: number): (number | null)[] {
  const means = merge(bins, by);
  if (by <= 1) return means;
  return means.map((mean, group) => {
    if (mean === null) return null;
    return bins.slice(group * by, (group + 1) * by).reduce<number>((sum, value) => sum + (value ?? 0), 0);
  });
}

/** The outline of the bins as steps: two points per bin, and one empty point per gap. */
export function steps(bins: Bins, binSeconds: number): Point[] {
  const points: Point[] = [];
  bins.forEach((value, index) => {
    const start = index * binSeconds;
    if (value === null) {
      points.push([start, null]);
      return;
    }
    points.push([start, value], [start + binSeconds, value]);
  });
  return points;
}

/** Bin by bin sums of several series; null only where all are. */
export function sum(all: readonly Bins[]): (number | null)[] {
  const length = all.reduce((longest, bins) => Math.max(longest, bins.length), 0);
  return Array.from({ length }, (_, index) => {
    const known = all.map((bins) => bins[index]).filter((value): value is number => typeof value === "number");
    return known.length === 0 ? null : known.reduce((total, value) => total + value, 0);
  });
}

/** The layers of a stack, lowest first: each is the sum of itself and all below it. */
export function stack(layers: readonly Bins[]): (number | null)[][] {
  return layers.map((_, top) => sum(layers.slice(0, top + 1)));
}

/** The mean of the known bins, or null without any. */
export function mean(bins: Bins): number | null {
  const known = bins.filter((value): value is number => value !== null);
  return known.length === 0 ? null : known.reduce((total, value) => total + value, 0) / known.length;
}

/** The largest known bin, or null without any. */
export function highest(bins: Bins): number | null {
  return bins.reduce<number | null>((top, value) => (value !== null && (top === null || value > top) ? value : top), null);
}

/** The bin in which a moment lies, or null outside. */
export function binAt(seconds: number, binSeconds: number, nBins: number): number | null {
  const index = Math.floor(seconds / binSeconds);
  return index >= 0 && index < nBins ? index : null;
}

/** Without the zeros at its end: after the hold nothing is asked, and a line along the ground would say nothing more. */
export function untilItEnds(asked: Bins): Bins {
  const end = asked.findLastIndex((value) => value !== null && value > 0) + 1;
  return asked.map((value, bin) => (bin < end ? value : null));
}
