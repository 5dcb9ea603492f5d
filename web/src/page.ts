// The page of one report: sections in the order in which a meeting asks, verdict first, how to run it again last.
import { h } from "./dom";
import { notes } from "./methods";
import type { Section } from "./parts";
import type { Report } from "./report";
import { activity } from "./sections/activity";
import { again } from "./sections/again";
import { crosschecks } from "./sections/crosschecks";
import { errors } from "./sections/errors";
import { links } from "./sections/links";
import { sites } from "./sections/sites";
import { thresholds } from "./sections/thresholds";
import { throughput } from "./sections/throughput";
import { circumstances, figures, verdict } from "./sections/verdict";
import { workloads } from "./sections/workloads";
import { themeSwitch } from "./theme";

/** Puts a report on the page; the function returned takes it off again. */
export function showPage(root: HTMLElement, report: Report): () => void {
  document.title = `${report.verdict}: ${report.challenge} – Weir`;
  const curves = throughput(report);
  const showSite = (name: string): void => curves?.showSite(name);
  const showLink = (name: string): void => curves?.showLink(name);
  const sections = [
    thresholds(report),
    ...workloads(report),
    sites(report, showSite),
    links(report, showLink),
    curves?.section ?? null,
    activity(report),
    errors(report),
    crosschecks(report),
    { id: "measured", title: "How each figure was measured", short: "How measured", content: notes() },
    again(report),
  ].filter((section): section is Section => section !== null);

  root.replaceChildren(
    h("a", { class: "skip", href: "#main" }, "Skip to the verdict"),
    header(report),
    contents(sections),
    h(
      "main",
      { id: "main" },
      h("div", { class: "title" }, h("h1", {}, report.challenge), report.description ? h("p", { class: "description" }, report.description) : null, circumstances(report)),
      verdict(report),
      figures(report),
      sections.map(sectionElement),
    ),
  );
  const undo = sections.flatMap((section) => (section.mounted ? [section.mounted()] : []));
  return () => undo.forEach((end) => end());
}

function header(report: Report): HTMLElement {
  const print = h("button", { type: "button", class: "print", on: { click: () => window.print() } }, "Print");
  const version = report.weir?.version ? `Weir ${report.weir.version}` : "Weir";
  return h("header", { class: "top" }, h("span", { class: "brand" }, version), h("span", { class: "kind" }, "challenge report"), h("span", { class: "tools" }, themeSwitch(), print));
}

function contents(sections: readonly Section[]): HTMLElement {
  const items = sections.map((section) => h("li", {}, h("a", { href: `#${section.id}` }, section.short ?? section.title)));
  return h("nav", { class: "contents", "aria-label": "Sections" }, h("ul", {}, items));
}

function sectionElement(section: Section): HTMLElement {
  const heading = `${section.id}-heading`;
  return h("section", { id: section.id, "aria-labelledby": heading }, h("h2", { id: heading }, section.title), section.content);
}
