import { expect, test } from "vitest";
import { checkComparison, isComparison } from "../src/comparison";
import { parseJson, ReportError } from "../src/report";
import { COMPARISONS, rated } from "./comparison.mjs";
import { minidc } from "./fixtures.mjs";

type Loose = Record<string, unknown> & { sites: { policies: unknown[] }[]; policies: Record<string, unknown>[] };
const whole = (): Loose => structuredClone(rated()) as unknown as Loose;

function refusal(value: unknown): ReportError {
  try {
    checkComparison(parseJson(JSON.stringify(value)));
  } catch (error) {
    if (error instanceof ReportError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

test("comparisons of every kind are read, and told from reports", () => {
  for (const make of Object.values(COMPARISONS)) {
    const data = parseJson(JSON.stringify(make()));
    expect(isComparison(data)).toBe(true);
    expect(checkComparison(data).policies).toHaveLength(4);
  }
  expect(isComparison(minidc())).toBe(false);
});

test("another version is named", () => {
  expect(refusal({ ...whole(), schema: "weir-comparison/2" }).message).toContain("weir-comparison/2");
});

test("what is damaged is named by its path", () => {
  const short = whole();
  short.sites[3]?.policies.pop();
  expect(refusal(short).problems).toEqual([{ path: "sites[3].policies", message: "expected 4 entries, one per policy, found 3" }]);
  const wrong = whole();
  (wrong.policies[1] as Record<string, unknown>)["totals"] = {};
  expect(refusal(wrong).problems.map((problem) => problem.path)).toContain("policies[1].totals.transfers");
  expect(refusal({ ...whole(), policies: [] }).problems.map((problem) => problem.path)).toContain("policies");
});
