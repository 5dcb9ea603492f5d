// The thresholds that decide the verdict, failures first.
import { breakable, h, type Child } from "../dom";
import { figure, tick, type Section } from "../parts";
import type { Report, Threshold } from "../report";
import { table } from "../table";
import { limit, measured, NONE } from "../units";

const SIGNS: Readonly<Record<string, string>> = { ">=": "≥", "<=": "≤", ">": ">", "<": "<", "==": "=", "=": "=" };

export function thresholds(report: Report): Section | null {
  if (report.thresholds.length === 0) return null;
  const failed = report.thresholds.filter((threshold) => !threshold.pass).length;
  const indexed = report.thresholds.map((threshold, index) => ({ threshold, index }));
  const rows = [...indexed].sort((a, b) => Number(a.threshold.pass) - Number(b.threshold.pass));
  const all = rows.length === 1 ? "The threshold holds." : `All ${rows.length} thresholds hold.`;
  const caption = failed === 0 ? all : `${failed} of ${rows.length} thresholds missed.`;
  const made = table<(typeof rows)[number]>({
    caption,
    rows,
    limit: Math.max(12, failed),
    className: "thresholds",
    rowAttributes: ({ threshold }) => ({ "data-pass": String(threshold.pass) }),
    columns: [
      { label: "Threshold", cell: ({ threshold }) => breakable(threshold.name) },
      { label: "Asked", numeric: true, cell: ({ threshold }) => `${SIGNS[threshold.comparison] ?? threshold.comparison} ${limit(threshold.asked, threshold.unit)}` },
      { label: "Measured", numeric: true, cell: ({ threshold, index }) => figure(`thresholds[${index}].measured`, shown(threshold)) },
      { label: "Met", className: "ticks", cell: ({ threshold }) => tick(threshold.pass) },
      { label: "Measured ÷ asked", className: "gauge", cell: ({ threshold }) => gauge(threshold) },
    ],
  });
  return { id: "thresholds", title: "Thresholds", content: made.element };
}

/** The measured value as a bar, the limit as a line across it: below the line is short of it, or within it for "at most". */
function gauge(threshold: Threshold): Child {
  if (threshold.measured === null || threshold.asked <= 0) return null;
  const reach = Math.max(0, Math.min(1.25, threshold.measured / threshold.asked)) * 80;
  const fill = h("span", { class: threshold.pass ? "fill" : "fill short", style: `width:${reach.toFixed(1)}%` });
  return h("span", { class: "bar", "aria-hidden": "true" }, fill, h("span", { class: "goal" }));
}

function shown(threshold: Threshold): string {
  return threshold.measured === null ? `${NONE} (not measured)` : measured(threshold.measured, threshold.asked, threshold.unit);
}
