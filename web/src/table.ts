// Tables: a caption, headings with scopes, numbers to the right, a region that scrolls sideways on its own where the
// window is narrow, and columns that sort where sorting helps.
import { append, h, uniqueId, type Child } from "./dom";

/** A cell's content, or that and attributes of the cell itself. */
export type CellContent = Child | { readonly content: Child; readonly attributes: Readonly<Record<string, string>> };

export interface Column<Row> {
  readonly label: Child;
  /** Stands under the label in smaller type. */
  readonly unit?: string;
  readonly numeric?: boolean;
  /** Columns in a row of the same group share a heading above theirs. */
  readonly group?: string;
  readonly className?: string;
  readonly cell: (row: Row, index: number) => CellContent;
  /** Given, the column sorts by it; `null` goes last. */
  readonly sortBy?: (row: Row) => number | string | null;
}

export interface TableOptions<Row> {
  readonly caption: Child;
  readonly columns: readonly Column<Row>[];
  readonly rows: readonly Row[];
  readonly className?: string;
  readonly rowAttributes?: (row: Row) => Readonly<Record<string, string>>;
  /** Rows shown before "show all"; all without it. */
  readonly limit?: number;
  readonly footer?: HTMLTableSectionElement;
}

export interface Table<Row> {
  readonly element: HTMLElement;
  /** Shows other rows under the same headings. */
  setRows(rows: readonly Row[]): void;
}

/** Builds a table; the first column heads its row. */
export function table<Row>(options: TableOptions<Row>): Table<Row> {
  const id = uniqueId("table");
  const body = h("tbody");
  const more = h("p", { class: "more" });
  let rows = options.rows;
  let sorted: { readonly column: Column<Row>; readonly descending: boolean } | null = null;
  // A button that brings three more rows is not worth its line.
  let limit = options.rows.length > (options.limit ?? Infinity) + 3 ? (options.limit ?? Infinity) : Infinity;

  const heads = new Map<Column<Row>, HTMLTableCellElement>();
  const fill = (): void => {
    const order = sorted ? sort(rows, sorted.column, sorted.descending) : rows;
    body.replaceChildren(...order.slice(0, limit).map((row, index) => bodyRow(options, row, index)));
    more.replaceChildren();
    if (order.length > limit) {
      const all = h("button", { type: "button", class: "plain", on: { click: showAll } }, `Show all ${order.length}`);
      append(more, [`${limit} of ${order.length} shown. `, all]);
    } else if (order.length === 0) {
      append(more, ["Nothing matches."]);
    }
  };
  const showAll = (): void => {
    limit = Infinity;
    fill();
  };
  const sortOn = (column: Column<Row>): void => {
    const descending: boolean = sorted?.column === column ? !sorted.descending : false;
    sorted = { column, descending };
    for (const [other, head] of heads) {
      if (other === column) head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
    fill();
  };

  const head = h("thead", {}, ...headRows(options.columns, heads, sortOn));
  const caption = h("caption", { id }, options.caption);
  const element = h("table", { class: options.className ?? "" }, caption, head, body, options.footer);
  fill();
  return {
    element: h("div", {}, scroller(element, id), more),
    setRows: (next) => {
      rows = next;
      fill();
    },
  };
}

/** A part of the page that scrolls sideways by itself, reachable by keyboard. */
export function scroller(content: HTMLElement, labelledBy: string): HTMLElement {
  return h("div", { class: "scroll", role: "region", tabindex: 0, "aria-labelledby": labelledBy }, content);
}

function headRows<Row>(
  columns: readonly Column<Row>[],
  heads: Map<Column<Row>, HTMLTableCellElement>,
  sortOn: (column: Column<Row>) => void,
): HTMLTableRowElement[] {
  const grouped = columns.some((column) => column.group !== undefined);
  const top = h("tr");
  const bottom = h("tr");
  let previous: string | undefined;
  columns.forEach((column) => {
    const label: Child = column.sortBy
      ? h("button", { type: "button", class: "sort", on: { click: () => sortOn(column) } }, column.label)
      : column.label;
    const unit = column.unit === undefined ? null : h("span", { class: "unit" }, column.unit);
    const starts = column.group !== undefined && column.group !== previous;
    const head = h("th", { scope: "col", class: classes(column, starts) }, label, unit);
    heads.set(column, head);
    if (column.group === undefined) {
      if (grouped) head.rowSpan = 2;
      top.append(head);
    } else {
      if (starts) {
        const span = columns.filter((other) => other.group === column.group).length;
        top.append(h("th", { scope: "colgroup", colspan: span, class: "group" }, column.group));
      }
      bottom.append(head);
    }
    previous = column.group;
  });
  return grouped ? [top, bottom] : [top];
}

function bodyRow<Row>(options: TableOptions<Row>, row: Row, index: number): HTMLTableRowElement {
  let previous: string | undefined;
  const cells = options.columns.map((column, position) => {
    const made = column.cell(row, index);
    const { content, attributes } = isPlain(made) ? { content: made, attributes: {} } : made;
    const starts = column.group !== undefined && column.group !== previous;
    previous = column.group;
    const className = [classes(column, starts), (attributes as Record<string, string>)["class"]].filter(Boolean).join(" ");
    return position === 0
      ? h("th", { scope: "row", ...attributes, class: className }, content)
      : h("td", { ...attributes, class: className }, content);
  });
  return h("tr", options.rowAttributes?.(row) ?? {}, cells);
}

function classes<Row>(column: Column<Row>, starts: boolean): string {
  return [column.numeric ? "num" : "", starts ? "starts" : "", column.className ?? ""].filter(Boolean).join(" ");
}

function isPlain(made: CellContent): made is Child {
  return typeof made !== "object" || made === null || made instanceof Node || Array.isArray(made);
}

/** Stable; rows without a value stay last in either direction. */
export function sort<Row>(rows: readonly Row[], column: Pick<Column<Row>, "sortBy">, descending: boolean): Row[] {
  const by = column.sortBy ?? (() => null);
  return [...rows].sort((a, b) => {
    const left = by(a);
    const right = by(b);
    if (left === null || right === null) return Number(left === null) - Number(right === null);
    const order = typeof left === "string" || typeof right === "string" ? String(left).localeCompare(String(right), "en") : left - right;
    return descending ? -order : order;
  });
}
