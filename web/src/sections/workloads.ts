// One section per workload that has a form of its own: the copy matrix and the ramp.
import { h } from "../dom";
import type { Section } from "../parts";
import type { Report } from "../report";
import { copies } from "./copies";
import { ramp } from "./ramp";

export function workloads(report: Report): Section[] {
  return report.workloads.flatMap((workload, index): Section[] => {
    const named = workload.name === null || workload.name === "" || workload.name === workload.kind ? "" : `: ${workload.name}`;
    const id = `workload-${index}`;
    if (workload.cells.length > 0) return [{ id, title: `Copy matrix${named}`, short: "Copy matrix", content: copies(workload, index) }];
    if (workload.steps.length > 0) {
      const { content, mounted } = ramp(workload, index);
      return [{ id, title: `Ramp of parallel transfers${named}`, short: "Ramp", content: h("div", {}, content), mounted }];
    }
    return [];
  });
}
