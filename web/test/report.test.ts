import { describe, expect, test } from "vitest";
import { parseReport, ReportError, SCHEMA } from "../src/report";
import { FIXTURES, minidc } from "./fixtures.mjs";

/** A report as its JSON has it, to be damaged. */
type Loose = Record<string, unknown> & { totals: Record<string, unknown>; series: Record<string, unknown> };
const whole = (): Loose => structuredClone(minidc()) as unknown as Loose;

function refusal(value: unknown): ReportError {
  try {
    parseReport(typeof value === "string" ? value : JSON.stringify(value));
  } catch (error) {
    if (error instanceof ReportError) return error;
    throw error;
  }
  throw new Error("it was accepted");
}

test("reports of every kind are read", () => {
  for (const make of Object.values(FIXTURES)) {
    const report = make();
    expect(parseReport(JSON.stringify(report)).links).toHaveLength(report.links.length);
  }
});

test("fields that this page does not know are left alone", () => {
  expect(parseReport(JSON.stringify({ ...whole(), later: { addition: 1 } })).challenge).toBe("minidc-uk");
});

test("what may be missing is null or empty, never zero", () => {
  const report = whole();
  for (const key of ["audit", "errors", "events", "host", "weir", "description", "stability", "advice", "thresholds", "crosschecks", "workloads", "parameters"]) delete report[key];
  delete report.totals["efficiency"];
  const read = parseReport(JSON.stringify(report));
  expect([read.audit, read.errors, read.host, read.totals.efficiency, read.parameters.size]).toEqual([null, [], null, null, 0]);
});

test("a seed of 64 bits keeps all its digits", () => {
  const json = JSON.stringify({ ...whole(), description: 'a "seed": 1 in text' }).replace('"seed":42', '"seed":18446744073709551615');
  expect(parseReport(json).seed).toBe("18446744073709551615");
});

describe("what cannot be shown is refused, and says why", () => {
  test("text that is no JSON", () => expect(refusal("{").message).toMatch(/not JSON/));
  test("JSON that is no object", () => expect(refusal([1]).message).toMatch(/not a report/));
  test("JSON without a schema", () => expect(refusal({ verdict: "pass" }).message).toMatch(/no "schema"/));
  test("another version", () => {
    const { message } = refusal({ ...whole(), schema: "weir-report/2" });
    expect(message).toContain('"weir-report/2"');
    expect(message).toContain(SCHEMA);
    expect(message).toContain("weir report DIR");
  });
  test("another contract altogether", () => expect(refusal({ schema: "weir-grid/1" }).message).toMatch(/report\.json of a run folder/));

  test("every missing or wrong field, by its path", () => {
    const report = whole();
    delete report["verdict"];
    report.totals["transfers"] = "many";
    (report["links"] as Record<string, unknown>[])[3]!["failed"] = null;
    const paths = refusal(report).problems.map(({ path }) => path);
    expect(paths).toEqual(["verdict", "totals.transfers", "links[3].failed"]);
    expect(refusal(report).problems[0]!.message).toBe("expected one of pass, none, fail, unstable, found nothing");
  });

  test("a series of another length than it says", () => {
    const report = whole();
    report.series["n_bins"] = 60;
    expect(refusal(report).problems[0]).toEqual({ path: "series.total.asked_bps", message: "expected 60 bins (series.n_bins), found 78" });
  });

  test("a bin that is no number", () => {
    const report = whole();
    (report.series["total"] as Record<string, unknown[]>)["active"]![7] = "8";
    expect(refusal(report).problems.map(({ path }) => path)).toEqual(["series.total.active[7]"]);
  });
});
