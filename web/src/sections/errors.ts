// Errors by class: how many, since when, whose, what one of them said, and what to do.
import { h } from "../dom";
import { figure, longText, type Section } from "../parts";
import type { ErrorClass, Report } from "../report";
import { table } from "../table";
import { count, duration, NONE } from "../units";

export function errors(report: Report): Section {
  const title = "Errors";
  if (report.errors.length === 0) {
    return { id: "errors", title, content: h("p", { class: "fine" }, report.totals.failed === 0 ? "No transfer failed." : "No error was classified.") };
  }
  const rows = report.errors.map((error, index) => ({ error, index })).sort((a, b) => b.error.count - a.error.count);
  const all = rows.reduce((sum, { error }) => sum + error.count, 0);
  const widest = rows[0]?.error.count ?? 1;
  const made = table<{ readonly error: ErrorClass; readonly index: number }>({
    caption: `${count(all)} ${all === 1 ? "error" : "errors"} in ${rows.length} ${rows.length === 1 ? "class" : "classes"}.`,
    rows,
    className: "errors",
    columns: [
      { label: "Class", className: "class", cell: ({ error }) => [h("strong", {}, error.class), error.party === null ? null : h("span", { class: "party" }, error.party)] },
      {
        label: "Count",
        numeric: true,
        cell: ({ error, index }) => [
          figure(`errors[${index}].count`, count(error.count)),
          h("span", { class: "amount", "aria-hidden": "true" }, h("span", { style: `width:${((error.count / widest) * 100).toFixed(1)}%` })),
        ],
      },
      { label: "First seen", numeric: true, cell: ({ error }) => (error.first_seen_s === null ? NONE : duration(error.first_seen_s)) },
      {
        label: "Example message and remedy",
        className: "said",
        cell: ({ error }) => [
          error.sample === null ? null : h("p", {}, longText(error.sample)),
          error.remedy === null ? null : h("p", { class: "remedy" }, h("span", { class: "label" }, "Remedy "), error.remedy),
        ],
      },
    ],
  });
  return { id: "errors", title, content: made.element };
}
