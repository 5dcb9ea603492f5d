// Columns of tables over policies.
import type { Comparison } from "../../comparison";
import type { Child } from "../../dom";
import type { Column } from "../../table";

/** One column per policy, in the colour of its curve. */
export function perPolicy<Row>(comparison: Comparison, cell: (row: Row, policy: number) => Child, sortBy?: (row: Row, policy: number) => number | null): Column<Row>[] {
  return comparison.policies.map((policy, at) => ({
    label: policy.policy,
    numeric: true,
    cell: (row: Row) => cell(row, at),
    ...(sortBy ? { sortBy: (row: Row) => sortBy(row, at) } : {}),
  }));
}
