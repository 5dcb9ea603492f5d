// Writes reports that look like real ones, for the tests: the mini data challenge of six sites, the copy matrix and ramp of
// four, and a mesh of 2000 links. `node test/fixtures.mjs DIR` writes DIR/NAME/report.json, and report.html beside it when
// the page has been built. The same seed gives the same bytes.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { COMPARISONS } from "./comparison.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const TEMPLATE = join(HERE, "..", "dist", "report.html");
const ELEMENT = '<script type="application/json" id="weir-report">null</script>';

/** A small seeded generator: uniform in [0, 1). */
function random(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const sum = (values) => values.reduce((total, value) => total + (value ?? 0), 0);
const ratio = (part, whole) => (whole > 0 ? part / whole : null);

/** One link over time: it rises in the ramp, follows its share of the asked rate with some noise, and ends in the drain. */
function curve(link, shape, draw) {
  let wander = 0;
  return Array.from({ length: shape.bins }, (_, bin) => {
    const seconds = (bin + 0.5) * shape.bin;
    wander = 0.8 * wander + 0.2 * (draw() - 0.5) * 0.5;
    const rise = Math.min(1, seconds / shape.ramp);
    const fall = seconds > shape.ramp + shape.hold ? Math.max(0, 1 - (seconds - shape.ramp - shape.hold) / shape.drain) : 1;
    return Math.max(0, Math.round(link.asked * link.reach(seconds) * (1 + wander) * rise * fall));
  });
}

function askedCurve(asked, shape) {
  return Array.from({ length: shape.bins }, (_, bin) => {
    const start = bin * shape.bin;
    if (start >= shape.ramp + shape.hold) return 0;
    return Math.round(asked * Math.min(1, (start + shape.bin) / shape.ramp));
  });
}

/** The waits of a link: more in the queue where less arrives, a slow disk later in the run, and many small states. */
function signalsOf(link, shape, index) {
  const every = (of) => Array.from({ length: shape.bins }, (_, bin) => Number(of((bin + 0.5) * shape.bin, bin).toFixed(3)));
  const reach = (seconds) => Math.min(1, Math.max(0, link.reach(seconds)));
  const late = (seconds) => (seconds > shape.ramp + shape.hold / 2 ? 1 : 0);
  const small = ["turn", "store", "executor", "token", "resolve", "connect", "tls", "look", "first-byte", "close", "verify"];
  const rows = [
    ["slots", `rse-in:${link.destination}`, every((seconds) => 4 * shape.bin * (1 - reach(seconds)))],
    ["network", `path:${link.source}→${link.destination}`, every((seconds) => 3 * shape.bin * reach(seconds))],
    ["disk", `rse-in:${link.destination}`, every((seconds) => shape.bin * (1 + 3 * late(seconds)))],
    ["disk", `rse-out:${link.source}`, every(() => 0.2 * shape.bin)],
    ...small.map((state, at) => [state, null, every((_, bin) => ((bin + at + index) % 5) * 0.01 * shape.bin)]),
  ];
  const held = (total) => ({ holders: [{ link: `${link.source}→${link.destination}`, waited_s: Number((total * 0.6).toFixed(3)) }] });
  const told = (wait, place, seconds, total = Number(sum(seconds).toFixed(3))) => ({ wait, ...(place ? { place } : {}), total_s: total, first_bin: 0, seconds, ...(wait === "slots" ? held(total) : {}) });
  const waits = rows.map(([wait, place, seconds]) => told(wait, place, seconds));
  return { source: link.source, destination: link.destination, bin_s: shape.bin, known: index % 2 === 0 ? ["queue", "begin", "data", "end"] : ["catalogue", "queue", "begin", "data", "end"], waits };
}

/** Figures of one host and of the first path; the interface says nothing for a while, and a disk is idle throughout. */
function gaugesOf(links, shape) {
  const every = (of) => Array.from({ length: shape.bins }, (_, bin) => of(bin));
  const one = (gauge, place, unit, of) => ({ gauge, place, unit, bin_s: shape.bin, first_bin: 0, values: every(of) });
  const path = `path:${links[0].source}→${links[0].destination}`;
  return [
    one("cpu-busy", "server:node1", "1", (bin) => 0.2 + 0.1 * (bin % 3)),
    one("disk-busy", "server:node1/vda", "1", () => 0),
    one("received", "server:node1/eth0", "bit/s", (bin) => (bin % 7 === 3 ? null : 4e9 + 1e8 * bin)),
    one("round-trip", path, "s", () => 0.0123),
  ];
}

/** A report of a challenge that holds rates. `spec.links`: source, destination, sites, asked, reach(seconds), failures. */
function rates(spec) {
  const draw = random(spec.seed);
  const { shape } = spec;
  const inHold = (bins) => bins.filter((_, bin) => bin * shape.bin >= shape.ramp && bin * shape.bin < shape.ramp + shape.hold);
  const volume = (bins) => Math.round((sum(bins) * shape.bin) / 8);
  const links = spec.links.map((link) => {
    const achieved = curve(link, shape, draw);
    const asked = askedCurve(link.asked, shape);
    const size = Math.min(64_000_000, Math.max(256_000, Math.floor((link.asked * shape.hold) / 8 / 30)));
    const verified = volume(achieved);
    const finished = Math.max(1, Math.round(verified / size));
    const failed = link.failures.reduce((total, failure) => total + failure.count, 0);
    const bps = Math.round(sum(inHold(achieved)) / inHold(achieved).length);
    return {
      curves: { asked, achieved },
      row: {
        source: link.source,
        destination: link.destination,
        source_site: link.source_site,
        destination_site: link.destination_site,
        asked_bps: link.asked,
        achieved_bps: bps,
        ratio: ratio(bps, link.asked),
        file_bytes: size,
        transfers: finished + failed,
        finished,
        failed,
        cancelled: 0,
        injected_bytes: (finished + failed) * size,
        verified_bytes: verified,
        hold_verified_bytes: volume(inHold(achieved)),
        errors: link.failures.map(({ class: name, count, sample }) => ({ class: name, count, sample })),
        modes: { pull: finished },
      },
    };
  });
  const rows = links.map((link) => link.row);
  const siteNames = [...new Set(rows.flatMap((row) => [row.destination_site, row.source_site]))];
  const sites = siteNames.map((site) => {
    const into = rows.filter((row) => row.destination_site === site);
    const out = rows.filter((row) => row.source_site === site);
    const classes = new Map();
    for (const error of into.flatMap((row) => row.errors)) classes.set(error.class, { ...error, count: (classes.get(error.class)?.count ?? 0) + error.count });
    const add = (of, key) => sum(of.map((row) => row[key]));
    return {
      site,
      asked_bps: into.length > 0 ? add(into, "asked_bps") : null,
      achieved_bps: add(into, "achieved_bps"),
      ratio: ratio(add(into, "achieved_bps"), add(into, "asked_bps")),
      transfers: add(into, "transfers"),
      finished: add(into, "finished"),
      failed: add(into, "failed"),
      cancelled: 0,
      verified_bytes: add(into, "verified_bytes"),
      hold_verified_bytes: add(into, "hold_verified_bytes"),
      errors: [...classes.values()],
      egress: {
        asked_bps: out.length > 0 ? add(out, "asked_bps") : null,
        achieved_bps: add(out, "achieved_bps"),
        ratio: ratio(add(out, "achieved_bps"), add(out, "asked_bps")),
      },
    };
  });
  const addBins = (of, kind) => Array.from({ length: shape.bins }, (_, bin) => sum(of.map((link) => link.curves[kind][bin])));
  const total = { asked: addBins(links, "asked"), achieved: addBins(links, "achieved") };
  const holes = (bins) => bins.map((value, bin) => (spec.holes?.includes(bin) ? null : value));
  const askedBps = sum(rows.map((row) => row.asked_bps));
  const achievedBps = sum(rows.map((row) => row.achieved_bps));
  const failed = sum(rows.map((row) => row.failed));
  const finished = sum(rows.map((row) => row.finished));
  const failures = spec.links.flatMap((link) => link.failures);
  const errors = [...new Set(failures.map((failure) => failure.class))].map((name) => {
    const all = failures.filter((failure) => failure.class === name);
    return { class: name, count: sum(all.map((failure) => failure.count)), first_seen_s: Math.min(...all.map((failure) => failure.at)), sample: all[0].sample, party: all[0].party, remedy: all[0].remedy };
  });
  const failedBins = Array.from({ length: shape.bins }, (_, bin) => sum(failures.map((failure) => (Math.floor(failure.at / shape.bin) === bin ? failure.count : 0))));
  const thresholds = [
    threshold("total ratio", { total: true }, "ratio", ">=", 0.9, ratio(achievedBps, askedBps), ""),
    threshold("total failed ratio", { total: true }, "failed_ratio", "<=", 0.01, ratio(failed, failed + finished), ""),
    ...sites.filter((site) => site.ratio !== null).map((site) => threshold(`site ${site.site} ratio`, { site: site.site }, "ratio", ">=", 0.9, site.ratio, "")),
    threshold("total lateness p95", { total: true }, "lateness_p95", "<=", 1, 0.0431, "s"),
  ];
  const missed = thresholds.filter((candidate) => !candidate.pass);
  const disagree = spec.disagree ?? 0;
  const crosschecks = siteNames.map((site, index) => {
    const bytes = sum(rows.filter((row) => row.destination_site === site).map((row) => row.verified_bytes));
    const seen = index === 2 ? bytes + disagree : bytes;
    const difference = seen === 0 ? 0 : (seen - bytes) / seen;
    return {
      subject: site,
      quantity: "bytes received",
      transfer_service: bytes,
      receiving_storage: seen,
      sending_storage: index % 2 === 0 ? bytes : null,
      difference_ratio: difference,
      explained_bytes: spec.explained ?? 0,
      unexplained_ratio: difference,
      sockets: bytes + 5_000_000,
      sockets_difference_ratio: bytes === 0 ? 0 : 5_000_000 / bytes,
      sockets_tolerance_ratio: 0.02,
      pass: difference <= 0.001 ? true : spec.explained ? null : false,
      note: difference > 0 ? "the receiving storage also counts bytes of attempts that failed" : index === 0 ? "the storages are one program in one process on this machine" : null,
    };
  });
  const end = shape.bins * shape.bin;
  return {
    schema: "weir-report/1",
    verdict: missed.length > 0 ? "fail" : "pass",
    verdict_reasons:
      missed.length > 0
        ? missed.map((candidate) => `${candidate.name} is ${Number(candidate.measured.toPrecision(3))}, asked ${candidate.comparison} ${candidate.asked}.`)
        : ["Every threshold holds and the counters agree."],
    advice: spec.advice ?? null,
    challenge: spec.name,
    description: spec.description,
    seed: spec.seed,
    scale: spec.scale,
    interrupted: false,
    incomplete: false,
    command: `weir challenge run challenges/${spec.name}.toml --scale ${spec.scale} --seed ${spec.seed}`,
    started_at: "2026-11-21T12:00:00Z",
    ended_at: new Date(Date.parse("2026-11-21T12:00:00Z") + (end + 6) * 1000).toISOString(),
    weir: { version: "0.1.0", commit: "4f1c0de" },
    host: { name: "laptop", cores: 2, memory_bytes: 8_254_390_272, kernel: "Linux 6.1.0-28-amd64", scratch_filesystem: "ext4", cpu_busy_ratio: 0.87 },
    windows: { ramp: { start_s: 0, end_s: shape.ramp }, hold: { start_s: shape.ramp, end_s: shape.ramp + shape.hold }, drain: { start_s: shape.ramp + shape.hold, end_s: end } },
    totals: {
      times: {
        transfer_s: { p5: 0.8, p50: 1.6, p95: 4.2, p99: 9.5 },
        rate_bps: { p5: 2.1e8, p50: 1.3e9, p95: 2.6e9, p99: 3.1e9 },
        first_byte_s: { p5: 0.011, p50: 0.034, p95: 0.41, p99: 2.3 },
      },
      asked_bps: askedBps,
      achieved_bps: achievedBps,
      ratio: ratio(achievedBps, askedBps),
      asked_bytes: Math.round((askedBps * shape.hold) / 8),
      injected_bytes: sum(rows.map((row) => row.injected_bytes)),
      verified_bytes: volume(total.achieved),
      hold_verified_bytes: volume(inHold(total.achieved)),
      ramp_verified_bytes: volume(total.achieved.filter((_, bin) => bin * shape.bin < shape.ramp)),
      drain_verified_bytes: volume(total.achieved.filter((_, bin) => bin * shape.bin >= shape.ramp + shape.hold)),
      moved_bytes_failed: failed * 1_234_567,
      transfers: finished + failed,
      finished,
      failed,
      cancelled: 0,
      efficiency: ratio(finished, finished + failed),
      retries: 3 * failed + 5,
      deleted_files: finished,
      lateness_p95_s: 0.0431,
      lateness_max_s: 0.312,
    },
    links: rows,
    signals: spec.links.slice(0, 40).map((link, index) => signalsOf(link, shape, index)),
    gauges: gaugesOf(spec.links, shape),
    sites,
    workloads: [{ name: "ingress", kind: "rates", transfers: finished + failed, finished, failed, cancelled: 0, injected_bytes: 0, verified_bytes: 0, asked_bps: askedBps, achieved_bps: achievedBps, ratio: ratio(achievedBps, askedBps), lateness_p95_s: 0.0431, lateness_max_s: 0.312 }],
    thresholds,
    crosschecks,
    chain: {
      rules: 1180,
      ok: 1176,
      incomplete: 3,
      refused: 1,
      rule_to_ok_s: { p5: 0.61, p50: 1.17, p95: 1.92, p99: 2.4 },
      rooms: {
        evaluation_s: { p5: 0.002, p50: 0.005, p95: 0.009, p99: 0.014 },
        submission_s: { p5: 0.012, p50: 0.021, p95: 0.031, p99: 0.061 },
        queue_s: { p5: 0.0, p50: 0.002, p95: 0.4, p99: 0.9 },
        copy_s: { p5: 0.02, p50: 0.14, p95: 0.52, p99: 0.81 },
        completion_s: { p5: 0.4, p50: 0.9, p95: 1.1, p99: 1.2 },
      },
      stuck: [{ rule: "a1b2c3d4e5f60718293a4b5c6d7e8f90", source: "RAL", destination: "QMUL", files: 2, reason: "its rule ended after 10 s, before the file had come" }],
      deletions: { due: 1600, done: 1598, late: 2, delay_s: { p5: 0.3, p50: 1.3, p95: 2.0, p99: 2.3 } },
    },
    audit: { asked_percent: 5, files: Math.ceil(finished / 20), failed: 0, bytes: Math.ceil(finished / 20) * 9_000_000, samples: [] },
    errors: errors.sort((a, b) => b.count - a.count),
    evenness: { total: { achieved: 0.052, planned: 0.02 }, sites: Object.fromEntries(sites.map((site, index) => [site.site, { achieved: 0.06 + 0.011 * index, planned: 0.03 }])) },
    stability: { parts: 6, part_s: shape.hold / 6, cv_total: 0.041, cv_sites: Object.fromEntries(sites.map((site, index) => [site.site, 0.05 + 0.013 * index])) },
    series: {
      bin_s: shape.bin,
      n_bins: shape.bins,
      total: {
        asked_bps: total.asked,
        achieved_bps: holes(total.achieved),
        active: holes(total.achieved.map((bps) => Math.round((bps / Math.max(1, askedBps)) * links.length * 2.1 + draw() * 4))),
        queued: holes(total.asked.map((asked, bin) => Math.round(Math.max(0, ((asked - total.achieved[bin]) / Math.max(1, askedBps)) * links.length * 5 + draw() * 6)))),
        failed: failedBins,
      },
      sites: Object.fromEntries(
        sites.filter((site) => site.asked_bps !== null).map((site) => {
          const into = links.filter((link) => link.row.destination_site === site.site);
          return [site.site, { asked_bps: addBins(into, "asked"), achieved_bps: holes(addBins(into, "achieved")) }];
        }),
      ),
      links: Object.fromEntries(links.map((link) => [`${link.row.source}→${link.row.destination}`, { asked_bps: link.curves.asked, achieved_bps: holes(link.curves.achieved) }])),
    },
    events: spec.events ?? [
      { t_s: -1.8, text: "embedded grid ready: 6 storage endpoints" },
      { t_s: shape.ramp, text: "hold begins" },
      { t_s: shape.ramp + shape.hold, text: "injection stops, drain begins" },
    ],
    parameters: { "workload.ingress.cycle": "1 s", "workload.ingress.lifetime": "20 s", ...Object.fromEntries(rows.slice(0, 30).map((row) => [`file size ${row.source}→${row.destination}`, `${row.file_bytes} B`])) },
  };
}

function threshold(name, subject, metric, comparison, asked, measured, unit) {
  const pass = measured !== null && (comparison === ">=" ? measured >= asked : measured <= asked);
  return { name, subject, metric, comparison, asked, measured, unit, pass };
}

/** Text that would break a page which took it for HTML, or a template filled with `String.replace`. */
const HOSTILE = `507 from <img src=x onerror="document.title='owned'"></script><script>document.title='owned'</script>: $& $\` needs 64 MB, 12 MB free`;

/** The UK mini data challenge at 1/100, with a site that falls short and some failures. */
export function minidc({ failing = true } = {}) {
  const table = readFileSync(join(HERE, "..", "..", "data", "minidc_matrix.csv"), "utf8").trim().split("\n").slice(1).map((line) => line.split(","));
  const links = table
    .filter(([test]) => test === "ingress")
    .map(([, source, destination, mbps]) => ({
      source,
      destination,
      source_site: source,
      destination_site: destination,
      asked: Number(mbps) * 10_000,
      reach: () => 1.0,
      failures: [],
    }));
  const spec = {
    name: "minidc-uk",
    description: "UK mini data challenge of December 2024: six sites, 30 links into them, all at once (the sites ran one at a time), at a hundredth of the rates.",
    seed: 42,
    scale: 0.01,
    shape: { bin: 1, bins: 78, ramp: 10, hold: 60, drain: 8 },
    links,
  };
  if (!failing) return rates(spec);
  for (const link of links) {
    if (link.destination === "GLA") link.reach = (seconds) => (seconds > 38 ? 0.34 : 0.9);
    if (link.destination === "MAN") link.reach = () => 0.83;
    if (link.source === "RAL" && link.destination === "GLA") {
      link.failures = [{ class: "no-space", count: 9, at: 38.4, sample: HOSTILE, party: "destination", remedy: "Free space at the destination, or raise the quota of RSE GLA." }];
    }
    if (link.source === "LANCS" && link.destination === "QMUL") {
      link.failures = [
        { class: "checksum", count: 2, at: 21.2, sample: "adler32 of /weir/minidc-uk/LANCS/7 is 1f2e3d4c at the destination, 0a1b2c3d was asked: the file was removed again", party: "source", remedy: "Compare the file at the source with its checksum; the source file may be damaged." },
        { class: "timeout", count: 1, at: 55.9, sample: "no performance marker from https://127.0.1.1:41123 for 30 s while pulling https://127.0.1.3:40771/weir/minidc-uk/LANCS/12", party: "destination", remedy: null },
      ];
    }
  }
  return why(
    rates({
    ...spec,
    holes: [31, 32, 33],
    disagree: 2_469_134,
    advice: "carries 1.2 of 1.3 Gb/s; try --scale 0.009",
    events: [
      { t_s: -1.8, text: "embedded grid ready: 6 storage endpoints" },
      { t_s: 10, text: "hold begins" },
      { t_s: 38.4, text: "GLA: destination full, injection to it stops" },
      { t_s: 70, text: "injection stops, drain begins" },
    ],
    }),
  );
}

/** Two statements, and the ledger of the link that both of them are about. */
function why(report) {
  const bins = (value) => Array.from({ length: 60 }, () => value);
  return {
    ...report,
    statements: [
      {
        class: "space",
        place: "rse-in:GLA",
        links: ["RAL→GLA", "LANCS→GLA"],
        from_s: 38,
        until_s: 70,
        asked_bps: 1.2e8,
        held_bps: 4e7,
        probability: 0.93,
        others: [{ class: "storage-data-path", place: "rse-in:GLA", probability: 0.05 }],
        is_open: false,
        text: "RAL→GLA and LANCS→GLA got 40.00 Mb/s of 120.00 Mb/s from 38s to 1m10s: GLA had no room, or deleted too slowly (p = 0.93; else storage-data-path at GLA, 0.05)",
        evidence: [
          { signal: "failed: no-space, at the destination", value: 9, unit: "attempts" },
          { signal: "delete", place: "rse-in:GLA", value: 3.2, usual: 0.1, unit: "transfers waiting" },
          { signal: "injected", value: 5e7, usual: 1.2e8, unit: "bit/s" },
        ],
        via: ["rse-in:GLA"],
        advice: "make room, raise the quota, or let deletion keep up",
        settle: HOSTILE,
        said_s: 50,
      },
      { class: "measurement", place: "rse-in:MAN", links: [], from_s: 10, until_s: 70, asked_bps: 0, held_bps: 0, probability: 0.9, is_open: false, text: "The counters of MAN are wrong, and the traffic is well (p = 0.90)" },
    ],
    withdrawn: [
      {
        at_s: 48,
        is_withdrawn: true,
        statement: { class: "outage", place: "site-in:GLA", links: ["RAL→GLA"], from_s: 36, until_s: 44, asked_bps: 6e7, held_bps: 1e6, probability: 0.41, is_open: false, text: `RAL→GLA got 1.00 Mb/s of 60.00 Mb/s from 36s to 44s: the network into site GLA was down ${HOSTILE}` },
      },
    ],
    ledger: [
      {
        link: "RAL→GLA",
        bin_s: 1,
        first_bin: 10,
        asked_bits: bins(100),
        achieved_bits: bins(60),
        causes: [
          { class: "space", place: "rse-in:GLA", total_bits: 1800, bits: bins(30) },
          { class: "workload", total_bits: 360, bits: bins(6) },
        ],
        rest_bits: bins(4),
      },
    ],
  };
}

/** A mesh of 45 sites: 1980 links and a few outside, 2 h in bins of 15 s. */
export function mesh() {
  const draw = random(7);
  const names = Array.from({ length: 45 }, (_, index) => `${["CERN", "RAL", "IN2P3", "FZK", "PIC", "CNAF", "BNL", "TRIUMF", "SARA", "NDGF"][index] ?? `T2-SITE-${String(index).padStart(2, "0")}`}`);
  const links = names.flatMap((source) =>
    names.filter((destination) => destination !== source).map((destination) => {
      const reach = destination === "T2-SITE-17" ? 0.3 : destination === "T2-SITE-23" ? 0.62 : source === "PIC" ? 0.8 : 0.93 + 0.1 * draw();
      return { source, destination, source_site: source, destination_site: destination, asked: Math.round(2e6 + draw() * 9e8), reach: () => reach, failures: [] };
    }),
  );
  for (let extra = 0; extra < 20; extra += 1) {
    links.push({ source: "T0-TAPE", destination: names[extra], source_site: "CERN", destination_site: names[extra], asked: 5e8, reach: () => 0.97, failures: [] });
  }
  for (let index = 0; index < 60; index += 1) {
    links[Math.floor(draw() * links.length)].failures = [{ class: ["timeout", "token", "network", "overload"][index % 4], count: 1 + Math.floor(draw() * 40), at: 600 + index * 100, sample: "connection closed after 3.1 GB of 5.0 GB", party: "source", remedy: "Look at the source's log." }];
  }
  return rates({ name: "full-mesh", description: "2000 links between 45 sites for two hours.", seed: 7, scale: 1, shape: { bin: 15, bins: 480, ramp: 600, hold: 6300, drain: 300 }, links });
}

/** The copy matrix and the ramp between four sites, as the JUNO tests had them. */
export function juno() {
  const draw = random(3);
  const names = ["CNAF", "IHEP", "IN2P3", "JINR"];
  const cells = [1_000_000, 100_000_000].flatMap((size) =>
    names.flatMap((source) =>
      names.flatMap((destination) =>
        ["pull", "push", "streamed"].map((mode) => {
          const broken =
            mode === "push" && source === "IHEP"
              ? ["permission", "403 Forbidden: the source may not write for this token; scope storage.modify:/juno is missing"]
              : mode !== "streamed" && source === "JINR"
                ? ["protocol", `405 Method Not Allowed: ${destination === "CNAF" ? "COPY is switched off at the source" : "COPY is switched off"}`]
                : null;
          const speed = (size > 1e7 ? 1 : 0.25) * { pull: 1.6e9, push: 1.4e9, streamed: 9e8 }[mode] * (source === destination ? 1.5 : 0.5 + draw());
          return { source, destination, mode, size_bytes: size, ok: !broken, transfers: 1, rate_bps: broken ? null : Math.round(speed), error: broken?.[1] ?? null, error_class: broken?.[0] ?? null };
        }),
      ),
    ),
  );
  const table = { "IHEP→CNAF": [1.97, 6.14, 7.79, 0.25], "CNAF→IHEP": [0.28, 1.7, 1.92, 0.75], "IN2P3→CNAF": [3.53, 9.04, 7.82, 0], "CNAF→IN2P3": [10.9, 15.8, 7.83, 0], "JINR→CNAF": [1.74, 3.57, 3.9, 0], "CNAF→JINR": [6.1, 12.8, 3.1, 0] };
  const steps = Object.entries(table).flatMap(([link, [a, b, c, lost]]) =>
    [[10, a], [40, b], [100, c]].map(([parallel, gbps]) => {
      const [source, destination] = link.split("→");
      return { source, destination, parallel, file_bytes: 5_000_000, transfers: parallel, failed: Math.round(parallel * lost), achieved_bps: Math.round(gbps * 1e7), duration_s: (parallel * 5_000_000 * 8 * (1 - lost)) / (gbps * 1e7) };
    }),
  );
  const base = minidc({ failing: false });
  const failed = cells.filter((cell) => !cell.ok).length + sum(steps.map((step) => step.failed));
  const transfers = cells.length + sum(steps.map((step) => step.transfers));
  const siteRow = (site) => ({ site, asked_bps: null, achieved_bps: Math.round(1e8 + draw() * 1e8), ratio: null, transfers: 100, finished: 90, failed: 10, cancelled: 0, errors: [], egress: { asked_bps: null, achieved_bps: Math.round(1e8 + draw() * 1e8), ratio: null } });
  const flat = base.series.total.achieved_bps.map((value) => Math.round(value / 3));
  return {
    ...base,
    verdict: "unstable",
    verdict_reasons: ["The total varies by 71 % over six parts of the hold window (limit 60 %)."],
    advice: null,
    challenge: "juno",
    description: "Every ordered pair of four sites by pull, push and streamed copy; then 10, 40 and 100 parallel transfers.",
    command: "weir challenge run challenges/juno.toml --seed 42",
    scale: 1,
    totals: { ...base.totals, asked_bps: null, ratio: null, achieved_bps: 412_000_000, transfers, finished: transfers - failed, failed, efficiency: (transfers - failed) / transfers, lateness_p95_s: null, lateness_max_s: null },
    links: [],
    sites: names.map(siteRow),
    workloads: [
      { name: "pairs", kind: "matrix", transfers: cells.length, finished: 0, failed: 0, cancelled: 0, injected_bytes: 0, verified_bytes: 0, cells },
      { name: "parallel", kind: "ramp", transfers: 900, finished: 0, failed: 0, cancelled: 0, injected_bytes: 0, verified_bytes: 0, steps },
    ],
    thresholds: [threshold("workload pairs ok ratio", { workload: "pairs" }, "ok_ratio", ">=", 0.7, cells.filter((cell) => cell.ok).length / cells.length, ""), threshold("total achieved", { total: true }, "achieved", ">=", 300_000_000, 412_000_000, "bit/s")],
    crosschecks: base.crosschecks.slice(0, 4).map((check, index) => ({ ...check, subject: names[index] })),
    audit: null,
    errors: [
      { class: "protocol", count: 16, first_seen_s: 3.2, sample: "405 Method Not Allowed: COPY is switched off", party: "source", remedy: "Allow third-party copies at the source, or let the service stream." },
      { class: "permission", count: 8, first_seen_s: 5.9, sample: "403 Forbidden: the source may not write for this token", party: "issuer", remedy: "Grant the scope storage.modify:/juno." },
    ],
    stability: { parts: 6, part_s: 10, cv_total: 0.71, cv_sites: {} },
    series: { bin_s: 1, n_bins: 78, total: { ...base.series.total, asked_bps: flat.map(() => null), achieved_bps: flat }, sites: Object.fromEntries(names.map((name, index) => [name, { asked_bps: flat.map(() => null), achieved_bps: flat.map((value) => Math.round((value * (index + 1)) / 10)) }])), links: {} },
  };
}

/** Names as sites give them, and more reasons than fit. */
export function longNames() {
  const names = ["CERN-PROD_DATADISK", "RAL-LCG2-ECHO_DATADISK", "IN2P3-CC_DATADISK", "INFN-T1_DATADISK", "NDGF-T1_DATADISK", "NIKHEF_DATADISK", "PIC_DATADISK", "SARA-MATRIX_DATADISK"];
  const links = names.slice(1).flatMap((name, index) =>
    [[names[0], name], [name, names[0]]].map(([source, destination]) => ({
      source,
      destination,
      source_site: source.split("_")[0],
      destination_site: destination.split("_")[0],
      asked: 44e9,
      reach: () => 0.45 + 0.08 * index,
      failures: [],
    })),
  );
  const report = rates({ name: "a-challenge-with-quite-a-long-name-and-no-spaces-in-it", description: "", seed: 18, scale: 1, shape: { bin: 10, bins: 60, ramp: 60, hold: 480, drain: 60 }, links });
  return { ...report, interrupted: true, verdict_reasons: Array.from({ length: 20 }, (_, index) => `Reason ${index + 1}: ${report.verdict_reasons[index % report.verdict_reasons.length]}`) };
}

/** A run that ended before anything happened. */
export function nothing() {
  const base = minidc({ failing: false });
  const window = { start_s: 0, end_s: 0 };
  return {
    ...base,
    verdict: "fail",
    verdict_reasons: ["Nothing was delivered."],
    interrupted: true,
    windows: { ramp: window, hold: window, drain: window },
    totals: Object.fromEntries(Object.entries(base.totals).map(([key]) => [key, ["asked_bps", "ratio", "efficiency", "lateness_p95_s", "lateness_max_s", "times"].includes(key) ? null : 0])),
    links: [],
    sites: [],
    workloads: [],
    thresholds: [],
    crosschecks: [],
    audit: null,
    errors: [],
    stability: null,
    series: { bin_s: 0, n_bins: 0, total: { asked_bps: [], achieved_bps: [], active: [], queued: [], failed: [] }, sites: {}, links: {} },
    events: [],
    parameters: {},
  };
}

/** As the binary does it: `<` cannot begin a tag inside JSON. */
export function fill(template, report) {
  const json = JSON.stringify(report).replaceAll("<", "\\u003c");
  return template.replace(ELEMENT, () => ELEMENT.replace("null", () => json));
}

export const FIXTURES = { minidc, "minidc-pass": () => minidc({ failing: false }), juno, mesh, "long-names": longNames, nothing };

/** Writes all fixtures; returns the folders. */
export function writeFixtures(folder) {
  return Object.entries(FIXTURES).map(([name, make]) => {
    const target = join(folder, name);
    mkdirSync(target, { recursive: true });
    const report = make();
    writeFileSync(join(target, "report.json"), JSON.stringify(report));
    if (existsSync(TEMPLATE)) writeFileSync(join(target, "report.html"), fill(readFileSync(TEMPLATE, "utf8"), report));
    return target;
  });
}

/** Writes all comparisons as pages; returns them. */
export function writeComparisons(folder) {
  return Object.entries(COMPARISONS).map(([name, make]) => {
    const page = join(folder, `${name}.html`);
    writeFileSync(page, fill(readFileSync(TEMPLATE, "utf8"), make()));
    return page;
  });
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? "").href) {
  const folder = process.argv[2];
  if (!folder) throw new Error("usage: node test/fixtures.mjs DIR");
  for (const target of writeFixtures(folder)) console.log(target);
  if (existsSync(TEMPLATE)) for (const page of writeComparisons(folder)) console.log(page);
}
