//! No policy moves much more than the estimate of the optimum, in small worlds drawn from seeds.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::fmt::Write as _;

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::optimum::optimum;
use weir_sim::policies::Policy;
use weir_sim::scene::Scene;
use weir_sim::world::{Listeners, run};

struct Draw(ChaCha8Rng);

impl Draw {
    fn one_of<'t>(&mut self, choice: &[&'t str]) -> &'t str {
        choice[(self.0.next_u64() % choice.len() as u64) as usize]
    }

    /// The text, or nothing as often as not.
    fn perhaps(&mut self, text: String) -> String {
        if self.0.next_u64().is_multiple_of(2) {
            text
        } else {
            String::new()
        }
    }
}

/// Three storage elements on two sites, four links; whatever limits there are, and what moves beside them.
fn file(seed: u64) -> String {
    let draw = &mut Draw(ChaCha8Rng::seed_from_u64(seed));
    let mut text = format!(
        r#"
name = "drawn"
seed = {seed}
[grid]
name = "g"
[grid.transfer]
max_active_per_link = {}
max_active_per_rse_in = {}
[[grid.site]]
name = "X"
[[grid.rse]]
name = "A"
site = "X"
[[grid.rse]]
name = "B"
site = "X"
[[grid.rse]]
name = "C"
[phases]
ramp = "2 m"
hold = "{}"
drain = "5 m"
"#,
        draw.one_of(&["2", "10", "100"]),
        draw.one_of(&["5", "20", "200"]),
        draw.one_of(&["10 m", "25 m"]),
    );
    for name in ["one", "two"] {
        let start = format!("start = \"{}\"\nlength = \"6 m\"\n", draw.one_of(&["1 m", "3 m"]));
        let _ = write!(
            text,
            "[[workload]]\nkind = \"rates\"\nname = \"{name}\"\nactivity = \"{name}\"\ncycle = \"{}\"\n\
             file_size_min = \"{}\"\nfile_size_max = \"2 GB\"\n{}rates = [",
            draw.one_of(&["5 s", "30 s", "120 s"]),
            draw.one_of(&["100 MB", "500 MB", "2 GB"]),
            draw.perhaps(start),
        );
        for (source, destination) in [("A", "C"), ("B", "C"), ("A", "B"), ("C", "A")] {
            let rate = draw.one_of(&["500 Mb/s", "2 Gb/s", "5 Gb/s"]);
            let link = format!("{{ source = \"{source}\", destination = \"{destination}\", rate = \"{rate}\" }},");
            text.push_str(&draw.perhaps(link));
        }
        text.push_str("{ source = \"B\", destination = \"A\", rate = \"1 Gb/s\" }]\n");
    }
    let rate = |draw: &mut Draw| draw.one_of(&["700 Mb/s", "2 Gb/s", "4 Gb/s"]);
    let key = |key: &str, draw: &mut Draw| {
        let line = format!("{key} = \"{}\"\n", rate(draw));
        draw.perhaps(line)
    };
    for site in ["X", "C"] {
        let _ = write!(
            text,
            "[[sim.site]]\nsite = \"{site}\"\nin = \"3 Gb/s\"\nout = \"5 Gb/s\"\n{}{}background_variation = {}\n",
            key("background_in", draw),
            key("background_out", draw),
            draw.one_of(&["0", "0.5", "1"]),
        );
    }
    for rse in ["A", "B", "C"] {
        let _ = write!(text, "[[sim.rse]]\nrse = \"{rse}\"\n");
        for limit in ["read", "write", "disk", "stream_rate"] {
            let line = key(limit, draw);
            text.push_str(&draw.perhaps(line));
        }
        for line in [
            "write_connections = 4\n",
            "read_connections = 3\n",
            "readback = true\n",
            "max_active_in = 6\n",
            "servers = [{ count = 2, rate = \"1 Gb/s\", slots = 3 }]\n",
            "write_curve = [{ active = 4, rate = \"3 Gb/s\" }, { active = 9, rate = \"1 Gb/s\" }]\n",
        ] {
            let line = draw.perhaps(line.to_owned());
            text.push_str(&draw.perhaps(line));
        }
    }
    let _ = write!(
        text,
        "[[sim.link]]\nlink = \"*->*\"\nrtt = \"{}\"\nvia = [\"sea\"]\n{}[[sim.segment]]\nname = \"sea\"\ncapacity = \"{}\"\n\
         background = \"1 Gb/s\"\nbackground_variation = {}\nchanges = [{{ at = \"5 m\", capacity = \"{}\" }}]\n",
        draw.one_of(&["1 ms", "100 ms"]),
        key("capacity", draw),
        draw.one_of(&["1 Gb/s", "6 Gb/s"]),
        draw.one_of(&["0", "1"]),
        draw.one_of(&["0 b/s", "3 Gb/s", "20 Gb/s"]),
    );
    text
}

fn plan(seed: u64) -> SimPlan {
    let challenge = Challenge::parse(&file(seed), "drawn.toml".as_ref());
    let challenge = challenge.unwrap_or_else(|problems| panic!("{problems:?}\n{}", file(seed)));
    SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap()
}

/// The bytes of files beyond their rates: on each link one begins before the hold and ends within, or is injected whole
/// when the first of its bytes is due.
fn grain(plan: &SimPlan, scene: &Scene) -> f64 {
    let sizes = scene.asks.iter().map(|ask| ask.file_size.as_f64() * 8.0);
    sizes.sum::<f64>() / plan.phases.hold.as_secs_f64()
}

/// If this fails, a policy moved far more than what a report estimates to be possible.
#[test]
fn no_policy_moves_much_more_than_the_estimate() {
    for seed in 0..300 {
        let plan = plan(seed);
        let scene = Scene::new(&plan);
        // A policy that starves a link may move a little more: the estimate first gives each its least share, and looks no further than its interval.
        let most = 1.05 * optimum(&plan, &scene).unwrap().total.as_f64() + grain(&plan, &scene);
        for policy in Policy::ALL {
            let mut listeners = Listeners {
                rows: &mut |_, _| {},
                rules: &mut |_| {},
                ledger: &mut |_| {},
            };
            let outcome = run(&plan, policy, &mut listeners);
            let violations = outcome.checks.violations();
            assert!(
                violations.is_empty(),
                "seed {seed} {policy}: {violations:?}\n{}",
                file(seed)
            );
            let achieved = outcome.measured.figures.totals.achieved_bps.unwrap().as_f64();
            assert!(
                achieved <= most,
                "seed {seed} {policy}: {achieved} b/s of {most}\n{}",
                file(seed)
            );
        }
    }
}
