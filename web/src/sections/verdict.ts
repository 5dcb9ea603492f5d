// The answer first: pass, fail, unstable or none, why, and the figures that a meeting asks for.
import { h, type Child } from "../dom";
import { note, type Note } from "../methods";
import { figure } from "../parts";
import type { Report } from "../report";
import { bytes, bytesParts, count, duration, moment, NONE, percent, percentValue, rate, rateParts, share, GAP, type Quantity } from "../units";

const WORDS = {
  pass: { sign: "✓", word: "Pass" },
  none: { sign: "–", word: "No verdict" },
  fail: { sign: "✗", word: "Fail" },
  unstable: { sign: "≈", word: "Unstable" },
} as const;

/** Reasons shown at once: a meeting reads no more. */
const MAX_REASONS = 6;

/** Name, description and circumstances of the run, then the verdict with its reasons. */
export function verdict(report: Report): HTMLElement {
  const { sign, word } = WORDS[report.verdict];
  const { totals, windows } = report;
  const hold = windows.hold ? windows.hold.end_s - windows.hold.start_s : null;
  const headline: Child =
    totals.asked_bps && totals.achieved_bps !== null
      ? [
          "Achieved ",
          figure("totals.achieved_bps", rate(totals.achieved_bps)),
          " of ",
          figure("totals.asked_bps", rate(totals.asked_bps)),
          " asked",
          hold === null ? "" : ` over ${duration(hold)}`,
          totals.ratio === null ? "" : [": ", figure("totals.ratio", percent(totals.ratio))],
        ]
      : [figure("totals.finished", count(totals.finished)), " of ", figure("totals.transfers", count(totals.transfers)), " transfers finished"];
  return h(
    "section",
    { class: "verdict", "data-verdict": report.verdict, "aria-labelledby": "verdict-word" },
    h("p", { class: "word", id: "verdict-word" }, h("span", { class: "sign", "aria-hidden": "true" }, sign), h("span", { class: "sr" }, "Verdict: "), word),
    h(
      "div",
      { class: "why" },
      h("p", { class: "headline" }, headline),
      reasons(report.verdict_reasons),
      report.advice !== null && h("p", { class: "advice" }, h("strong", {}, "Advice: "), report.advice),
      report.verified_by_size.length > 0 &&
        h("p", { class: "by-size" }, "Copies to ", report.verified_by_size.join(", "), " are verified by size alone: no checksum is reported there."),
      report.interrupted && h("p", { class: "interrupted" }, "The run was interrupted: figures cover the time until then."),
      report.incomplete &&
        h(
          "p",
          { class: "interrupted" },
          "The run did not come to its end: this report was built from the rows that it left. Counters were not compared, and no file was read back.",
        ),
    ),
  );
}

/** The weightiest reasons; many more than that are there on demand. */
function reasons(all: readonly string[]): Child {
  const item = (reason: string): HTMLElement => h("li", {}, reason);
  const shown = all.length > MAX_REASONS + 1 ? all.slice(0, MAX_REASONS) : all;
  const rest = all.slice(shown.length);
  return [
    shown.length > 0 && h("ul", {}, shown.map(item)),
    rest.length > 0 && h("details", {}, h("summary", {}, `${rest.length} more reasons`), h("ul", {}, rest.map(item))),
  ];
}

/** The line under the title: challenge, start, duration. */
export function circumstances(report: Report): HTMLElement {
  const { ramp, hold, drain } = report.windows;
  const length = (window: typeof hold): string => (window ? duration(window.end_s - window.start_s) : NONE);
  // A run without a ramp or a drain has one that lasts next to nothing.
  const lengths = Object.entries({ ramp, hold, drain }).filter(([, window]) => window && window.end_s - window.start_s >= 0.01);
  const parts: Child[] = [
    // A simulated world without a calendar tells its time from T+0, which says nothing here.
    report.started_at === null || report.started_at.startsWith("T+") ? null : h("span", {}, h("time", { datetime: report.started_at }, moment(report.started_at))),
    lengths.length > 0 && h("span", {}, lengths.map(([name, window]) => `${name} ${length(window)}`).join(", ")),
    report.scale === 1 ? h("span", {}, "full scale") : h("span", {}, `scale ${report.scale}`),
    h("span", {}, `seed ${report.seed}`),
    report.host?.name ? h("span", {}, report.host.name) : null,
  ];
  return h("p", { class: "circumstances" }, parts);
}

/** The key figures. */
export function figures(report: Report): HTMLElement {
  const { totals } = report;
  const asked = totals.asked_bps ? totals.asked_bps : null;
  const part = (label: string, value: number | null): string | null => (value === null ? null : `${label} ${bytes(value)}`);
  const volumes = [
    part("hold", totals.hold_verified_bytes),
    part("ramp", totals.ramp_verified_bytes),
    part("drain", totals.drain_verified_bytes),
  ].filter((text) => text !== null);
  const tiles: Child[] = [
    asked !== null &&
      tile("Asked", "asked", "totals.asked_bps", rateParts(asked), totals.asked_bytes === null ? null : ["volume ", figure("totals.asked_bytes", bytes(totals.asked_bytes))]),
    // Where no rate is asked, as of copies one after the other, the mean over the hold says how long they took, not how fast they were.
    totals.achieved_bps !== null &&
      tile(asked === null ? "Mean over the hold" : "Achieved", "achieved", "totals.achieved_bps", rateParts(totals.achieved_bps), asked === null ? "verified; no rate was asked" : "verified, in the hold"),
    asked !== null && totals.ratio !== null && tile("Achieved ÷ asked", "ratio", "totals.ratio", { value: percentValue(totals.ratio), unit: "%" }, bar(totals.ratio)),
    totals.verified_bytes !== null && tile("Verified volume", "verified", "totals.verified_bytes", bytesParts(totals.verified_bytes), volumes.join(", ")),
    tile("Transfers", null, "totals.transfers", { value: count(totals.transfers), unit: "" }, [
      totals.finished === null ? null : [figure("totals.finished", count(totals.finished)), " finished"],
      totals.cancelled === 0 ? null : [", ", figure("totals.cancelled", count(totals.cancelled)), " cancelled"],
      totals.unanswered === 0 ? null : [" (", figure("totals.unanswered", count(totals.unanswered)), " unanswered)"],
      totals.retries === null ? null : [", ", figure("totals.retries", count(totals.retries)), totals.retries === 1 ? " retry" : " retries"],
    ]),
    tile("Failed", "failed", "totals.failed", { value: count(totals.failed), unit: "" }, [
      totals.transfers > 0 && `${share(totals.failed, totals.transfers)} of transfers`,
      totals.moved_bytes_failed ? [", ", figure("totals.moved_bytes_failed", bytes(totals.moved_bytes_failed)), " moved in vain"] : null,
    ]),
    totals.efficiency !== null &&
      tile("Efficiency", "efficiency", "totals.efficiency", { value: percentValue(totals.efficiency), unit: "%" }, "finished ÷ (finished + failed)"),
    totals.times !== null && totals.times.transfer_s !== null && durationTile("Transfer time, median", "totals.times.transfer_s", totals.times.transfer_s),
    totals.times !== null && totals.times.rate_bps !== null && speedTile(totals.times.rate_bps),
    totals.times !== null && totals.times.first_byte_s !== null && durationTile("Time to first byte, median", "totals.times.first_byte_s", totals.times.first_byte_s),
    totals.lateness_p95_s !== null && latenessTile(totals.lateness_p95_s, totals.lateness_max_s),
  ];
  return h("dl", { class: "figures", "aria-label": "Key figures" }, tiles);
}

interface Percentiles {
  p5: number;
  p50: number;
  p95: number;
  p99: number;
}

function durationTile(label: string, path: string, times: Percentiles): HTMLElement {
  const [value = NONE, unit = ""] = duration(times.p50).split(GAP);
  return tile(label, "time", `${path}.p50`, { value, unit }, ["p95 ", figure(`${path}.p95`, duration(times.p95)), ", p99 ", figure(`${path}.p99`, duration(times.p99))]);
}

function speedTile(rates: Percentiles): HTMLElement {
  return tile("Rate of a transfer, median", "time", "totals.times.rate_bps.p50", rateParts(rates.p50), ["95 % reached ", figure("totals.times.rate_bps.p5", rate(rates.p5))]);
}

function latenessTile(p95: number, max: number | null): HTMLElement {
  const [value = NONE, unit = ""] = duration(p95).split(GAP);
  return tile("Start lateness, p95", "lateness", "totals.lateness_p95_s", { value, unit }, max === null ? null : ["at most ", figure("totals.lateness_max_s", duration(max))]);
}

function tile(label: string, ref: Note | null, path: string, quantity: Quantity, below: Child): HTMLElement {
  const unit = quantity.unit === "" ? null : h("span", { class: "unit" }, `${GAP}${quantity.unit}`);
  return h(
    "div",
    {},
    h("dt", {}, label, ref && note(ref)),
    h("dd", {}, h("span", { class: "value", "data-path": path }, quantity.value, unit), h("span", { class: "below" }, below)),
  );
}

/** How far the achieved rate reaches towards the asked one; the tick is the asked one. */
function bar(ratio: number): SVGSVGElement | HTMLElement {
  const width = Math.max(0, Math.min(1.25, ratio)) * 80;
  return h("span", { class: "bar", "aria-hidden": "true" }, h("span", { class: "fill", style: `width:${width.toFixed(1)}%` }), h("span", { class: "goal" }));
}
