// Numbers as people read them: three significant digits, SI prefixes, a unit on every one.

/** A number and its unit, apart, for places that set them in different type. */
export interface Quantity {
  readonly value: string;
  readonly unit: string;
}

/** No-break space, between a number and its unit and between groups of three digits; narrow in the page's own type. */
export const GAP = "\u00a0";
/** Stands where there is no value. */
export const NONE = "–";

const PREFIXES = ["", "k", "M", "G", "T", "P", "E"] as const;

/** A power of 1000 with its prefix; tables use one for a whole column. */
export interface Prefix {
  readonly letter: string;
  readonly factor: number;
}

/** The prefix under which `value` has one to three digits before the point. */
export function prefixFor(value: number): Prefix {
  let index = 0;
  let factor = 1;
  // 999.5 of a unit rounds to 1000 of it, which reads better as 1.00 of the next.
  while (index < PREFIXES.length - 1 && Math.abs(value) >= 999.5 * factor) {
    index += 1;
    factor *= 1000;
  }
  return { letter: PREFIXES[index] ?? "", factor };
}

/** Three significant digits, plain notation: 0.0123, 1.31, 98.6, 270. */
export function digits(value: number, significant = 3): string {
  if (!Number.isFinite(value)) return NONE;
  if (value === 0) return "0";
  const magnitude = Math.floor(Math.log10(Math.abs(Number(value.toPrecision(significant)))));
  const decimals = Math.min(12, Math.max(0, significant - 1 - magnitude));
  return grouped(value.toFixed(decimals));
}

/** Digits in groups of three: 12 345. Four digits stay together. */
function grouped(plain: string): string {
  const [whole = "", fraction] = plain.replace("-", "−").split(".");
  const spaced = whole.replace("−", "").length > 4 ? whole.replace(/\B(?=(\d{3})+$)/g, GAP) : whole;
  return fraction === undefined ? spaced : `${spaced}.${fraction}`;
}

function scaled(value: number, unit: string): Quantity {
  const prefix = prefixFor(value);
  return { value: digits(value / prefix.factor), unit: `${prefix.letter}${unit}` };
}

const joined = (quantity: Quantity): string => (quantity.unit === "" ? quantity.value : `${quantity.value}${GAP}${quantity.unit}`);

export const rateParts = (bps: number): Quantity => scaled(bps, "b/s");
export const bytesParts = (bytes: number): Quantity =>
  Math.abs(bytes) < 1000 ? { value: count(bytes), unit: "B" } : scaled(bytes, "B");

/** `1.31 Gb/s`. */
export const rate = (bps: number | null): string => (bps === null ? NONE : joined(rateParts(bps)));
/** `9.87 GB`. */
export const bytes = (value: number | null): string => (value === null ? NONE : joined(bytesParts(value)));
/** `12 345`. */
export const count = (value: number | null): string => (value === null ? NONE : grouped(Math.round(value).toString()));

/** A size as it was chosen: whole numbers stay whole (`100 MB`, not `100.0 MB`). */
export function size(value: number | null): string {
  if (value === null) return NONE;
  const prefix = prefixFor(value);
  const scaledValue = value / prefix.factor;
  return Number.isInteger(scaledValue) ? `${scaledValue}${GAP}${prefix.letter}B` : bytes(value);
}

/** Ratios that decide a colour; also where rounding must not cross. */
export const LEVELS = [0.9, 0.7, 0.5] as const;

/** 3: at least 0.9 of what was asked; 2: 0.7; 1: 0.5; 0: less. */
export type Level = 0 | 1 | 2 | 3;

export function level(ratio: number): Level {
  if (ratio >= LEVELS[0]) return 3;
  if (ratio >= LEVELS[1]) return 2;
  if (ratio >= LEVELS[2]) return 1;
  return 0;
}

/** In words, for those who see no colour. */
export const LEVEL_WORDS = ["below 0.5", "0.5 to 0.7", "0.7 to 0.9", "0.9 and above"] as const;

/**
 * A ratio in percent, without the sign: `98.6`. Where rounding would lift it over a level, or with decimals to 100, it is
 * cut instead (0.8997 is 89.9, not 90.0); where it would hide that the ratio is not 0, it gets more digits.
 */
export function percentValue(ratio: number, decimals = 1): string {
  const unit = 10 ** decimals;
  const rounded = Math.round(ratio * 100 * unit) / unit;
  if (rounded === 0 && ratio !== 0) return digits(ratio * 100, 1);
  const lifted = level(rounded / 100) > level(ratio) || (decimals > 0 && rounded >= 100 && ratio < 1);
  return grouped((lifted ? rounded - 1 / unit : rounded).toFixed(decimals));
}

/** `98.6 %`. */
export const percent = (ratio: number | null, decimals = 1): string =>
  ratio === null ? NONE : `${percentValue(ratio, decimals)}${GAP}%`;

/** A small part of a whole, such as failures: `0.24 %`, `0 %`. */
export function share(part: number, whole: number): string {
  if (whole === 0) return NONE;
  return part === 0 ? `0${GAP}%` : `${digits((part / whole) * 100, 2)}${GAP}%`;
}

/** The difference of two counters: `0`, `0.003 %`, `< 0.000 1 %`. */
export function difference(ratio: number | null): string {
  if (ratio === null) return NONE;
  if (ratio === 0) return `0${GAP}%`;
  const value = Math.abs(ratio) * 100;
  return value < 0.0001 ? `<${GAP}0.0001${GAP}%` : `${digits(value, 2)}${GAP}%`;
}

/** `40 ms`, `60 s`, `2 min 30 s`, `1 h 05 min`, `3 d 4 h`. */
export function duration(seconds: number | null): string {
  if (seconds === null) return NONE;
  if (seconds < 0) return `−${duration(-seconds)}`;
  if (seconds === 0) return `0${GAP}s`;
  if (seconds < 0.9995) return `${digits(seconds * 1000)}${GAP}ms`;
  if (seconds < 120) return `${trimmed(seconds)}${GAP}s`;
  const whole = Math.round(seconds);
  if (whole < 7200) return pair(Math.floor(whole / 60), "min", whole % 60, "s");
  const minutes = Math.round(whole / 60);
  if (minutes < 2880) return pair(Math.floor(minutes / 60), "h", minutes % 60, "min");
  const hours = Math.round(minutes / 60);
  return pair(Math.floor(hours / 24), "d", hours % 24, "h");
}

function pair(large: number, largeUnit: string, small: number, smallUnit: string): string {
  const head = `${large}${GAP}${largeUnit}`;
  return small === 0 ? head : `${head} ${small}${GAP}${smallUnit}`;
}

/** At most one decimal, and none where it says nothing: 60, 8.2. */
function trimmed(value: number): string {
  return value < 10 ? String(Number(value.toFixed(2))) : String(Number(value.toFixed(1)));
}

/** A moment of a run that lasts `span`, as its axis shows it: `70 s`, `1:10`, `0:05:00`, `3 d 4 h`. */
export function clock(seconds: number, span: number): string {
  if (seconds < 0) return `−${clock(-seconds, span)}`;
  if (span <= 180) return `${Number(seconds.toFixed(1))}${GAP}s`;
  const whole = Math.round(seconds);
  const two = (value: number): string => String(value).padStart(2, "0");
  if (span < 3600) return `${Math.floor(whole / 60)}:${two(whole % 60)}`;
  if (span < 3 * 86_400) return `${Math.floor(whole / 3600)}:${two(Math.floor(whole / 60) % 60)}:${two(whole % 60)}`;
  return pair(Math.floor(whole / 86_400), "d", Math.floor((whole % 86_400) / 3600), "h");
}

/** UTC date and time to the second, from RFC 3339: `2026-11-21 12:00:00 UTC`. What is not a time stays as it is. */
export function moment(rfc3339: string | null): string {
  if (rfc3339 === null) return NONE;
  const time = new Date(rfc3339);
  return Number.isNaN(time.getTime()) ? rfc3339 : `${time.toISOString().slice(0, 19).replace("T", " ")}${GAP}UTC`;
}

/** A limit as it was written, without digits that say nothing: `0.9`, `300 Mb/s`. */
export const limit = (value: number, unit: string): string => inUnit(value, unit).replace(/(\.\d*?)0+(?=\D|$)/, "$1").replace(/\.(?=\D|$)/, "");

/**
 * A measured value beside the threshold it was compared with: enough digits that the two differ as they did
 * (0.8997 against 0.9 does not become 0.9).
 */
export function measured(value: number, asked: number, unit: string): string {
  const as = (number: number, significant: number): string => inUnit(number, unit, significant);
  for (let significant = 3; significant < 9; significant += 1) {
    if (value === asked || as(value, significant) !== as(asked, significant)) return as(value, significant);
  }
  return as(value, 12);
}

/** A value in a unit that the report names: bit rates and bytes take prefixes, ratios have none. */
export function inUnit(value: number, unit: string, significant = 3): string {
  const prefixed = unit === "b/s" || unit === "bit/s" || unit === "bps" ? "b/s" : unit === "B" || unit === "bytes" ? "B" : null;
  if (prefixed !== null) {
    const prefix = prefixFor(value);
    return `${digits(value / prefix.factor, significant)}${GAP}${prefix.letter}${prefixed}`;
  }
  const number = digits(value, significant);
  return unit === "" ? number : `${number}${GAP}${unit}`;
}
