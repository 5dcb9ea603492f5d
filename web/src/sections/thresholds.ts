// The thresholds that decide the verdict, failures first.
import { figure, tick, type Section } from "../parts";
import type { Report, Threshold } from "../report";
import { table } from "../table";
import { inUnit, measured, NONE } from "../units";

const SIGNS: Readonly<Record<string, string>> = { ">=": "≥", "<=": "≤", ">": ">", "<": "<", "==": "=", "=": "=" };

export function thresholds(report: Report): Section | null {
  if (report.thresholds.length === 0) return null;
  const failed = report.thresholds.filter((threshold) => !threshold.pass).length;
  const indexed = report.thresholds.map((threshold, index) => ({ threshold, index }));
  const rows = [...indexed].sort((a, b) => Number(a.threshold.pass) - Number(b.threshold.pass));
  const caption = failed === 0 ? `All ${rows.length} thresholds hold.` : `${failed} of ${rows.length} thresholds missed.`;
  const made = table<(typeof rows)[number]>({
    caption,
    rows,
    limit: Math.max(40, failed),
    className: "thresholds",
    rowAttributes: ({ threshold }) => ({ "data-pass": String(threshold.pass) }),
    columns: [
      { label: "Threshold", cell: ({ threshold }) => threshold.name },
      { label: "Asked", numeric: true, cell: ({ threshold }) => `${SIGNS[threshold.comparison] ?? threshold.comparison} ${inUnit(threshold.asked, threshold.unit)}` },
      { label: "Measured", numeric: true, cell: ({ threshold, index }) => figure(`thresholds[${index}].measured`, shown(threshold)) },
      { label: "Met", className: "ticks", cell: ({ threshold }) => tick(threshold.pass) },
    ],
  });
  return { id: "thresholds", title: "Thresholds", content: made.element };
}

function shown(threshold: Threshold): string {
  return threshold.measured === null ? `${NONE} (not measured)` : measured(threshold.measured, threshold.asked, threshold.unit);
}
