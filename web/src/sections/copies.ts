// The copy matrix: one table per size, sources down, destinations across, and in each cell every mode with its rate, or a
// number that leads to the error's text below.
import { h, hidden, uniqueId, type Child } from "../dom";
import { note } from "../methods";
import { longText } from "../parts";
import type { Cell, Workload } from "../report";
import { scroller } from "../table";
import { count, rate, size } from "../units";

const MODES = ["pull", "push", "streamed"];

/** The errors met in one workload, numbered in order of appearance. */
class ErrorNotes {
  private readonly seen = new Map<string, { readonly number: number; readonly class: string | null; readonly text: string; readonly cells: string[] }>();
  readonly id = uniqueId("copy-errors");

  /** The number of this cell's error. */
  number(cell: Cell): number {
    const text = cell.error ?? "no error text was recorded";
    const key = `${cell.error_class ?? ""}\n${text}`;
    let entry = this.seen.get(key);
    if (!entry) {
      entry = { number: this.seen.size + 1, class: cell.error_class, text, cells: [] };
      this.seen.set(key, entry);
    }
    entry.cells.push(`${cell.source}→${cell.destination} ${cell.mode} ${size(cell.size_bytes)}`);
    return entry.number;
  }

  list(): Child {
    if (this.seen.size === 0) return null;
    const items = [...this.seen.values()].map(({ number, class: name, text, cells }) => {
      const where = cells.length > 4 ? `${cells.slice(0, 4).join(", ")} and ${cells.length - 4} more` : cells.join(", ");
      return h("li", { id: `${this.id}-${number}` }, name && h("strong", {}, name), name && " ", longText(text), h("span", { class: "where" }, where));
    });
    return h("div", { class: "copy-errors" }, h("h3", {}, "Errors"), h("ol", {}, items));
  }
}

export function copies(workload: Workload, index: number): Child {
  const sizes = [...new Set(workload.cells.map((cell) => cell.size_bytes))].sort((a, b) => a - b);
  const errors = new ErrorNotes();
  const indexed = workload.cells.map((cell, position) => ({ ...cell, path: `workloads[${index}].cells[${position}].rate_bps` }));
  const tables = sizes.map((bytes) => sizeTable(indexed.filter((cell) => cell.size_bytes === bytes), bytes, errors));
  const ok = workload.cells.filter((cell) => cell.ok).length;
  const sentence = h(
    "p",
    { class: "hint" },
    `${count(ok)} of ${count(workload.cells.length)} combinations work. Rows are sources, columns destinations`,
    note("matrix"),
    ".",
  );
  return [sentence, h("div", { class: "copies-grid" }, tables), errors.list()];
}

type Placed = Cell & { readonly path: string };

function sizeTable(cells: readonly Placed[], bytes: number, errors: ErrorNotes): HTMLElement {
  const id = uniqueId("copies");
  const order = [...new Set(cells.flatMap((cell) => [cell.source, cell.destination]))];
  const sources = order.filter((name) => cells.some((cell) => cell.source === name));
  const destinations = order.filter((name) => cells.some((cell) => cell.destination === name));
  const modes = [...new Set(cells.map((cell) => cell.mode))].sort((a, b) => MODES.indexOf(a) - MODES.indexOf(b));
  const best = Math.max(1, ...cells.map((cell) => cell.rate_bps ?? 0));
  const rows = sources.map((source) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, source),
      destinations.map((destination) => {
        const here = cells.filter((cell) => cell.source === source && cell.destination === destination);
        if (here.length === 0) return h("td", { class: "blank" });
        return h("td", {}, h("ul", {}, modes.flatMap((mode) => here.filter((cell) => cell.mode === mode).map((cell) => line(cell, best, errors)))));
      }),
    ),
  );
  return scroller(
    h(
      "table",
      { class: "copies" },
      h("caption", { id }, `Files of ${size(bytes)}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col", class: "corner" }, "from ↓ to →"), destinations.map((name) => h("th", { scope: "col" }, name)))),
      h("tbody", {}, rows),
    ),
    id,
  );
}

function line(cell: Placed, best: number, errors: ErrorNotes): HTMLElement {
  const mode = h("span", { class: "mode" }, cell.mode);
  if (!cell.ok) {
    const number = errors.number(cell);
    const link = h("a", { href: `#${errors.id}-${number}`, title: cell.error ?? "" }, cell.error_class ?? "error", h("sup", {}, String(number)));
    return h("li", { class: "failed" }, mode, h("span", { class: "outcome" }, h("span", { "aria-hidden": "true" }, "✗ "), hidden("failed: "), link), h("span", { class: "amount none" }));
  }
  const part = ((cell.rate_bps ?? 0) / best) * 100;
  const amount = h("span", { class: "amount", "aria-hidden": "true" }, h("span", { style: `width:${part.toFixed(1)}%` }));
  // A mode may work and yet have lost some of its repetitions.
  const partly = cell.error === null ? null : h("sup", {}, h("a", { href: `#${errors.id}-${errors.number(cell)}`, title: cell.error }, "partly"));
  return h("li", {}, mode, h("span", { class: "outcome" }, h("span", { "data-path": cell.path }, cell.rate_bps === null ? "✓" : rate(cell.rate_bps)), partly), amount);
}
