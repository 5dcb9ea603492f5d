import { describe, expect, test } from "vitest";
import type { LinkLedger } from "../src/report";
import { classes, layers, missed, UNEXPLAINED } from "../src/why";

function ledger(link: string, causes: readonly (readonly [string, readonly number[]])[], rest: readonly number[]): LinkLedger {
  const sum = (bits: readonly number[]): number => bits.reduce((all, value) => all + value, 0);
  return {
    link,
    bin_s: 10,
    first_bin: 2,
    asked_bits: rest.map(() => 100),
    achieved_bits: rest.map((bits, bin) => 100 - bits - sum(causes.map(([, of]) => of[bin] ?? 0))),
    causes: causes.map(([name, bits]) => ({ class: name, place: "rse-in:B", total_bits: sum(bits), bits: [...bits] })),
    rest_bits: [...rest],
  };
}

const two = [
  ledger("A→B", [["outage", [10, 20]], ["space", [5, 0]]], [1, -4]),
  ledger("C→B", [["space", [40, 40]]], [0, 0]),
];

describe("missing bits", () => {
  test("the class with most bits comes first", () => {
    expect(classes(two)).toEqual(["space", "outage"]);
  });

  test("are those of all links, in the bins of the run; what was made up for is not missing", () => {
    expect(layers(two, classes(two))).toEqual([
      { name: "space", bins: [0, 0, 45, 40] },
      { name: "outage", bins: [0, 0, 10, 20] },
      { name: UNEXPLAINED, bins: [0, 0, 1, 0] },
    ]);
  });

  test("of many classes the smallest share one layer", () => {
    const many = Array.from({ length: 11 }, (_, at): readonly [string, readonly number[]] => [`class-${at}`, [20 - at]]);
    const shown = layers([ledger("A→B", many, [0])], classes([ledger("A→B", many, [0])]));
    expect(shown.map((layer) => layer.name).slice(-2)).toEqual(["other causes", UNEXPLAINED]);
    expect(shown.at(-2)?.bins[2]).toBe(12 + 11 + 10);
  });

  test("of a link have the class that holds most", () => {
    expect(two.map(missed)).toEqual([
      { link: "A→B", share: 32 / 200, class: "outage", place: "rse-in:B" },
      { link: "C→B", share: 0.4, class: "space", place: "rse-in:B" },
    ]);
    expect(missed(ledger("A→B", [], [1]))).toBeNull();
  });
});
