// Small parts that sections share: figures that a test can read back, marks, headings, and the footnotes.
import { h, hidden, uniqueId, type Child } from "./dom";
import { level, LEVEL_WORDS, NONE, percentValue, GAP } from "./units";

/** What one section of the page is made of. */
export interface Section {
  readonly id: string;
  readonly title: string;
  /** Short form for the table of contents. */
  readonly short?: string;
  readonly content: Child;
  /** Called once the section is in the page, for what needs its size; the function returned undoes it. */
  readonly mounted?: () => () => void;
}

/** A figure and the place in report.json that it shows. */
export function figure(path: string, text: string): HTMLElement {
  return h("span", { "data-path": path }, text);
}

/** A quarter-filled disc: how much of what was asked arrived, readable without colour. */
export function mark(ratio: number): HTMLElement {
  return h("span", { class: "mark", "data-level": level(ratio), "aria-hidden": "true" });
}

/** A ratio in percent with its mark, tinted by its level. */
export function ratioPill(ratio: number | null, path: string): Child {
  if (ratio === null) return h("span", { class: "none" }, NONE);
  const shown = percentValue(ratio, Math.abs(ratio) >= 10 ? 0 : 1);
  const words = hidden(` (${LEVEL_WORDS[level(ratio)]})`);
  return h("span", { class: "level pill", "data-level": level(ratio) }, mark(ratio), figure(path, `${shown}${GAP}%`), words);
}

/** ✓ or ✗, with the word for screen readers. */
export function tick(pass: boolean): HTMLElement {
  const sign = h("span", { "aria-hidden": "true" }, pass ? "✓" : "✗");
  return h("span", { class: pass ? "tick pass" : "tick fail" }, sign, hidden(pass ? "passed" : "failed"));
}

/** What the marks mean. */
export function levelKey(): HTMLElement {
  const items = [1, 0.8, 0.6, 0].map((ratio) =>
    h("li", {}, h("span", { class: "level chip", "data-level": level(ratio) }, mark(ratio)), ` ${LEVEL_WORDS[level(ratio)]}`),
  );
  return h("div", { class: "key" }, h("span", {}, "Achieved ÷ asked:"), h("ul", {}, items));
}

/** Figures of a chart as a table, made when somebody asks for it. */
export function onDemand(label: string, make: () => Node): HTMLElement {
  const details = h("details", { class: "data" }, h("summary", {}, label));
  details.addEventListener("toggle", () => {
    details.querySelector(":scope > :not(summary)")?.remove();
    if (details.open) details.append(make());
  });
  return details;
}

/** One choice of few, as a row of buttons. */
export function segmented<T extends string>(legend: string, options: readonly (readonly [T, string])[], choose: (value: T) => void): {
  readonly element: HTMLFieldSetElement;
  readonly set: (value: T) => void;
} {
  const name = uniqueId("choice");
  const inputs = options.map(([value]) => h("input", { type: "radio", name, value, on: { change: () => choose(value) } }));
  const first = inputs[0];
  if (first) first.checked = true;
  const element = h(
    "fieldset",
    { class: "segmented" },
    h("legend", { class: "sr" }, legend),
    options.map(([, label], index) => h("label", {}, inputs[index], h("span", {}, label))),
  );
  const set = (value: T): void => {
    for (const input of inputs) input.checked = input.value === value;
  };
  return { element, set };
}

/** Text of unknown length: the first part, the rest on demand. */
export function longText(text: string, limit = 240): Child {
  if (text.length <= limit) return h("span", { class: "sample" }, text);
  return h(
    "details",
    { class: "long" },
    h("summary", {}, h("span", { class: "sample" }, `${text.slice(0, limit - 20)}…`)),
    h("span", { class: "sample" }, text),
  );
}

/** A command line, with a button that copies it. */
export function command(text: string): HTMLElement {
  const said = h("span", { role: "status" });
  const copy = (): void => {
    navigator.clipboard.writeText(text).then(
      () => (said.textContent = "Copied"),
      () => (said.textContent = "Select it and copy by hand"),
    );
  };
  const button = navigator.clipboard ? h("button", { type: "button", class: "copy", on: { click: copy } }, "Copy") : null;
  return h("div", { class: "command" }, h("pre", { tabindex: 0, "aria-label": "Command" }, h("code", {}, text)), button, said);
}
