// Reads figures as a person does, from the text on the page, and compares them with report.json.

const PREFIXES = { "": 1, k: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, E: 1e18 };
const SECONDS = { ms: 1e-3, s: 1, min: 60, h: 3600, d: 86_400 };

/** What `text` says: value and how far the true one may be from it, by its last digit; `null` for "no value". */
export function read(text, unit = "") {
  const plain = text.replaceAll("\u00a0", " ").replaceAll("−", "-").trim();
  if (plain.startsWith("–")) return null;
  const parts = [...plain.matchAll(/(-?\d[\d ]*(?:\.\d+)?) ?(%|[a-zA-Z/]*)/g)];
  if (parts.length === 0) throw new Error(`no number in "${text}"`);
  let value = 0;
  let slack = 0;
  for (const [, digits, suffix] of parts) {
    const number = Number(digits.replaceAll(" ", ""));
    const place = 10 ** -(digits.split(".")[1]?.length ?? 0);
    const factor = factorOf(suffix || unit, text);
    value += number * factor;
    // A percentage may be cut instead of rounded, to stay below a limit.
    slack = place * factor * (suffix === "%" ? 1 : 0.5);
  }
  return { value, slack };
}

function factorOf(unit, text) {
  if (unit === "") return 1;
  if (unit === "%") return 0.01;
  if (unit in SECONDS) return SECONDS[unit];
  const [, prefix, base] = /^([kMGTPE]?)(b\/s|B)$/.exec(unit) ?? [];
  if (base === undefined) throw new Error(`unknown unit "${unit}" in "${text}"`);
  return PREFIXES[prefix];
}

/** The value at a path such as `sites[2].egress.ratio` or `stability.cv_sites["RAL"]`. */
export function lookup(report, path) {
  let value = report;
  for (const [, name, index, quoted] of path.matchAll(/\.?([A-Za-z_]\w*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]/g)) {
    value = value?.[name ?? index ?? JSON.parse(quoted)];
  }
  return value;
}

/** Why the text does not show the value, or null. */
export function disagreement(report, { path, unit, text }) {
  const expected = lookup(report, path);
  if (expected === undefined) return `${path}: the page shows "${text}", report.json has no such field`;
  const shown = read(text, unit ?? "");
  if (shown === null || expected === null) return shown === null && expected === null ? null : `${path}: the page shows "${text}", report.json has ${expected}`;
  const slack = shown.slack * (1 + 1e-9) + Math.abs(expected) * 1e-12;
  return Math.abs(shown.value - expected) <= slack ? null : `${path}: the page shows "${text}", report.json has ${expected}`;
}
