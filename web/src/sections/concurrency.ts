// Rate against copies at once, one small picture for each of the links that miss most: a line through the origin is a fixed rate per copy, a flat
// top a limit that all copies share, a fall a storage that gives way.
import { breakable, h, s, type Child } from "../dom";
import type { LinkLedger, LinkSignals, Report } from "../report";
import { digits, rate } from "../units";

/** Links that are shown. */
const SHOWN = 6;
/** The fewest bins with copies that make a picture. */
const FEWEST = 5;
const WIDTH = 300;
const HEIGHT = 120;
const RADIUS = 3;

/** The copies at once on a link and its rate, in one bin of the hold. */
export interface Point {
  readonly copies: number;
  readonly bps: number;
}

/** The points of a link, in the bins of its signals; none where nobody tells the time in slots. */
export function points(report: Report, signals: LinkSignals): readonly Point[] {
  const series = report.series?.links.get(`${signals.source}→${signals.destination}`);
  const hold = report.windows.hold;
  const slots = signals.slots;
  if (!report.series || !series || hold === null || slots === null) return [];
  const width = report.series.bin_s;
  const per = Math.max(1, Math.round(signals.bin_s / width));
  return slots.seconds.flatMap((seconds, at): Point[] => {
    const bin = slots.first_bin + at;
    if (bin * signals.bin_s < hold.start_s || (bin + 1) * signals.bin_s > hold.end_s) return [];
    const achieved = (series.achieved_bps ?? []).slice(bin * per, (bin + 1) * per);
    if (achieved.length < per) return [];
    const bps = achieved.reduce<number>((sum, value) => sum + (value ?? 0), 0) / per;
    return [{ copies: seconds / signals.bin_s, bps }];
  });
}

export function concurrency(report: Report, showLink: (name: string) => void): Child {
  const missing = (ledger: LinkLedger): number => ledger.asked_bits.reduce((sum, bits, at) => sum + bits - (ledger.achieved_bits[at] ?? 0), 0);
  const worst = [...report.ledger].sort((a, b) => missing(b) - missing(a));
  const pictures = worst.flatMap((ledger) => {
    const signals = report.signals.find((of) => `${of.source}→${of.destination}` === ledger.link);
    const all = signals === undefined ? [] : points(report, signals);
    return all.length < FEWEST ? [] : [picture(ledger.link, all, showLink)];
  });
  if (pictures.length === 0) return null;
  return [
    h("h3", {}, "Rate against copies at once"),
    h("p", { class: "hint" }, "One dot for each bin of the hold, of the links that miss most. On a line through the origin each copy has its rate whatever the others do; a flat top is a limit that all share."),
    h("ul", { class: "multiples", "aria-label": "Rate against copies at once" }, pictures.slice(0, SHOWN)),
  ];
}

function picture(link: string, all: readonly Point[], showLink: (name: string) => void): HTMLElement {
  const most = Math.max(1, ...all.map((point) => point.copies));
  const top = Math.max(1, ...all.map((point) => point.bps));
  const x = (copies: number): string => (RADIUS + (copies / most) * (WIDTH - 2 * RADIUS)).toFixed(1);
  const y = (bps: number): string => (HEIGHT - RADIUS - (bps / top) * (HEIGHT - 2 * RADIUS)).toFixed(1);
  const dots = all.map((point) => s("circle", { class: "dot", cx: x(point.copies), cy: y(point.bps), r: RADIUS }));
  return h(
    "li",
    {},
    h(
      "button",
      { type: "button", on: { click: () => showLink(link) } },
      h("span", { class: "name" }, breakable(link)),
      h("span", { class: "is" }, `up to ${digits(Math.round(most * 10) / 10)} copies, ${rate(top)}`),
      s("svg", { class: "dots", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, "aria-hidden": "true" }, dots),
    ),
  );
}
