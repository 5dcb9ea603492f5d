// The same quantity, counted apart by the transfer service and by the storages on both sides; then the audit.
import { h, type Child } from "../dom";
import { note } from "../methods";
import { figure, tick, type Section } from "../parts";
import type { Audit, Crosscheck, Report } from "../report";
import { table } from "../table";
import { bytes, count, difference, NONE } from "../units";

export function crosschecks(report: Report): Section | null {
  const rows = report.crosschecks.map((check, index) => ({ check, index }));
  rows.sort((a, b) => Number(a.check.pass) - Number(b.check.pass));
  if (rows.length === 0 && !report.audit) return null;
  return { id: "crosschecks", title: "Cross-checks and audit", short: "Cross-checks", content: [rows.length > 0 && checks(rows), audit(report.audit)] };
}

type Row = { readonly check: Crosscheck; readonly index: number };

function checks(rows: readonly Row[]): HTMLElement {
  const failed = rows.filter(({ check }) => !check.pass).length;
  const verdict = failed === 0 ? `All ${rows.length} comparisons agree` : `${failed} of ${rows.length} comparisons disagree`;
  const counter = (field: "transfer_service" | "receiving_storage" | "sending_storage") => ({
    label: field.replace("_", " "),
    group: "As counted by the",
    numeric: true,
    cell: ({ check, index }: Row) => figure(`crosschecks[${index}].${field}`, check[field] === null ? NONE : count(check[field])),
  });
  const notes = rows.some(({ check }) => check.note !== null);
  return table<Row>({
    caption: [verdict, note("crosscheck"), "."],
    rows,
    limit: Math.max(12, failed),
    className: "crosschecks",
    rowAttributes: ({ check }) => ({ "data-pass": String(check.pass) }),
    columns: [
      { label: "Subject", cell: ({ check }) => check.subject, sortBy: ({ check }) => check.subject },
      { label: "Quantity", className: "quantity", cell: ({ check }) => check.quantity },
      counter("transfer_service"),
      counter("receiving_storage"),
      counter("sending_storage"),
      { label: "Difference", numeric: true, cell: ({ check }) => difference(check.difference_ratio), sortBy: ({ check }) => check.difference_ratio },
      { label: "Agree", className: "ticks", cell: ({ check }) => tick(check.pass) },
      ...(notes ? [{ label: "Note", className: "remark", cell: ({ check }: Row) => check.note ?? "" }] : []),
    ],
  }).element;
}

function audit(found: Audit | null): Child {
  if (!found) return h("p", { class: "hint" }, "No audit: no delivered file was read back (--audit N% reads a sample).");
  const asked = found.asked_percent === null ? "" : `${found.asked_percent} % asked: `;
  const files = [figure("audit.files", count(found.files)), found.files === 1 ? " file" : " files"];
  const volume = found.bytes === null ? "" : [" (", figure("audit.bytes", bytes(found.bytes)), ")"];
  const outcome =
    found.failed === 0 ? "every one as it was sent" : [h("strong", {}, figure("audit.failed", count(found.failed))), " not as sent"];
  const samples = found.samples.map(sampleText).filter((text) => text !== "");
  return h(
    "div",
    { class: "audit" },
    h("p", {}, tick(found.failed === 0), " ", h("strong", {}, "Audit"), note("audit"), " ", asked, files, " read back", volume, ": ", outcome, "."),
    samples.length > 0 && h("details", { class: "data" }, h("summary", {}, `${samples.length} of the files`), h("ul", { class: "samples" }, samples.map((text) => h("li", {}, text)))),
  );
}

/** Samples are text, or objects whose fields vary with the reader. */
function sampleText(sample: unknown): string {
  if (typeof sample === "string") return sample;
  if (typeof sample !== "object" || sample === null) return "";
  return Object.entries(sample)
    .filter(([, value]) => value !== null)
    .map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : String(value)}`)
    .join(", ");
}
