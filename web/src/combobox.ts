// A field that finds one name among thousands: type parts of it, choose with the arrow keys or the pointer. Follows the
// combobox pattern of the ARIA Authoring Practices Guide.
import { h, uniqueId } from "./dom";

/** Options shown at once; typing narrows the rest. */
const SHOWN = 60;

export interface Combobox {
  readonly element: HTMLElement;
  /** Sets the choice without calling `choose`. */
  set(value: string): void;
}

export function combobox(label: string, options: readonly string[], choose: (value: string) => void): Combobox {
  const listId = uniqueId("list");
  const inputId = uniqueId("input");
  const list = h("ul", { id: listId, role: "listbox", "aria-label": label, hidden: true });
  const input = h("input", {
    id: inputId,
    type: "text",
    role: "combobox",
    autocomplete: "off",
    autocapitalize: "off",
    spellcheck: "false",
    "aria-expanded": "false",
    "aria-controls": listId,
    "aria-autocomplete": "list",
  });
  let chosen = "";
  let shown: readonly string[] = [];
  let active = -1;

  const close = (): void => {
    list.hidden = true;
    active = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const open = (query: string): void => {
    const found = matches(options, query);
    shown = found.slice(0, SHOWN);
    list.replaceChildren(
      ...shown.map((option, index) =>
        h("li", { id: `${listId}-${index}`, role: "option", "aria-selected": String(option === chosen), "data-index": index }, option),
      ),
    );
    if (found.length !== shown.length || found.length === 0) {
      const rest = found.length === 0 ? "none matches" : `${found.length - shown.length} more: type to narrow`;
      list.append(h("li", { role: "presentation", class: "rest" }, rest));
    }
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    move(-1);
  };
  const move = (index: number): void => {
    list.querySelector(".active")?.classList.remove("active");
    active = index;
    const option = active < 0 ? null : list.children[active];
    if (!option) {
      input.removeAttribute("aria-activedescendant");
      return;
    }
    option.classList.add("active");
    option.scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", option.id);
  };
  const take = (value: string): void => {
    chosen = value;
    input.value = value;
    close();
    choose(value);
  };

  input.addEventListener("focus", () => {
    input.select();
    open("");
  });
  input.addEventListener("click", () => list.hidden && open(""));
  input.addEventListener("input", () => {
    open(input.value);
    if (shown.length > 0) move(0);
  });
  input.addEventListener("blur", () => {
    input.value = chosen;
    close();
  });
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      if (list.hidden) open("");
      const last = shown.length - 1;
      if (last >= 0) move(event.key === "ArrowDown" ? (active >= last ? 0 : active + 1) : active <= 0 ? last : active - 1);
    } else if (event.key === "Enter") {
      const value = shown[active];
      if (!list.hidden && value !== undefined) take(value);
    } else if (event.key === "Escape") {
      input.value = chosen;
      close();
    } else {
      return;
    }
    event.preventDefault();
  });
  // Before the field loses focus, which would close the list under the pointer.
  list.addEventListener("pointerdown", (event) => event.preventDefault());
  list.addEventListener("click", (event) => {
    const index = (event.target as Element).closest("li")?.getAttribute("data-index");
    const value = index === null || index === undefined ? undefined : shown[Number(index)];
    if (value !== undefined) take(value);
  });

  return {
    element: h("div", { class: "combobox" }, h("label", { for: inputId }, label), h("div", { class: "field" }, input, list)),
    set: (value) => {
      chosen = value;
      input.value = value;
    },
  };
}

/** Options that contain every word of the query, in any order and case; those that begin with it first. */
export function matches(options: readonly string[], query: string): string[] {
  const words = query.toLowerCase().split(/[\s→>-]+/).filter(Boolean);
  const found = options.filter((option) => words.every((word) => option.toLowerCase().includes(word)));
  const first = words[0];
  if (first === undefined) return found;
  const begins = (option: string): number => Number(!option.toLowerCase().startsWith(first));
  return found.sort((a, b) => begins(a) - begins(b));
}
