import { describe, expect, test } from "vitest";
import type { LinkSignals, Report } from "../src/report";
import { points } from "../src/sections/concurrency";

const signals: LinkSignals = { source: "A", destination: "B", bin_s: 2, known: [], waits: [], slots: { first_bin: 1, seconds: [8, 4, 2, 6] } };

/** Bins of one second, and a hold from 4 s to 8 s. */
function report(achieved: readonly (number | null)[]): Report {
  return {
    windows: { ramp: null, hold: { start_s: 4, end_s: 8 }, drain: null },
    series: { bin_s: 1, n_bins: achieved.length, links: new Map([["A→B", { achieved_bps: achieved }]]) },
  } as unknown as Report;
}

describe("rate against copies at once", () => {
  test("is that of the hold, in the bins of the signals", () => {
    const all = points(report([9, 9, 9, 9, 10, 30, null, 40, 99, 99]), signals);
    expect(all).toEqual([
      { copies: 2, bps: 20 },
      { copies: 1, bps: 20 },
    ]);
  });

  test("is none where nobody tells the time in slots", () => {
    expect(points(report([1, 2, 3, 4, 5, 6, 7, 8]), { ...signals, slots: null })).toEqual([]);
  });
});
