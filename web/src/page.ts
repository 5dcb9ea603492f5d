// The page of one report: sections in the order in which a meeting asks, verdict first, how to run it again last.
import { h } from "./dom";
import { layOut } from "./layout";
import { notes } from "./methods";
import type { Report } from "./report";
import { activity } from "./sections/activity";
import { again } from "./sections/again";
import { chain } from "./sections/chain";
import { crosschecks } from "./sections/crosschecks";
import { errors } from "./sections/errors";
import { gauges } from "./sections/gauges";
import { links } from "./sections/links";
import { sites } from "./sections/sites";
import { thresholds } from "./sections/thresholds";
import { throughput } from "./sections/throughput";
import { circumstances, figures, verdict } from "./sections/verdict";
import { waits } from "./sections/waits";
import { why } from "./sections/why";
import { workloads } from "./sections/workloads";

/** Puts a report on the page; the function returned takes it off again. */
export function showPage(root: HTMLElement, report: Report): () => void {
  const curves = throughput(report);
  const showSite = (name: string): void => curves?.showSite(name);
  const showLink = (name: string): void => curves?.showLink(name);
  return layOut(root, {
    title: `${report.verdict}: ${report.challenge} – Weir`,
    kind: "challenge report",
    version: report.weir?.version ?? null,
    skip: "Skip to the verdict",
    head: [
      h("div", { class: "title" }, h("h1", {}, report.challenge), report.description ? h("p", { class: "description" }, report.description) : null, circumstances(report)),
      verdict(report),
      figures(report),
    ],
    sections: [
      why(report, showLink),
      thresholds(report),
      ...workloads(report),
      sites(report, showSite),
      links(report, showLink),
      curves?.section ?? null,
      waits(report),
      gauges(report),
      chain(report),
      activity(report),
      errors(report),
      crosschecks(report),
      { id: "measured", title: "How each figure was measured", short: "How measured", content: notes() },
      again(report),
    ],
  });
}
