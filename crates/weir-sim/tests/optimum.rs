//! The optimum of small plans that can be worked out by hand.
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

use weir_plan::{Challenge, Overrides};
use weir_sim::SimPlan;
use weir_sim::optimum::optimum;
use weir_sim::scene::Scene;

/// Two links into B, of 8 and 6 Gb/s, and whatever the simulated world is.
fn gigabits(world: &str) -> (f64, Vec<f64>) {
    let text = format!(
        r#"
name = "small"
[grid]
name = "g"
[grid.transfer]
max_active_per_link = 1000
max_active_per_rse_in = 1000
max_active_per_rse_out = 1000
[[grid.rse]]
name = "A"
[[grid.rse]]
name = "B"
[[grid.rse]]
name = "C"
[phases]
ramp = "10 m"
hold = "1 h"
[[workload]]
kind = "rates"
name = "first"
activity = "First"
file_size_min = "1 GB"
file_size_max = "1 GB"
rates = [{{ source = "A", destination = "B", rate = "8 Gb/s" }}]
[[workload]]
kind = "rates"
name = "second"
activity = "Second"
file_size_min = "1 GB"
file_size_max = "1 GB"
rates = [{{ source = "C", destination = "B", rate = "6 Gb/s" }}]
{world}
"#
    );
    let challenge = Challenge::parse(&text, "small.toml".as_ref()).unwrap();
    let plan = SimPlan::of(challenge.resolve(&Overrides::default()).unwrap()).unwrap();
    let best = optimum(&plan, &Scene::new(&plan)).unwrap();
    let gigabits = |rate: weir_units::BitRate| rate.as_f64() / 1e9;
    (gigabits(best.total), best.links.into_iter().map(gigabits).collect())
}

fn close(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.01 * other.max(0.1)
}

/// A workload that nothing holds back would not reach its asked rate.
#[test]
fn without_limits_it_is_what_is_asked() {
    let (total, links) = gigabits("");
    assert!(
        close(total, 14.0) && close(links[0], 8.0) && close(links[1], 6.0),
        "{total} {links:?}"
    );
}

/// A full link would be shared otherwise than evenly by what is asked.
#[test]
fn a_full_link_gives_every_link_the_same_share_of_its_ask() {
    let (total, links) = gigabits("[[sim.site]]\nsite = \"B\"\nin = \"7 Gb/s\"\n");
    assert!(
        close(total, 7.0) && close(links[0], 4.0) && close(links[1], 3.0),
        "{total} {links:?}"
    );
}

/// Priorities would not come first.
#[test]
fn priorities_come_first() {
    let world = "[[sim.site]]\nsite = \"B\"\nin = \"7 Gb/s\"\n[[sim.activity]]\nactivity = \"Second\"\npriority = 5\n";
    let (total, links) = gigabits(world);
    assert!(
        close(total, 7.0) && close(links[1], 6.0) && close(links[0], 1.0),
        "{total} {links:?}"
    );
}

/// A knee would count with what is beyond it, or slots would carry more than they can.
#[test]
fn knees_count_as_their_plateau_and_slots_as_their_rate() {
    let curve = "[[sim.rse]]\nrse = \"B\"\nwrite_curve = [{ active = 40, rate = \"9 Gb/s\" }, { active = 100, rate = \"2 Gb/s\" }]\n";
    assert!(close(gigabits(curve).0, 9.0));
    // A transfer moves 8 Gb in 8 s at 1 Gb/s, and takes 1.08 s to start and to end: ten slots carry 8.8 Gb/s.
    let slots = "[[sim.rse]]\nrse = \"B\"\nmax_active_in = 10\nstream_rate = \"1 Gb/s\"\n";
    assert!(close(gigabits(slots).0, 10.0 * 8.0 / 9.08), "{}", gigabits(slots).0);
}

/// A capacity that changes would count for the whole hold with what it is at one moment.
#[test]
fn a_change_counts_from_its_moment() {
    let world = "[[sim.segment]]\nname = \"sea\"\ncapacity = \"10 Gb/s\"\nchanges = [{ at = \"40 m\", capacity = \"5 Gb/s\" }]\n\
                 [[sim.link]]\nlink = \"*->B\"\nvia = [\"sea\"]\n";
    let (total, _) = gigabits(world);
    assert!(close(total, 7.5), "{total}");
}
