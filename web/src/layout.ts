// What every page has: a bar at the top, a list of its sections, and the sections.
import { h, type Child } from "./dom";
import type { Section } from "./parts";
import { themeSwitch } from "./theme";

export interface Page {
  /** Title of the window. */
  readonly title: string;
  /** What kind of page it is, in a word or two. */
  readonly kind: string;
  /** Which Weir made the data, where that is known. */
  readonly version: string | null;
  /** Where the first link leads, for those who do not see the page. */
  readonly skip: string;
  /** Stands before the sections. */
  readonly head: Child;
  readonly sections: readonly (Section | null)[];
}

/** Puts a page in place; the function returned takes it off again. */
export function layOut(root: HTMLElement, page: Page): () => void {
  document.title = page.title;
  const sections = page.sections.filter((section): section is Section => section !== null);
  root.replaceChildren(h("a", { class: "skip", href: "#main" }, page.skip), header(page), contents(sections), h("main", { id: "main" }, page.head, sections.map(sectionElement)));
  const undo = sections.flatMap((section) => (section.mounted ? [section.mounted()] : []));
  return () => undo.forEach((end) => end());
}

function header(page: Page): HTMLElement {
  const print = h("button", { type: "button", class: "print", on: { click: () => window.print() } }, "Print");
  const version = page.version ? `Weir ${page.version}` : "Weir";
  return h("header", { class: "top" }, h("span", { class: "brand" }, version), h("span", { class: "kind" }, page.kind), h("span", { class: "tools" }, themeSwitch(), print));
}

function contents(sections: readonly Section[]): HTMLElement {
  const items = sections.map((section) => h("li", {}, h("a", { href: `#${section.id}` }, section.short ?? section.title)));
  return h("nav", { class: "contents", "aria-label": "Sections" }, h("ul", {}, items));
}

function sectionElement(section: Section): HTMLElement {
  const heading = `${section.id}-heading`;
  return h("section", { id: section.id, "aria-labelledby": heading }, h("h2", { id: heading }, section.title), section.content);
}
