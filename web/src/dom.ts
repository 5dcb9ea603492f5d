// Elements without a framework. Text reaches the page only as text nodes: error samples are written by strangers.

export type Child = Node | string | null | undefined | false | readonly Child[];

type Listeners = { readonly [E in keyof HTMLElementEventMap]?: (event: HTMLElementEventMap[E]) => void };

/** Attributes by their HTML names; `false`, `null` and `undefined` leave one out, `true` sets it empty. */
export interface Attributes {
  readonly [name: string]: string | number | boolean | null | undefined | Listeners;
  readonly on?: Listeners;
}

/** Creates an element. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  assign(element, attributes);
  append(element, children);
  return element;
}

/** Creates an SVG element. */
export function s<K extends keyof SVGElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  assign(element, attributes);
  append(element, children);
  return element;
}

function assign(element: Element, attributes: Attributes): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === "object") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener as EventListener);
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
}

/** Appends children, lists flattened, nothings skipped. */
export function append(parent: Node, children: readonly Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (typeof child === "string") parent.appendChild(document.createTextNode(child));
    else if (child instanceof Node) parent.appendChild(child);
    else append(parent, child);
  }
}

/** Text for screen readers only. */
export function hidden(text: string): HTMLElement {
  return h("span", { class: "sr" }, text);
}

/** A name that may be broken after an arrow or an underscore where a column is narrow. */
export function breakable(name: string): Child {
  return name.split(/(?<=[→_])/).flatMap((part, index) => (index === 0 ? [part] : [document.createElement("wbr"), part]));
}

let serial = 0;
/** An id that is unique on the page. */
export function uniqueId(stem: string): string {
  serial += 1;
  return `${stem}-${serial}`;
}
