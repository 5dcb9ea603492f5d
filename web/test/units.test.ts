import { describe, expect, test } from "vitest";
import * as units from "../src/units";

/** As it reads, with plain spaces. */
const plain = (text: string): string => text.replaceAll(units.GAP, " ");

describe("rates and volumes", () => {
  test.each([
    [0, "0 b/s"],
    [1, "1.00 b/s"],
    [999.4, "999 b/s"],
    [999.6, "1.00 kb/s"],
    [1_313_120_000, "1.31 Gb/s"],
    [270_000_000, "270 Mb/s"],
    [45_000_000, "45.0 Mb/s"],
    [1.4e12, "1.40 Tb/s"],
    [null, "–"],
  ])("a rate of %s reads %s", (bps, expected) => expect(plain(units.rate(bps))).toBe(expected));

  test.each([
    [0, "0 B"],
    [999, "999 B"],
    [256_000, "256 kB"],
    [9_871_234_567, "9.87 GB"],
    [2e18, "2.00 EB"],
  ])("a volume of %s reads %s", (bytes, expected) => expect(plain(units.bytes(bytes))).toBe(expected));

  test.each([
    [1_000_000, "1 MB"],
    [100_000_000, "100 MB"],
    [1_234_567, "1.23 MB"],
  ])("a chosen size of %s reads %s", (bytes, expected) => expect(plain(units.size(bytes))).toBe(expected));

  test("digits come in groups of three, four stay together", () => {
    expect(["999", "1234", "12 345", "1 234 567"]).toEqual([999, 1234, 12_345, 1_234_567].map((n) => plain(units.count(n))));
  });
});

describe("ratios", () => {
  test.each([
    [0.9, "90.0 %"],
    [0.8997, "89.9 %"],
    [0.89999, "89.9 %"],
    [0.69999, "69.9 %"],
    [0.9999, "99.9 %"],
    [1, "100.0 %"],
    [2, "200.0 %"],
    [0, "0.0 %"],
    [0.00004, "0.004 %"],
    [null, "–"],
  ])("a ratio of %s reads %s: rounding never lifts it over a limit", (ratio, expected) => expect(plain(units.percent(ratio))).toBe(expected));

  test("whole percents are cut below a limit as well", () => {
    expect([0.899, 0.9, 0.997, 1.004, 7.77].map((ratio) => units.percentValue(ratio, 0))).toEqual(["89", "90", "100", "100", "777"]);
  });

  test("levels begin at their limits", () => {
    expect([1.2, 0.9, 0.8999, 0.7, 0.6999, 0.5, 0.4999, 0].map(units.level)).toEqual([3, 3, 2, 2, 1, 1, 0, 0]);
  });

  test("a share of failures is not rounded to nothing", () => {
    expect([units.share(0, 100), units.share(1, 33_000_000), units.share(12, 951), units.share(0, 0)].map(plain)).toEqual(["0 %", "0.0000030 %", "1.3 %", "–"]);
  });

  test("a difference of counters is 0 only where it is 0", () => {
    expect([0, 1e-9, 0.00003, 0.01, null].map((ratio) => plain(units.difference(ratio)))).toEqual(["0 %", "< 0.0001 %", "0.0030 %", "1.0 %", "–"]);
  });
});

describe("times", () => {
  test.each([
    [0, "0 s"],
    [0.0431, "43.1 ms"],
    [0.9999, "1 s"],
    [8.2, "8.2 s"],
    [60, "60 s"],
    [119.96, "120 s"],
    [150, "2 min 30 s"],
    [3900, "65 min"],
    [7500, "2 h 5 min"],
    [273_600, "3 d 4 h"],
    [-1.8, "−1.8 s"],
  ])("%s seconds read %s", (seconds, expected) => expect(plain(units.duration(seconds))).toBe(expected));

  test("a moment is as fine as the run is short", () => {
    expect([units.clock(70.004, 78), units.clock(70, 600), units.clock(70, 7200), units.clock(100_000, 1e6), units.clock(-1.8, 78)].map(plain)).toEqual(["70 s", "1:10", "0:01:10", "1 d 3 h", "−1.8 s"]);
  });

  test("a time of day is in UTC; what is no time stays as it is", () => {
    expect(plain(units.moment("2026-11-21T13:00:00.5+01:00"))).toBe("2026-11-21 12:00:00 UTC");
    expect(units.moment("yesterday")).toBe("yesterday");
  });
});

describe("thresholds", () => {
  test.each([
    [0.97, 0.9, "", "0.970"],
    [0.89997, 0.9, "", "0.89997"],
    [0.9, 0.9, "", "0.900"],
    [412_000_000, 300_000_000, "bit/s", "412 Mb/s"],
    [299_990_000, 300_000_000, "bit/s", "299.99 Mb/s"],
    [0.0431, 1, "s", "0.0431 s"],
  ])("%s measured against %s %s reads %s: enough digits to differ as they did", (value, asked, unit, expected) => {
    expect(plain(units.measured(value, asked, unit))).toBe(expected);
  });

  test("a limit has no digits that say nothing", () => {
    expect([units.limit(0.9, ""), units.limit(300e6, "bit/s"), units.limit(1, "s"), units.limit(1.5e9, "b/s"), units.limit(1000, "")].map(plain)).toEqual(["0.9", "300 Mb/s", "1 s", "1.5 Gb/s", "1000"]);
  });
});
