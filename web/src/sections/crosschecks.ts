// The same quantity, counted apart by the transfer service and by the storages on both sides; then the audit.
import { h, hidden, type Child } from "../dom";
import { note } from "../methods";
import { figure, tick, type Section } from "../parts";
import type { Audit, Crosscheck, Report } from "../report";
import { table } from "../table";
import { bytes, count, difference, NONE } from "../units";

export function crosschecks(report: Report): Section | null {
  const rows = report.crosschecks.map((check, index) => ({ check, index }));
  rows.sort((a, b) => rank(a.check) - rank(b.check));
  if (rows.length === 0 && !report.audit) return null;
  return { id: "crosschecks", title: "Cross-checks and audit", short: "Cross-checks", content: [rows.length > 0 && checks(rows), audit(report.audit)] };
}

/** What disagrees comes first, then what could not be compared. */
const rank = (check: Crosscheck): number => (check.pass === null ? 1 : check.pass ? 2 : 0);

type Row = { readonly check: Crosscheck; readonly index: number };

function checks(rows: readonly Row[]): HTMLElement {
  const failed = rows.filter(({ check }) => check.pass === false).length;
  const open = rows.filter(({ check }) => check.pass === null && !isAlone(check)).length;
  const verdict = outcome(failed, open, rows.filter(({ check }) => check.pass !== null).length, rows.length);
  const counter = (field: "transfer_service" | "receiving_storage" | "sending_storage" | "catalogue") => ({
    label: field.replace("_", " "),
    group: "As counted by the",
    numeric: true,
    cell: ({ check, index }: Row) => figure(`crosschecks[${index}].${field}`, check[field] === null ? NONE : count(check[field])),
  });
  const carried = rows.some(({ check }) => check.sockets !== null);
  const sockets = { label: "Sockets", numeric: true, cell: ({ check, index }: Row) => carriedCell(check, index), sortBy: ({ check }: Row) => check.sockets_difference_ratio };
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
      ...(rows.some(({ check }) => check.catalogue !== null) ? [counter("catalogue")] : []),
      { label: "Difference", numeric: true, cell: ({ check }) => difference(check.difference_ratio), sortBy: ({ check }) => check.difference_ratio },
      { label: "Agree", className: "ticks", cell: ({ check }) => agreement(check) },
      ...(carried ? [sockets] : []),
      ...(notes ? [{ label: "Note", className: "remark", cell: ({ check }: Row) => check.note ?? "" }] : []),
    ],
  }).element;
}

/** Whether there was nothing to compare a counter with. */
const isAlone = (check: Crosscheck): boolean => check.difference_ratio === null && check.sockets_difference_ratio === null;

function agreement(check: Crosscheck): Child {
  if (check.pass !== null) return tick(check.pass);
  if (isAlone(check)) return [NONE, hidden(" nothing to compare")];
  return `open: up to ${bytes(check.explained_bytes ?? 0)} explained`;
}

/** What the sockets carried; below it how far that is from the storage's counter, and may be. */
function carriedCell(check: Crosscheck, index: number): Child {
  const bytes = figure(`crosschecks[${index}].sockets`, check.sockets === null ? NONE : count(check.sockets));
  if (check.sockets_difference_ratio === null) return bytes;
  const small = (text: string): HTMLElement => h("small", {}, text);
  return [bytes, h("br"), small(difference(check.sockets_difference_ratio)), h("br"), small(`≤ ${difference(check.sockets_tolerance_ratio)}`)];
}

/** How many of the comparisons agree; one counter alone agrees with nothing, and what repeated attempts may explain is open. */
function outcome(failed: number, open: number, compared: number, all: number): string {
  const alone = all - compared - open;
  const rest =
    (alone === 0 ? "" : `; ${alone} of ${all} have fewer than two counters`) +
    (open === 0 ? "" : `; ${open} of ${all} are open: repeated, cancelled, unanswered or failed attempts may explain the difference`);
  if (alone === all) return `Nothing to compare: ${all === 1 ? "the quantity has" : `all ${all} quantities have`} fewer than two counters`;
  if (failed > 0) return `${failed} of ${compared} comparisons disagree${rest}`;
  if (compared === 0) return `No comparison agrees or disagrees${rest}`;
  return compared === 1 ? `The one comparison agrees${rest}` : `All ${compared} comparisons agree${rest}`;
}

function audit(found: Audit | null): Child {
  if (!found) return h("p", { class: "hint" }, "No audit: no delivered file was read back (--audit N% reads a sample).");
  const asked = found.asked_percent === null ? "" : `${found.asked_percent} % asked: `;
  const files = [figure("audit.files", count(found.files)), found.files === 1 ? " file" : " files"];
  const volume = found.bytes === null ? "" : [" (", figure("audit.bytes", bytes(found.bytes)), ")"];
  const good = found.failed === 0 && found.files > 0;
  const outcome =
    found.files === 0 ? "nothing is known of the bytes" : found.failed === 0 ? "every one as it was sent" : [h("strong", {}, figure("audit.failed", count(found.failed))), " not as sent"];
  const samples = found.samples.map(sampleText).filter((text) => text !== "");
  return h(
    "div",
    { class: "audit" },
    h("p", {}, tick(good), " ", h("strong", {}, "Audit"), note("audit"), " ", asked, files, " read back", volume, ": ", outcome, "."),
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
