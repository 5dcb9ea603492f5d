import { expect, test } from "vitest";
import { matches } from "../src/combobox";
import { sort } from "../src/table";
import { disagreement, lookup, read } from "./browser/figures.mjs";

test("a link is found by parts of its name in any order and case", () => {
  const links = ["RAL→QMUL", "QMUL→RAL", "RAL→GLA", "T2-RAL→GLA"];
  expect(matches(links, "qm ral")).toEqual(["QMUL→RAL", "RAL→QMUL"]);
  expect(matches(links, "ral → gla")).toEqual(["RAL→GLA", "T2-RAL→GLA"]);
  expect(matches(links, "")).toEqual(links);
  expect(matches(links, "xyz")).toEqual([]);
});

test("rows without a value stay last in either direction", () => {
  const rows = [{ v: 2 }, { v: null }, { v: 1 }];
  const by = { sortBy: (row: { v: number | null }) => row.v };
  expect(sort(rows, by, false).map((row) => row.v)).toEqual([1, 2, null]);
  expect(sort(rows, by, true).map((row) => row.v)).toEqual([2, 1, null]);
});

// The browser test would prove nothing if it read figures wrongly.
test("the browser test reads figures as a person does", () => {
  expect(read("1.31\u00a0Gb/s")?.value).toBeCloseTo(1.31e9);
  expect(read("92.2 %")?.value).toBeCloseTo(0.922);
  expect(read("12\u00a0345")?.value).toBe(12_345);
  expect(read("2 min 30 s")?.value).toBe(150);
  expect(read("270", "Mb/s")?.value).toBe(270e6);
  expect(read("−1.8 s")?.value).toBe(-1.8);
  expect(read("–")).toBeNull();
  expect(() => read("much")).toThrow();
});

test("the browser test finds a figure that is wrong", () => {
  const report = { totals: { ratio: 0.922, asked_bps: 1_313_120_000 }, cv: { "T2.UK": 0.5 } };
  expect(lookup(report, 'cv["T2.UK"]')).toBe(0.5);
  expect(disagreement(report, { path: "totals.ratio", unit: null, text: "92.2 %" })).toBeNull();
  expect(disagreement(report, { path: "totals.ratio", unit: null, text: "92.4 %" })).toMatch(/totals.ratio/);
  expect(disagreement(report, { path: "totals.asked_bps", unit: null, text: "1.31 Gb/s" })).toBeNull();
  expect(disagreement(report, { path: "totals.asked_bps", unit: null, text: "1.31 Mb/s" })).toMatch(/asked/);
  expect(disagreement(report, { path: "totals.missing", unit: null, text: "1" })).toMatch(/no such field/);
});
