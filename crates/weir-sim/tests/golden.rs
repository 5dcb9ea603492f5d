//! The same on every machine and in every build: the parts of a report have a fixed hash.
//!
//! The hashes change whenever the scheduler, the world or the books decide anything otherwise. That is no fault: look at
//! what the figures have become (`weir sim compare` of the shipped challenges), and put the hashes in place that the test
//! prints. A hash that differs between two machines, or between a debug and a release build, of one commit **is** a fault:
//! something came from outside (the system's libm, a hash table's order, the clock).
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::world::{Listeners, run};

/// Failures, stalls, outages, curves, servers, segments, background, tokens; [`hash`] adds spreads and weights by round trip.
/// So every stream of randomness is drawn from, and every function of the model is called.
const TROUBLE: &str = include_str!("trouble.toml");

const GOLDEN: [(Policy, u64); 4] = [
    (Policy::Weir, 0x2205_8463_6969_8631),
    (Policy::WeirTargets, 0xDA88_8524_BEBE_988F),
    (Policy::Fts, 0xD7D3_3A5B_4084_AF5E),
    (Policy::Fixed, 0xEC6E_23DF_FE29_D973),
];

/// FNV-1a, 64 bits (draft-eastlake-fnv).
struct Fnv(u64);

impl Fnv {
    fn eat(&mut self, text: &str) {
        for byte in text.bytes() {
            self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3);
        }
    }
}

/// The hash of every row, and of everything in the report that comes from figures.
fn hash(policy: Policy) -> u64 {
    let text = TROUBLE
        .replace("rtt = \"50 ms\"", "rtt = \"50 ms\"\nspread = 0.5")
        .replace("[sim]\n", "[sim]\nrtt_exponent = 0.7\n");
    let challenge = Challenge::parse(&text, "trouble.toml".as_ref()).unwrap();
    let plan = SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap();
    let (mut rows, mut ledger) = (Fnv(0xCBF2_9CE4_8422_2325), Fnv(0xCBF2_9CE4_8422_2325));
    let mut listeners = Listeners {
        rows: &mut |_, row| rows.eat(&format!("{row:?}\n")),
        rules: &mut |_| {},
        ledger: &mut |row| ledger.eat(&format!("{row:?}\n")),
    };
    let outcome = run(&plan, policy, &mut listeners);
    assert!(
        outcome.measured.figures.totals.finished > 100,
        "{:?}",
        outcome.measured.figures.totals
    );
    let mut all = Fnv(rows.0 ^ ledger.0.rotate_left(1));
    let figures = &outcome.measured.figures;
    all.eat(&serde_json::to_string(&figures.totals).unwrap());
    all.eat(&serde_json::to_string(&figures.links).unwrap());
    all.eat(&serde_json::to_string(&figures.sites).unwrap());
    all.eat(&serde_json::to_string(&figures.workloads).unwrap());
    all.eat(&serde_json::to_string(&figures.errors).unwrap());
    all.eat(&serde_json::to_string(&figures.series).unwrap());
    all.eat(&serde_json::to_string(&figures.parts.report(&outcome.measured.spec.sites)).unwrap());
    all.eat(&format!("{:?}", outcome.scene.drawn));
    all.0
}

/// A report would depend on the machine that made it.
#[test]
fn same_seed_same_report_on_every_machine() {
    let found = GOLDEN.map(|(policy, _)| (policy, hash(policy)));
    let new: String = found
        .iter()
        .map(|(policy, hash)| format!("    (Policy::{policy:?}, 0x{hash:016X}),\n"))
        .collect();
    assert!(
        found == GOLDEN,
        "not the known report; if that is meant, these are the new hashes:\n{new}"
    );
}
