// The states in which transfers wait, as report.json has them: which are shown apart, and their shares over time.
import type { LinkSignals } from "./report";

/** Phases of a transfer's life, and their states, both in the order of life; docs/signals.md explains each. */
export const PHASES: readonly (readonly [string, readonly string[]])[] = [
  ["catalogue", ["catalogue"]],
  [
    "queue",
    ["turn", "slots", "optimiser", "bandwidth-limit", "pause", "halt", "retry", "other-transfer", "store", "restoring", "staging", "archiving"],
  ],
  ["begin", ["executor", "token", "resolve", "connect", "tls", "look", "delete", "place", "first-byte"]],
  ["data", ["data", "network", "window", "disk", "processor", "permit", "limiter"]],
  ["end", ["checksum", "close", "verify"]],
];

const ORDER = PHASES.flatMap(([, states]) => states);
const PHASE_OF = new Map(PHASES.flatMap(([phase, states]) => states.map((state) => [state, phase] as const)));

/** States that are shown apart; the smallest share one colour. */
const SHOWN = 9;
/** The name of all others. */
export const OTHERS = "other states";

/** The phase of a state; the state of a newer writer has none. */
export const phaseOf = (state: string): string | null => PHASE_OF.get(state) ?? null;

const rank = (state: string): number => {
  const place = ORDER.indexOf(state);
  return place < 0 ? ORDER.length : place;
};

/** Seconds by state, all places together. */
export function totals(links: readonly LinkSignals[]): ReadonlyMap<string, number> {
  const sums = new Map<string, number>();
  for (const wait of links.flatMap((link) => link.waits)) sums.set(wait.wait, (sums.get(wait.wait) ?? 0) + wait.total_s);
  return sums;
}

/** The states with most time, in the order of life, and `OTHERS` if there are more. */
export function statesShown(links: readonly LinkSignals[]): readonly string[] {
  const all = [...totals(links)].filter(([, seconds]) => seconds > 0).sort((a, b) => b[1] - a[1]);
  const kept = all.slice(0, all.length > SHOWN + 1 ? SHOWN : all.length).map(([state]) => state);
  kept.sort((a, b) => rank(a) - rank(b));
  return kept.length < all.length ? [...kept, OTHERS] : kept;
}

/** One state of a link over time. */
export interface Layer {
  readonly state: string;
  /** Seconds of all its transfers together. */
  readonly total: number;
  /** The same in each bin. */
  readonly bins: readonly number[];
}

/** The states of a link, one layer for each that is shown; all have `nBins` bins. */
export function layers(link: LinkSignals, shown: readonly string[], nBins: number): readonly Layer[] {
  const made = new Map(shown.map((state) => [state, { state, total: 0, bins: Array.from({ length: nBins }, () => 0) }]));
  for (const wait of link.waits) {
    const layer = made.get(wait.wait) ?? made.get(OTHERS);
    if (!layer) continue;
    layer.total += wait.total_s;
    wait.seconds.forEach((seconds, index) => {
      const bin = wait.first_bin + index;
      if (bin < nBins) layer.bins[bin] = (layer.bins[bin] ?? 0) + seconds;
    });
  }
  return [...made.values()];
}

/** How many bins of a link's signals the run has. */
export function binsOf(link: LinkSignals, span: number): number {
  const last = Math.max(0, ...link.waits.map((wait) => wait.first_bin + wait.seconds.length));
  return Math.max(last, Math.ceil(span / link.bin_s), 1);
}

/** Shares of the layers in each bin, added up from the first; null where nothing waited. */
export function shares(all: readonly Layer[]): readonly (readonly (number | null)[])[] {
  const nBins = all[0]?.bins.length ?? 0;
  const sums = Array.from({ length: nBins }, (_, bin) => all.reduce((sum, layer) => sum + (layer.bins[bin] ?? 0), 0));
  const below = Array.from({ length: nBins }, () => 0);
  return all.map((layer) =>
    sums.map((sum, bin) => {
      if (sum <= 0) return null;
      below[bin] = (below[bin] ?? 0) + (layer.bins[bin] ?? 0);
      return Math.min(1, (below[bin] ?? 0) / sum);
    }),
  );
}

/** Seconds of a link in all its states. */
export const waited = (link: LinkSignals): number => link.waits.reduce((sum, wait) => sum + wait.total_s, 0);
