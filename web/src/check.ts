// Checks of untyped data. A check either returns a typed value or notes, with its path, what is wrong; it goes on after the
// first problem, so that a reader sees all of them at once.

/** One thing wrong with the data: where, and what. */
export interface Problem {
  readonly path: string;
  readonly message: string;
}

/** Collects the problems of one run over the data. */
export class Problems {
  readonly found: Problem[] = [];

  note(path: string, message: string): void {
    this.found.push({ path: path === "" ? "report" : path, message });
  }
}

/** Turns `unknown` into `T`, or notes a problem and returns a stand-in that nobody will see. */
export interface Check<T> {
  (value: unknown, path: string, problems: Problems): T;
  /** The value of a key that is absent; without it, absence is a problem. */
  readonly absent?: () => T;
}

export type Checked<C> = C extends Check<infer T> ? T : never;

function kind(value: unknown): string {
  if (value === undefined) return "nothing";
  if (value === null) return "null";
  if (Array.isArray(value)) return "a list";
  if (typeof value === "object") return "an object";
  if (typeof value === "string") return `the text ${JSON.stringify(value.length > 40 ? `${value.slice(0, 40)}…` : value)}`;
  return `${value as number | boolean}`;
}

export const text: Check<string> = (value, path, problems) => {
  if (typeof value === "string") return value;
  problems.note(path, `expected text, found ${kind(value)}`);
  return "";
};

export const number: Check<number> = (value, path, problems) => {
  if (typeof value === "number" && Number.isFinite(value)) return value;
  problems.note(path, `expected a number, found ${kind(value)}`);
  return 0;
};

export const flag: Check<boolean> = (value, path, problems) => {
  if (typeof value === "boolean") return value;
  problems.note(path, `expected true or false, found ${kind(value)}`);
  return false;
};

/** A whole number of any size; one that a JavaScript number cannot hold arrives as its digits. */
export const integer: Check<string> = (value, path, problems) => {
  if (typeof value === "number" && Number.isInteger(value)) return String(value);
  if (typeof value === "string" && /^-?\d+$/.test(value)) return value;
  problems.note(path, `expected a whole number, found ${kind(value)}`);
  return "0";
};

export const anything: Check<unknown> = Object.assign((value: unknown) => value, { absent: () => null });

export function oneOf<const T extends string>(...words: readonly T[]): Check<T> {
  return (value, path, problems) => {
    const word = words.find((candidate) => candidate === value);
    if (word !== undefined) return word;
    problems.note(path, `expected one of ${words.join(", ")}, found ${kind(value)}`);
    return words[0] as T;
  };
}

/** `null` and absence are allowed and mean "not known". */
export function maybe<T>(check: Check<T>): Check<T | null> {
  const inner: Check<T | null> = (value, path, problems) =>
    value === null || value === undefined ? null : check(value, path, problems);
  return Object.assign(inner, { absent: () => null });
}

/** Absence (and `null`) means `value`. */
export function otherwise<T>(check: Check<T>, value: () => T): Check<T> {
  const inner: Check<T> = (found, path, problems) =>
    found === null || found === undefined ? value() : check(found, path, problems);
  return Object.assign(inner, { absent: value });
}

export function list<T>(item: Check<T>): Check<T[]> {
  return (value, path, problems) => {
    if (!Array.isArray(value)) {
      problems.note(path, `expected a list, found ${kind(value)}`);
      return [];
    }
    return value.map((entry, index) => item(entry, `${path}[${index}]`, problems));
  };
}

/** A list whose absence means the empty one. */
export function listOrNone<T>(item: Check<T>): Check<T[]> {
  return otherwise(list(item), () => []);
}

/** An object used as a map from names to values of one kind. */
export function map<T>(item: Check<T>): Check<ReadonlyMap<string, T>> {
  return (value, path, problems) => {
    const entries = new Map<string, T>();
    if (!isObject(value)) {
      problems.note(path, `expected an object, found ${kind(value)}`);
      return entries;
    }
    for (const [key, entry] of Object.entries(value)) entries.set(key, item(entry, `${path}[${JSON.stringify(key)}]`, problems));
    return entries;
  };
}

export function mapOrNone<T>(item: Check<T>): Check<ReadonlyMap<string, T>> {
  return otherwise(map(item), () => new Map<string, T>());
}

type Shape = Readonly<Record<string, Check<unknown>>>;
export type Shaped<S extends Shape> = { readonly [K in keyof S]: Checked<S[K]> };

/** An object with these keys; keys it does not name are left out, so that newer writers do not break older readers. */
export function object<S extends Shape>(shape: S): Check<Shaped<S>> {
  return (value, path, problems) => {
    const known: Record<string, unknown> = {};
    if (!isObject(value)) {
      problems.note(path, `expected an object, found ${kind(value)}`);
      return known as Shaped<S>;
    }
    for (const [key, check] of Object.entries(shape)) {
      const at = path === "" ? key : `${path}.${key}`;
      known[key] = value[key] === undefined && check.absent ? check.absent() : check(value[key], at, problems);
    }
    return known as Shaped<S>;
  };
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
