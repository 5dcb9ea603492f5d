import { expect, test } from "vitest";
import { binAt, highest, mean, merge, mergeSum, merging, stack, steps, sum } from "../src/series";
import { eventNumbers, roundStep } from "../src/sections/timeline";

test("a bin without data is a gap in the outline, never zero", () => {
  expect(steps([2, null, 3], 10)).toEqual([
    [0, 2],
    [10, 2],
    [10, null],
    [20, 3],
    [30, 3],
  ]);
});

test("merged bins are means of what is known; nothing known stays a gap", () => {
  expect(merge([1, 3, null, 5, null, null, 7], 2)).toEqual([2, 5, null, 7]);
  expect(merge([1, null], 1)).toEqual([1, null]);
});

test("merged counts add up", () => {
  expect(mergeSum([1, 3, null, 5, null, null, 7], 2)).toEqual([4, 5, null, 7]);
});

test("merging leaves at most the limit", () => {
  for (const n of [0, 1, 1500, 1501, 103_680]) expect(Math.ceil(n / merging(n, 1500))).toBeLessThanOrEqual(1500);
});

test("a sum is unknown only where every part is", () => {
  expect(sum([[1, null, null], [2, 3, null]])).toEqual([3, 3, null]);
});

test("the top of a stack is the sum of all layers", () => {
  const layers = [[1, null, 0], [2, 2, null], [4, 4, 4]];
  expect(stack(layers)).toEqual([[1, null, 0], [3, 2, 0], [7, 6, 4]]);
  expect(stack(layers).at(-1)).toEqual(sum(layers));
});

test("means and maxima pass over gaps", () => {
  expect([mean([1, null, 3]), mean([null]), highest([1, null, 3]), highest([])]).toEqual([2, null, 3, null]);
});

test("a moment belongs to the bin that begins with it", () => {
  expect([binAt(0, 10, 3), binAt(10, 10, 3), binAt(29.9, 10, 3), binAt(30, 10, 3), binAt(-1, 10, 3)]).toEqual([0, 1, 2, null, null]);
});

test("axis steps are 1, 2 or 5 times a power of ten", () => {
  expect([0, 0.3, 1, 1.01, 330_000_000].map(roundStep)).toEqual([1, 0.5, 1, 2, 500_000_000]);
});

test("numbers of events never overprint", () => {
  // 370 pixels show 300 seconds, so that a number needs 26 of them.
  expect(eventNumbers([0, 100, 101, 102, 200], 300, 370)).toEqual(["1", "2–4", "", "", "5"]);
  expect(eventNumbers([0, 25, 50, 75], 300, 370)).toEqual(["1–2", "", "3–4", ""]);
  expect(eventNumbers([], 300, 370)).toEqual([]);
  // Too many to tell apart: the list below the chart has them.
  expect(eventNumbers(Array.from({ length: 13 }, (_, at) => at * 100), 1300, 1370).join("")).toBe("");
});
