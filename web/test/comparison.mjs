// Comparisons of policies that look like real ones, for the tests; see fixtures.mjs.
const POLICIES = ["weir", "weir-targets", "fts-imitation", "fixed"];
/** What each policy brings of what is asked. */
const SHARES = [0.97, 0.93, 0.55, 0.31];

const bins = (n, value) => Array.from({ length: n }, (_, bin) => Math.round(value * Math.min(1, (bin + 1) / 20)));

function totals(share, asked, failed) {
  return {
    asked_bps: asked || null, achieved_bps: Math.round(share * (asked || 4e9)), ratio: asked ? share : null, asked_bytes: 1e15, injected_bytes: 1e15,
    verified_bytes: Math.round(share * 1e15), hold_verified_bytes: Math.round(share * 9e14), ramp_verified_bytes: 1e13, drain_verified_bytes: 1e12,
    moved_bytes_failed: failed * 1e9, transfers: 120_000, finished: 120_000 - failed, failed, cancelled: 0, efficiency: 1 - failed / 120_000, retries: failed * 3,
    deleted_files: 0, lateness_p95_s: 1.5, lateness_max_s: 40,
  };
}

const threshold = (at, pass) => ({ name: `workload t${at}: ratio at least 0.9`, metric: "ratio", comparison: ">=", asked: 0.9, measured: pass ? 0.95 : 0.4, unit: "", pass });

function head(name, description) {
  return {
    schema: "weir-comparison/1", command: `weir sim compare challenges/${name}.toml --scale 1 --seed 9007199254740993`, challenge: name, description,
    seed: 42, scale: 1, situation: "Asked: 1.20 Tb/s over 900 links into 30 sites. Estimated optimum: 1.14 Tb/s. What would be full then: T2-07 in.",
    limits: "The limits of fts-imitation are others than Weir's: at most 200 on 900 of 900 links.", assumed: ["round trips <made up>"],
  };
}

/** Rates into thirty sites, two workloads, and a policy that misses its thresholds. */
export function rated() {
  const asked = 1_200_000_000_000;
  const workload = (name, share) => ({ name, kind: "rates", asked_bps: asked / 2, achieved_bps: (asked / 2) * share, ratio: share, cells: [], steps: [] });
  const site = (at) => {
    const into = 20e9 + at * 1.3e9;
    const brought = (share, policy) => {
      const ratio = at === 7 ? Math.min(share, 0.3) : share * (1 - at / 200);
      const cause = ratio >= 0.95 ? null : at === 7 ? "shared-capacity" : policy < 2 ? "storage-data-path" : "scheduler-policy";
      return { achieved_bps: Math.round(into * ratio), ratio, of_optimum: Math.min(1, ratio * 1.05), cause, held_back: cause && (`${cause} at ${cause === "scheduler-policy" ? "service:transfer" : "site-in:SITE"} 97 %`) };
    };
    return { site: `T2-${String(at).padStart(2, "0")} <b>`, asked_bps: into, optimum_bps: at === 7 ? into * 0.3 : into, policies: SHARES.map(brought) };
  };
  const sites = Array.from({ length: 30 }, (_, at) => site(at));
  const count = (cause) => SHARES.map((_, policy) => sites.filter((of) => of.policies[policy].cause === cause).length);
  return {
    ...head("dc-like", "Four policies on <i>one</i> plan & the optimum."),
    n_links: 900, asked_bps: asked, optimum_bps: 1_140_000_000_000, result: "Most is brought by weir: 1.16 Tb/s, 97 % of what is asked. Least by fixed: 372 Gb/s.",
    optimum_spans: [{ from_s: 0, until_s: 20_000, rate_bps: 900e9 }, { from_s: 20_000, until_s: 43_200, rate_bps: 1.14e12 }],
    full: [["T2-07 in", 0.9]],
    causes: ["shared-capacity", "storage-data-path", "scheduler-policy"].map((cause) => ({ cause, sentence: `lost most to ${cause}`, sites: count(cause) })),
    policies: SHARES.map((share, at) => ({
      policy: POLICIES[at], of_optimum: Math.min(1, share * 1.05), hold_s: 36_000, thresholds: [threshold(0, at < 2), threshold(1, at < 3)],
      violations: at === 3 ? ["a link carried more than it can"] : [], totals: totals(share, asked, at * 700), workloads: [workload("t0-export", share), workload("t1-export", share * 0.9)],
      links: [], series: { bin_s: 72, asked_bps: bins(600, asked), achieved_bps: bins(600, asked * share) },
    })),
    sites,
  };
}

/** Steps alone: a matrix and a ramp, without anything asked. */
export function stepped() {
  const cell = (at) => ({ source: "A", destination: "B", mode: "pull", size_bytes: 1e6, ok: at % 5 !== 0, transfers: 1, rate_bps: 1e8, error: null, error_class: null });
  const step = (parallel, share) => ({ source: "SOURCE", destination: "NARROW", parallel, file_bytes: 1e9, transfers: parallel, failed: 0, achieved_bps: Math.round(share * parallel * 1e9), duration_s: 20 });
  return {
    ...head("steps", ""), situation: "Steps over 2 links, one after the other.", n_links: 2, asked_bps: 0, optimum_bps: 5_000_000_000, result: null, optimum_spans: [], full: [], causes: [], sites: [],
    policies: SHARES.map((share, at) => ({
      policy: POLICIES[at], of_optimum: share, hold_s: 90 / share, thresholds: [], violations: [], totals: totals(share, 0, 0),
      workloads: [
        { name: "matrix", kind: "matrix", cells: Array.from({ length: 36 }, (_, of) => cell(of + at)) },
        { name: "ramp", kind: "ramp", steps: [1, 4].map((parallel) => step(parallel, share)) },
      ],
      links: [], series: { bin_s: 1, asked_bps: Array.from({ length: Math.round(90 / share) }, () => null), achieved_bps: bins(Math.round(90 / share), share * 4e9) },
    })),
  };
}

export const COMPARISONS = { rated, stepped };
