// Light, dark, or as the system is; and paper, for which everything is light. Charts take their colours from the same
// CSS variables as the page, and are told when these change.
import { h } from "./dom";

type Choice = "auto" | "light" | "dark";

const KEY = "weir-theme";
const LABELS: Readonly<Record<Choice, string>> = { auto: "Auto", light: "Light", dark: "Dark" };
const watchers = new Set<(printing: boolean) => void>();
let choice: Choice = "auto";
let printing = false;

/** Sets the theme before anything is drawn and follows system, reader and printer from then on. */
export function startTheme(): void {
  choice = remembered();
  apply();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", apply);
  const paper = (on: boolean): void => {
    if (on === printing) return;
    printing = on;
    apply();
  };
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
  matchMedia("print").addEventListener("change", (event) => paper(event.matches));
}

/** Calls `redraw` whenever colours change, and around printing; the function returned ends that. */
export function onThemeChange(redraw: (printing: boolean) => void): () => void {
  watchers.add(redraw);
  return () => watchers.delete(redraw);
}

/** The three-way switch. */
export function themeSwitch(): HTMLElement {
  const options = (Object.keys(LABELS) as Choice[]).map((value) => {
    const input = h("input", {
      type: "radio",
      name: "weir-theme",
      value,
      on: {
        change: () => {
          choice = value;
          remember(value);
          apply();
        },
      },
    });
    input.checked = value === choice;
    return h("label", {}, input, h("span", {}, LABELS[value]));
  });
  return h("fieldset", { class: "segmented theme" }, h("legend", { class: "sr" }, "Colours"), options);
}

/** The value of a CSS variable of the page. */
export function colour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

function apply(): void {
  const dark = !printing && (choice === "dark" || (choice === "auto" && matchMedia("(prefers-color-scheme: dark)").matches));
  const root = document.documentElement;
  root.dataset["theme"] = dark ? "dark" : "light";
  root.toggleAttribute("data-printing", printing);
  for (const redraw of watchers) redraw(printing);
}

// A page opened from a file may be refused storage; the choice then lasts as long as the page.
function remembered(): Choice {
  try {
    const stored = localStorage.getItem(KEY);
    return stored === "light" || stored === "dark" ? stored : "auto";
  } catch {
    return "auto";
  }
}

function remember(value: Choice): void {
  try {
    localStorage.setItem(KEY, value);
  } catch {
    // Nothing depends on it.
  }
}
