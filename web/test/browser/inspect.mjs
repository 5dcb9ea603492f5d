// Functions that run inside the page: they see what is drawn, and return plain data.

/** Every figure on the page with the path that it claims to show. */
export function figuresOnPage() {
  return [...document.querySelectorAll("[data-path]")].map((element) => ({ path: element.dataset.path, unit: element.dataset.unit ?? null, text: element.textContent }));
}

/** Texts whose contrast with what lies behind them is below WCAG 2.1 AA. */
export function poorContrast() {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const parse = (colour) => {
    if (!known.has(colour)) known.set(colour, drawn(colour));
    return known.get(colour);
  };
  const drawn = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => [0, 1, 2].map((i) => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const luminance = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const backgrounds = new Map([[null, [255, 255, 255, 1]]]);
  const behind = (element) => {
    if (!backgrounds.has(element)) {
      backgrounds.set(element, over(parse(getComputedStyle(element).backgroundColor), behind(element.parentElement)));
    }
    return backgrounds.get(element);
  };
  const poor = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("script, style, .sr, noscript") || element.getClientRects().length === 0) continue;
    const style = getComputedStyle(element);
    if (style.visibility === "hidden") continue;
    const background = behind(element);
    const colour = over(parse(element instanceof SVGElement ? style.fill : style.color), background);
    const [light, dark] = [luminance(colour), luminance(background)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = Number.parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} : 1 for "${node.textContent.trim().slice(0, 40)}" (${style.color} on ${background.slice(0, 3).map(Math.round)})`);
  }
  return [...new Set(poor)];
}

/** Parts that stick out of the window although they are not in a region that scrolls by itself. */
export function overflowing() {
  const width = document.documentElement.clientWidth;
  const found = document.documentElement.scrollWidth > width ? [`the page is ${document.documentElement.scrollWidth} px wide in a window of ${width} px`] : [];
  for (const element of document.querySelectorAll("main *")) {
    if (element.closest(".scroll, svg, .segmented, .sr, .field ul")) continue;
    const box = element.getBoundingClientRect();
    if (box.width > 0 && box.right > width + 1) found.push(`${element.tagName.toLowerCase()}.${element.className} reaches to ${Math.round(box.right)} px`);
  }
  return found;
}

/** What a screen reader would stumble over. */
export function structureProblems() {
  const found = [];
  const say = (text) => found.push(text);
  if (document.documentElement.lang === "") say("the page has no language");
  if (document.querySelectorAll("h1").length !== 1) say("not exactly one h1");
  let level = 0;
  for (const heading of document.querySelectorAll("h1, h2, h3, h4, h5, h6")) {
    const next = Number(heading.tagName[1]);
    if (next > level + 1) say(`heading "${heading.textContent}" jumps from level ${level} to ${next}`);
    level = next;
  }
  const ids = [...document.querySelectorAll("[id]")].map((element) => element.id);
  for (const id of new Set(ids.filter((candidate, index) => ids.indexOf(candidate) !== index))) say(`id ${id} is there twice`);
  for (const table of document.querySelectorAll("table")) {
    if (!table.closest(".tip") && !table.caption?.textContent.trim()) say(`a table without caption: ${table.className}`);
    for (const head of table.querySelectorAll("thead th")) if (!head.scope) say(`a heading without scope: ${head.textContent}`);
  }
  for (const input of document.querySelectorAll("input")) {
    if (!input.labels?.length && !input.getAttribute("aria-label")) say(`an input without label: ${input.outerHTML.slice(0, 80)}`);
  }
  for (const button of document.querySelectorAll("button, a")) {
    if (!button.textContent.trim() && !button.getAttribute("aria-label")) say(`a button or link without name: ${button.outerHTML.slice(0, 80)}`);
  }
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    if (!document.getElementById(link.getAttribute("href").slice(1))) say(`a link to nowhere: ${link.getAttribute("href")}`);
  }
  for (const picture of document.querySelectorAll('[role="img"]')) if (!picture.getAttribute("aria-label")) say("a chart without a summary");
  for (const attribute of ["aria-labelledby", "aria-controls"]) {
    for (const element of document.querySelectorAll(`[${attribute}]`)) {
      if (!document.getElementById(element.getAttribute(attribute))) say(`${attribute} to nowhere: ${element.getAttribute(attribute)}`);
    }
  }
  return found;
}
