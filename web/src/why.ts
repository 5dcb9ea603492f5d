// The causes of missing bits, put together for the page: layers over time, and the largest cause of each link.
import type { LinkLedger } from "./report";

/** Causes that have a colour of their own; the rest share the last one. */
export const CAUSES_SHOWN = 8;
/** Bits that no cause explains. */
export const UNEXPLAINED = "unexplained";

/** Classes of causes by their missing bits, the largest first. */
export function classes(ledgers: readonly LinkLedger[]): readonly string[] {
  const sums = new Map<string, number>();
  for (const ledger of ledgers) {
    for (const cause of ledger.causes) sums.set(cause.class, (sums.get(cause.class) ?? 0) + cause.total_bits);
  }
  return [...sums].sort((a, b) => b[1] - a[1]).map(([name]) => name);
}

/** The layer of a class among those that are shown. */
export function layerOf(name: string, shown: readonly string[]): number {
  const at = shown.indexOf(name);
  return at < 0 || at >= CAUSES_SHOWN ? CAUSES_SHOWN : at;
}

/** Missing bits per bin of all links together, by class; the last is what no cause explains. Bins of every ledger are alike. */
export function layers(ledgers: readonly LinkLedger[], shown: readonly string[]): readonly { readonly name: string; readonly bins: readonly number[] }[] {
  const first = Math.min(...ledgers.map((ledger) => ledger.first_bin));
  const end = Math.max(...ledgers.map((ledger) => ledger.first_bin + ledger.rest_bits.length));
  const names = [...shown.slice(0, CAUSES_SHOWN), ...(shown.length > CAUSES_SHOWN ? ["other causes"] : []), UNEXPLAINED];
  const all = names.map((name) => ({ name, bins: new Array<number>(end).fill(0) }));
  const add = (layer: number, bits: readonly number[], from: number): void => {
    const bins = all[layer]?.bins;
    bits.forEach((value, bin) => {
      if (bins) bins[from + bin] = (bins[from + bin] ?? 0) + Math.max(0, value);
    });
  };
  for (const ledger of ledgers) {
    for (const cause of ledger.causes) add(Math.min(layerOf(cause.class, shown), names.length - 2), cause.bits, ledger.first_bin);
    add(names.length - 1, ledger.rest_bits, ledger.first_bin);
  }
  return first >= end ? [] : all;
}

/** A link's missing share of what was asked, with the class that holds most of it. */
export interface Missed {
  readonly link: string;
  readonly share: number;
  readonly class: string;
  readonly place: string | null;
}

export function missed(ledger: LinkLedger): Missed | null {
  const largest = [...ledger.causes].sort((a, b) => b.total_bits - a.total_bits)[0];
  const asked = ledger.asked_bits.reduce((sum, bits) => sum + bits, 0);
  const got = ledger.achieved_bits.reduce((sum, bits) => sum + bits, 0);
  if (!largest || asked <= 0) return null;
  return { link: ledger.link, share: Math.max(0, asked - got) / asked, class: largest.class, place: largest.place };
}
