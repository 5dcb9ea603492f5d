// The report of one run, `weir-report/1`: its types, and the loader that turns JSON text into them or says what is wrong.
// Rates are bits per second, volumes bytes, times seconds since the run began, ratios 1 for "all of it".
// `null` always means "not measured" or "does not apply", never zero.
import {
  anything,
  flag,
  integer,
  isObject,
  list,
  listOrNone,
  mapOrNone,
  maybe,
  number,
  object,
  oneOf,
  otherwise,
  Problems,
  text,
  type Check,
  type Checked,
  type Problem,
} from "./check";

/** The version of the contract that this page reads. */
export const SCHEMA = "weir-report/1";


/** Values per bin, `null` where a bin has no data. A long run has millions of them, so the first bad one speaks for all. */
export const bins: Check<Bins> = (value, path, problems) => {
  if (!Array.isArray(value)) {
    problems.note(path, "expected a list of numbers");
    return [];
  }
  const bad = value.findIndex((entry) => entry !== null && typeof entry !== "number");
  if (bad >= 0) problems.note(`${path}[${bad}]`, "expected a number or null");
  return value as Bins;
};

/** Errors of one class, on a link or at a site. */
const errorCount = object({ class: text, count: number, sample: maybe(text) });

const window = object({ start_s: number, end_s: number });

const link = object({
  source: text,
  destination: text,
  source_site: maybe(text),
  destination_site: maybe(text),
  asked_bps: maybe(number),
  achieved_bps: maybe(number),
  ratio: maybe(number),
  file_bytes: maybe(number),
  transfers: number,
  finished: maybe(number),
  failed: number,
  cancelled: otherwise(number, () => 0),
  injected_bytes: maybe(number),
  verified_bytes: maybe(number),
  errors: listOrNone(errorCount),
  /** Transfers by copy mode: pull, push, streamed. */
  modes: mapOrNone(number),
});

const rate = object({ asked_bps: maybe(number), achieved_bps: maybe(number), ratio: maybe(number) });

/** A site; `asked_bps`, `achieved_bps` and `ratio` are what it takes in, `egress` what it gives out. */
const site = object({
  site: text,
  asked_bps: maybe(number),
  achieved_bps: maybe(number),
  ratio: maybe(number),
  transfers: number,
  failed: number,
  cancelled: otherwise(number, () => 0),
  errors: listOrNone(errorCount),
  egress: maybe(rate),
});

/** One ordered pair, one mode, one size: what came of it. */
export const cell = object({
  source: text,
  destination: text,
  mode: text,
  size_bytes: number,
  ok: flag,
  transfers: maybe(number),
  rate_bps: maybe(number),
  error: maybe(text),
  error_class: maybe(text),
});

/** One direction at one number of parallel transfers. */
export const step = object({
  source: text,
  destination: text,
  parallel: number,
  file_bytes: maybe(number),
  transfers: number,
  failed: number,
  achieved_bps: maybe(number),
  duration_s: maybe(number),
});

const workload = object({ name: maybe(text), kind: text, cells: listOrNone(cell), steps: listOrNone(step) });

export const threshold = object({
  name: text,
  metric: maybe(text),
  comparison: otherwise(text, () => "≥"),
  asked: number,
  measured: maybe(number),
  unit: otherwise(text, () => ""),
  pass: flag,
});

/** The same quantity as independent counters saw it; a counter that was not there is `null`. */
const crosscheck = object({
  subject: text,
  quantity: text,
  transfer_service: maybe(number),
  receiving_storage: maybe(number),
  sending_storage: maybe(number),
  /** What the catalogue says is there. */
  catalogue: maybe(number),
  difference_ratio: maybe(number),
  /** Bytes that may be in one counter alone: of repeated, withdrawn or failed attempts. */
  explained_bytes: maybe(number),
  /** What TCP carried at the storage's end, less TLS, and how far it may be from the storage's counter. */
  sockets: maybe(number),
  sockets_difference_ratio: maybe(number),
  sockets_tolerance_ratio: maybe(number),
  /** `null`: fewer than two counters, so there is nothing to compare; or repeated attempts may explain the difference. */
  pass: maybe(flag),
  note: maybe(text),
});

const audit = object({
  asked_percent: maybe(number),
  files: number,
  failed: number,
  bytes: maybe(number),
  samples: listOrNone(anything),
});

const errorClass = object({
  class: text,
  count: number,
  first_seen_s: maybe(number),
  sample: maybe(text),
  party: maybe(text),
  remedy: maybe(text),
});

const rateSeries = object({ asked_bps: maybe(bins), achieved_bps: maybe(bins) });

const totalSeries = object({
  asked_bps: maybe(bins),
  achieved_bps: maybe(bins),
  active: maybe(bins),
  /** The mean over each bin; older reports have samples alone. */
  active_mean: maybe(bins),
  queued: maybe(bins),
  failed: maybe(bins),
});

const series = object({
  bin_s: number,
  n_bins: number,
  total: totalSeries,
  sites: mapOrNone(rateSeries),
  /** Keyed `SOURCE→DESTINATION`. */
  links: mapOrNone(rateSeries),
});

/** Nearest-rank percentiles. */
const percentiles = object({ p5: number, p50: number, p95: number, p99: number });

/** How long the transfers that finished took, and how fast they were. */
const times = object({ transfer_s: maybe(percentiles), rate_bps: maybe(percentiles), first_byte_s: maybe(percentiles) });

const rooms = object({
  evaluation_s: maybe(percentiles),
  submission_s: maybe(percentiles),
  queue_s: maybe(percentiles),
  copy_s: maybe(percentiles),
  completion_s: maybe(percentiles),
});

/** What passed through the catalogue. */
/** What passed through a catalogue. */
export const chain = object({
  rules: number,
  ok: number,
  incomplete: number,
  refused: number,
  rule_to_ok_s: maybe(percentiles),
  rooms,
  stuck: listOrNone(object({ rule: text, source: text, destination: text, files: number, reason: text })),
  deletions: maybe(object({ due: number, done: number, late: number, repeated: maybe(number), delay_s: maybe(percentiles) })),
});

/** The time that transfers of a link spent in each state. */
export const signals = object({
  source: text,
  destination: text,
  bin_s: number,
  /** Phases whose states were measured. */
  known: listOrNone(text),
  waits: listOrNone(
    object({
      wait: text,
      place: maybe(text),
      total_s: number,
      first_bin: otherwise(number, () => 0),
      seconds: list(number),
      /** Of a wait for slots: the links that held them. */
      holders: listOrNone(object({ link: text, waited_s: number })),
    }),
  ),
  /** Seconds of slots that its transfers held, by bin. */
  slots: maybe(object({ first_bin: otherwise(number, () => 0), seconds: list(number) })),
});

/** A cause that held links back, with its evidence. */
export const statement = object({
  class: text,
  place: maybe(text),
  links: listOrNone(text),
  from_s: number,
  until_s: number,
  asked_bps: number,
  held_bps: number,
  probability: number,
  others: listOrNone(object({ class: text, place: maybe(text), probability: number })),
  text: otherwise(text, () => ""),
  evidence: listOrNone(object({ signal: text, place: maybe(text), value: number, usual: maybe(number), unit: text })),
  via: listOrNone(text),
  advice: maybe(text),
  settle: maybe(text),
  /** When it was first made while the run went on. */
  said_s: maybe(number),
});

/** A statement that was made while the run went on, and taken back. */
const change = object({ at_s: number, statement });

/** The missing bits of a link, by bin and cause. */
export const ledger = object({
  link: text,
  bin_s: number,
  first_bin: number,
  asked_bits: list(number),
  achieved_bits: list(number),
  causes: listOrNone(object({ class: text, place: maybe(text), total_bits: number, bits: list(number) })),
  rest_bits: list(number),
});

/** A figure of a host, a storage, a path or a service: means of bins. */
export const gauge = object({
  gauge: text,
  place: text,
  unit: text,
  bin_s: number,
  first_bin: otherwise(number, () => 0),
  values: list(maybe(number)),
});

export const totals = object({
  asked_bps: maybe(number),
  achieved_bps: maybe(number),
  ratio: maybe(number),
  asked_bytes: maybe(number),
  injected_bytes: maybe(number),
  verified_bytes: maybe(number),
  hold_verified_bytes: maybe(number),
  ramp_verified_bytes: maybe(number),
  drain_verified_bytes: maybe(number),
  moved_bytes_failed: maybe(number),
  transfers: number,
  finished: maybe(number),
  failed: number,
  /** Cancelled by the run itself because it was interrupted. */
  cancelled: otherwise(number, () => 0),
  /** The part of them of which the run ended before the transfer service said how they ended. */
  unanswered: otherwise(number, () => 0),
  efficiency: maybe(number),
  retries: maybe(number),
  deleted_files: maybe(number),
  lateness_p95_s: maybe(number),
  lateness_max_s: maybe(number),
  times: maybe(times),
});

const host = object({
  name: maybe(text),
  cores: maybe(number),
  memory_bytes: maybe(number),
  kernel: maybe(text),
  scratch_filesystem: maybe(text),
  cpu_busy_ratio: maybe(number),
  disk_stalled_ratio: maybe(number),
  memory_stalled_ratio: maybe(number),
});

/** How much the equal parts of the hold differ: standard deviation ÷ mean. */
const stability = object({ parts: number, part_s: number, cv_total: maybe(number), cv_sites: mapOrNone(maybe(number)) });

/** The same over single seconds; planned is that of the bytes injected. */
const variation = object({ achieved: maybe(number), planned: maybe(number) });
const evenness = object({ total: variation, sites: mapOrNone(variation) });

const windows = object({ ramp: maybe(window), hold: maybe(window), drain: maybe(window) });

const report = object({
  schema: text,
  verdict: oneOf("pass", "none", "fail", "unstable"),
  verdict_reasons: listOrNone(text),
  /** What to try when the machine was too weak. */
  advice: maybe(text),
  challenge: text,
  description: maybe(text),
  seed: integer,
  scale: otherwise(number, () => 1),
  interrupted: otherwise(flag, () => false),
  /** Whether the report was built from the rows of a run that did not come to its end. */
  incomplete: otherwise(flag, () => false),
  /** RSEs that tell no checksum: what was copied there is verified by its size alone. */
  verified_by_size: listOrNone(text),
  command: maybe(text),
  started_at: maybe(text),
  ended_at: maybe(text),
  weir: maybe(object({ version: maybe(text), commit: maybe(text) })),
  host: maybe(host),
  windows: otherwise(windows, () => ({ ramp: null, hold: null, drain: null })),
  totals,
  links: list(link),
  sites: list(site),
  workloads: listOrNone(workload),
  thresholds: listOrNone(threshold),
  crosschecks: listOrNone(crosscheck),
  audit: maybe(audit),
  chain: maybe(chain),
  signals: listOrNone(signals),
  gauges: listOrNone(gauge),
  statements: listOrNone(statement),
  withdrawn: listOrNone(change),
  ledger: listOrNone(ledger),
  errors: listOrNone(errorClass),
  stability: maybe(stability),
  evenness: maybe(evenness),
  series: maybe(series),
  events: listOrNone(object({ t_s: number, text })),
  parameters: mapOrNone(anything),
});

export type Report = Checked<typeof report>;
export type Chain = Checked<typeof chain>;
export type LinkSignals = Checked<typeof signals>;
export type Statement = Checked<typeof statement>;
export type LinkLedger = Checked<typeof ledger>;
export type GaugeSeries = Checked<typeof gauge>;
export type Percentiles = Checked<typeof percentiles>;
export type Totals = Checked<typeof totals>;
export type Link = Checked<typeof link>;
export type Site = Checked<typeof site>;
export type Rate = Checked<typeof rate>;
export type Workload = Checked<typeof workload>;
export type Cell = Checked<typeof cell>;
export type Step = Checked<typeof step>;
export type Threshold = Checked<typeof threshold>;
export type Crosscheck = Checked<typeof crosscheck>;
export type Audit = Checked<typeof audit>;
export type ErrorClass = Checked<typeof errorClass>;
export type ErrorCount = Checked<typeof errorCount>;
export type Series = Checked<typeof series>;
export type RateSeries = Checked<typeof rateSeries>;
export type Windows = Checked<typeof windows>;
/** Values per bin; `null` is a bin without data. */
export type Bins = readonly (number | null)[];

/** The data cannot be shown; `message` and `problems` say why. */
export class ReportError extends Error {
  override readonly name = "ReportError";
  constructor(
    message: string,
    readonly problems: readonly Problem[] = [],
  ) {
    super(message);
  }
}

/**
 * Reads data from JSON text, whatever they are.
 *
 * @throws {ReportError} if the text is not JSON.
 */
export function parseJson(json: string): unknown {
  let value: unknown;
  try {
    value = JSON.parse(json);
  } catch (cause) {
    throw new ReportError(`This is not JSON: ${cause instanceof Error ? cause.message : String(cause)}.`);
  }
  exactSeed(json, value);
  return value;
}

/**
 * Reads a report from JSON text.
 *
 * @throws {ReportError} if the text is not JSON, is of another schema, or lacks what the page needs.
 */
export function parseReport(json: string): Report {
  return checkReport(parseJson(json));
}

/**
 * Checks data that is already parsed.
 *
 * @throws {ReportError} as {@link parseReport}.
 */
export function checkReport(value: unknown): Report {
  if (!isObject(value)) throw new ReportError("This is JSON, but not a report: a report is one object.");
  const schema = value["schema"];
  if (typeof schema !== "string") {
    throw new ReportError(`This is JSON, but not a report: it has no "schema". This page reads "${SCHEMA}".`);
  }
  if (schema !== SCHEMA) {
    const remedy = schema.startsWith("weir-report/")
      ? "Render the run again with the version of Weir that wrote it: weir report DIR."
      : "Choose the report.json of a run folder.";
    throw new ReportError(`The data is of schema "${schema}"; this page reads "${SCHEMA}". ${remedy}`);
  }
  const problems = new Problems();
  const checked: Report = (report as Check<Report>)(value, "", problems);
  checkSeries(checked, problems);
  if (problems.found.length > 0) {
    throw new ReportError("The report is incomplete or damaged, so nothing of it is shown.", problems.found);
  }
  // A run that ended before its first bin has nothing to draw.
  return checked.series?.n_bins === 0 ? { ...checked, series: null } : checked;
}

/** A series shorter or longer than `n_bins` would be drawn against the wrong times. */
function checkSeries(checked: Report, problems: Problems): void {
  const found = checked.series;
  if (!found || typeof found.n_bins !== "number") return;
  if (found.bin_s <= 0 && found.n_bins > 0) problems.note("series.bin_s", `expected more than 0, found ${found.bin_s}`);
  const lengths = (of: Readonly<Record<string, Bins | null>>, path: string): void => {
    for (const [key, values] of Object.entries(of)) {
      if (values && values.length !== found.n_bins) {
        problems.note(`${path}.${key}`, `expected ${found.n_bins} bins (series.n_bins), found ${values.length}`);
      }
    }
  };
  lengths(found.total ?? {}, "series.total");
  for (const [name, values] of found.sites ?? []) lengths(values, `series.sites["${name}"]`);
  for (const [name, values] of found.links ?? []) lengths(values, `series.links["${name}"]`);
}

/** The digits of the seed, which may need all of 64 bits: more than a JavaScript number holds. */
function exactSeed(json: string, value: unknown): void {
  if (!isObject(value) || typeof value["seed"] !== "number" || Number.isSafeInteger(value["seed"])) return;
  const found = /"seed"\s*:\s*(\d+)/.exec(json)?.[1];
  if (found !== undefined) value["seed"] = found;
}
