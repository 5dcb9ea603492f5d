// How to run it again, and everything that the run depended on.
import { h, type Child } from "../dom";
import { scroller } from "../table";
import { command, type Section } from "../parts";
import type { Report } from "../report";
import { bytes, duration, moment, percent } from "../units";

export function again(report: Report): Section {
  const { weir, host, windows } = report;
  const window = (of: typeof windows.hold): string | null => (of ? `${duration(of.start_s)} to ${duration(of.end_s)}` : null);
  const machine = [
    host?.name,
    host?.cores === null || host?.cores === undefined ? null : `${host.cores} cores`,
    host?.memory_bytes ? bytes(host.memory_bytes) : null,
    host?.kernel,
    host?.cpu_busy_ratio === null || host?.cpu_busy_ratio === undefined ? null : `processors ${percent(host.cpu_busy_ratio, 0)} busy in the hold`,
    stalled("disk", host?.disk_stalled_ratio),
    stalled("memory", host?.memory_stalled_ratio),
    host?.scratch_filesystem ? `scratch on ${host.scratch_filesystem}` : null,
  ].filter(Boolean);
  const facts: readonly (readonly [string, string | null])[] = [
    ["Seed", report.seed],
    ["Scale", String(report.scale)],
    ["Weir", [weir?.version, weir?.commit ? `commit ${weir.commit}` : null].filter(Boolean).join(", ")],
    ["Host", machine.join(", ")],
    ["Began", report.started_at === null ? null : moment(report.started_at)],
    ["Ended", report.ended_at === null ? null : moment(report.ended_at)],
    ["Ramp", window(windows.ramp)],
    ["Hold", window(windows.hold)],
    ["Drain", window(windows.drain)],
    ["Data", `report.json beside this page, ${report.schema}`],
  ];
  const rows = facts.flatMap(([name, value]) => (value ? [h("div", {}, h("dt", {}, name), h("dd", {}, value))] : []));
  return {
    id: "again",
    title: "Run it again",
    content: [report.command === null ? null : command(report.command), h("dl", { class: "facts" }, rows), parameters(report)],
  };
}

/** How long everything that ran waited for something, if it did. */
function stalled(what: string, ratio: number | null | undefined): string | null {
  return ratio ? `all work waited for ${what} ${percent(ratio, 0)} of the hold` : null;
}

function parameters(report: Report): Child {
  if (report.parameters.size === 0) return null;
  const id = "parameters-caption";
  const rows = [...report.parameters].map(([name, value]) =>
    h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, typeof value === "string" ? value : JSON.stringify(value))),
  );
  const body = h("table", { class: "parameters" }, h("caption", { id, class: "sr" }, "Parameters"), h("tbody", {}, rows));
  return h("details", { class: "data" }, h("summary", {}, `Every drawn parameter (${report.parameters.size})`), scroller(body, id));
}
