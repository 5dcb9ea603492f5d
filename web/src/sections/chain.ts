// Rules and their way through the catalogue: how long a rule took to be OK, where that time went, and what became of copies after it.
import { h, type Child } from "../dom";
import { note } from "../methods";
import { figure, longText, type Section } from "../parts";
import type { Chain, Percentiles, Report } from "../report";
import { table } from "../table";
import { count, duration, NONE } from "../units";

export function chain(report: Report): Section | null {
  const found = report.chain;
  if (found === null) return null;
  return { id: "chain", title: "Rules", content: [parts(found), deletions(found), stuck(found)] };
}

type Row = { readonly name: string; readonly path: string; readonly took: Percentiles | null };

/** The whole time first, then its parts in the order in which a file meets them. */
function rows({ rule_to_ok_s, rooms }: Chain): Row[] {
  return [
    { name: "Rule to OK", path: "chain.rule_to_ok_s", took: rule_to_ok_s },
    { name: "Evaluation in the catalogue", path: "chain.rooms.evaluation_s", took: rooms.evaluation_s },
    { name: "Waiting for submission", path: "chain.rooms.submission_s", took: rooms.submission_s },
    { name: "In the transfer service's queue", path: "chain.rooms.queue_s", took: rooms.queue_s },
    { name: "Copy", path: "chain.rooms.copy_s", took: rooms.copy_s },
    { name: "Completion in the catalogue", path: "chain.rooms.completion_s", took: rooms.completion_s },
  ];
}

function parts(found: Chain): HTMLElement {
  const not = [
    [found.incomplete, "incomplete"],
    [found.refused, "refused"],
  ] as const;
  const others = not.filter(([number]) => number > 0).map(([number, word]) => `, ${count(number)} ${word}`);
  const column = (label: "p50" | "p95" | "p99") => ({
    label,
    numeric: true,
    cell: ({ took, path }: Row) => (took === null ? NONE : figure(`${path}.${label}`, duration(took[label]))),
  });
  return table<Row>({
    caption: [`${count(found.rules)} rules, ${count(found.ok)} OK${others.join("")}`, note("chain"), "."],
    rows: rows(found),
    className: "chain",
    columns: [{ label: "Time", cell: ({ name }) => name }, column("p50"), column("p95"), column("p99")],
  }).element;
}

function deletions({ deletions: found }: Chain): Child {
  if (found === null) return null;
  const delay = found.delay_s === null ? "" : `; ${duration(found.delay_s.p50)} (p50), ${duration(found.delay_s.p95)} (p95) after the end of their rules`;
  const all = figure("chain.deletions.due", count(found.due));
  const done = figure("chain.deletions.done", count(found.done));
  const repeated = found.repeated === null ? [] : [", ", figure("chain.deletions.repeated", count(found.repeated)), " deleted again"];
  return h("p", { class: "deletions" }, all, " copies to delete, ", done, " deleted", ...repeated, ", ", figure("chain.deletions.late", count(found.late)), ` late${delay}.`);
}

function stuck({ stuck: found }: Chain): Child {
  if (found.length === 0) return null;
  const items = found.map((rule) => h("li", {}, h("strong", {}, `${rule.source} → ${rule.destination}`), ` ${rule.rule === "" ? "not made" : rule.rule}: `, longText(rule.reason)));
  return h("details", { class: "data", open: "" }, h("summary", {}, `${found.length} rules without all of their files`), h("ul", { class: "samples" }, items));
}
