// Policies compared on one plan, `weir-comparison/1`: its types, and the loader. Units as in a report.
import { integer, isObject, list, listOrNone, maybe, number, object, otherwise, Problems, text, type Check, type Checked } from "./check";
import { bins, cell, chain, ReportError, step, threshold, totals } from "./report";

/** The version of the contract that this page reads. */
export const COMPARISON = "weir-comparison/1";

const workload = object({
  name: text,
  kind: text,
  asked_bps: maybe(number),
  ratio: maybe(number),
  cells: listOrNone(cell),
  steps: listOrNone(step),
});

const policy = object({
  policy: text,
  /** Achieved ÷ estimated optimum. */
  of_optimum: maybe(number),
  /** Length of the hold; where only steps are asked for, how long they took. */
  hold_s: number,
  thresholds: listOrNone(threshold),
  /** Rules that the simulated world broke: none in a sound run. */
  violations: listOrNone(text),
  totals,
  /** Where rules were made. */
  chain: maybe(chain),
  workloads: listOrNone(workload),
  series: object({ bin_s: number, asked_bps: bins, achieved_bps: bins }),
});

/** What one policy brought into a site, and what held it back. */
const brought = object({ achieved_bps: number, ratio: maybe(number), of_optimum: maybe(number), cause: maybe(text), held_back: maybe(text) });

const site = object({ site: text, asked_bps: number, optimum_bps: maybe(number), policies: list(brought) });

const comparison = object({
  schema: text,
  command: text,
  situation: text,
  result: maybe(text),
  challenge: text,
  description: otherwise(text, () => ""),
  seed: integer,
  scale: number,
  n_links: number,
  /** In the hold, of all links; zero where only steps are asked for. */
  asked_bps: number,
  /** What a scheduler that knows all beforehand could have moved, by estimate. */
  optimum_bps: maybe(number),
  optimum_spans: listOrNone(object({ from_s: number, until_s: number, rate_bps: number })),
  /** Whether all policies run under the same limits. */
  limits: otherwise(text, () => ""),
  /** What of the simulated world nobody measured. */
  assumed: listOrNone(text),
  /** At how many sites something held each policy back. */
  causes: listOrNone(object({ cause: text, sentence: text, sites: list(number) })),
  policies: list(policy),
  sites: listOrNone(site),
});

export type Comparison = Checked<typeof comparison>;
export type Policy = Checked<typeof policy>;
export type ComparedWorkload = Checked<typeof workload>;
export type ComparedSite = Checked<typeof site>;

/** Whether data says that it is a comparison, of this version or another. */
export function isComparison(value: unknown): boolean {
  return isObject(value) && typeof value["schema"] === "string" && value["schema"].startsWith("weir-comparison/");
}

/**
 * Checks data that is already parsed.
 *
 * @throws {ReportError} if it is of another version, or lacks what the page needs.
 */
export function checkComparison(value: unknown): Comparison {
  if (!isObject(value) || value["schema"] !== COMPARISON) {
    const schema = isObject(value) ? String(value["schema"]) : "none";
    throw new ReportError(`The data is of schema "${schema}"; this page reads "${COMPARISON}". Compare again: weir sim compare FILE --html PAGE.`);
  }
  const problems = new Problems();
  const checked: Comparison = (comparison as Check<Comparison>)(value, "", problems);
  if (problems.found.length === 0) checkLengths(checked, problems);
  if (problems.found.length > 0) throw new ReportError("The comparison is incomplete or damaged, so nothing of it is shown.", problems.found);
  return checked;
}

/** A list with another length than the policies' would be shown in the wrong columns. */
function checkLengths(checked: Comparison, problems: Problems): void {
  const n = checked.policies.length;
  if (n === 0) problems.note("policies", "expected one at least");
  const same = (length: number, path: string): void => {
    if (length !== n) problems.note(path, `expected ${n} entries, one per policy, found ${length}`);
  };
  checked.sites.forEach((of, index) => same(of.policies.length, `sites[${index}].policies`));
  checked.causes.forEach((of, index) => same(of.sites.length, `causes[${index}].sites`));
  checked.policies.forEach((of, index) => {
    if (of.series.bin_s <= 0) problems.note(`policies[${index}].series.bin_s`, `expected more than 0, found ${of.series.bin_s}`);
  });
}
