//! A small world with backlogs, watched from outside.

use std::time::Duration;

use weir_plan::{Challenge, Overrides};
use weir_sched::{Command, Priority, Terms, VoId};
use weir_sim::SimPlan;
use weir_sim::policies::Policy;
use weir_sim::scene::Scene;
use weir_sim::world::{NoDemand, Row, Want, World};
use weir_units::Timestamp;

/// A plan from RSEs, links and simulated world. No limit on slots but those that the world sets.
pub(crate) fn plan(rses: &[&str], links: &[(&str, &str)], sim: &str, seed: u64) -> SimPlan {
    let rses: String = rses
        .iter()
        .map(|name| format!("[[grid.rse]]\nname = \"{name}\"\n"))
        .collect();
    let rates: String = links
        .iter()
        .map(|(source, destination)| {
            format!("  {{ source = \"{source}\", destination = \"{destination}\", rate = \"1 Gb/s\" }},\n")
        })
        .collect();
    let text = format!(
        "name = \"proof\"\n[grid]\nname = \"g\"\n[grid.transfer]\nmax_active_per_link = 5000\n\
         max_active_per_rse_in = 5000\nmax_active_per_rse_out = 5000\n{rses}\
         [[workload]]\nkind = \"rates\"\nrates = [\n{rates}]\n{sim}"
    );
    let overrides = Overrides {
        seed: Some(seed),
        ..Overrides::default()
    };
    let challenge = Challenge::parse(&text, "proof.toml".as_ref()).unwrap_or_else(|problems| panic!("{problems:?}"));
    SimPlan::of(challenge.resolve(&overrides).unwrap()).unwrap()
}

/// A world whose links have more to move than they ever can.
pub(crate) struct Lab {
    pub(crate) world: World,
    rows: Vec<Row>,
}

impl Lab {
    /// Cores on their seats; `seat` says which of them has a link. Files of 1 GB; markers as Weir's storage sends them.
    pub(crate) fn new(plan: &SimPlan, policies: &[Policy], files: usize, seat: impl Fn(usize) -> usize) -> Self {
        let scene = Scene::new(plan);
        let cores = policies.iter().map(|policy| policy.core(plan, &scene)).collect();
        let n_links = scene.links.len();
        let mut world = World::new(scene, plan.seed, cores);
        world.set_marker_interval(Duration::from_secs(5));
        (0..policies.len()).for_each(|seat| world.command(seat, Command::Begin));
        let wants = vec![
            Want {
                mode: weir_world::CopyMode::Pull,
                size: 1_000_000_000,
                wanted: Timestamp(0)
            };
            files
        ];
        let terms = Terms {
            priority: Priority::default(),
            vo: VoId(0),
            retries: 3,
            retry_delay: Duration::ZERO,
            deadline: Timestamp(0),
        };
        for link in 0..n_links {
            world.submit(seat(link), link, terms, 0, &wants);
        }
        Self {
            world,
            rows: Vec::new(),
        }
    }

    /// Goes on until a time, and gives the mean rate of a wire from now until then, in Gb/s.
    pub(crate) fn run(&mut self, wire: &str, until_secs: u64) -> f64 {
        let (begin, until) = (self.world.now(), Timestamp::from_secs(until_secs));
        let (mut now, mut bits) = (begin, 0.0);
        loop {
            let rate = self.world.carried(wire).unwrap().as_f64();
            let next = self.world.next_moment().unwrap_or(until).min(until);
            bits += rate * next.since(now).as_secs_f64();
            now = next;
            if self.world.next_moment().is_none_or(|moment| moment >= until) {
                break;
            }
            self.world.go_to(next, &mut NoDemand);
            self.rows.extend(self.world.take_rows());
        }
        bits / until.since(begin).as_secs_f64() / 1e9
    }

    /// Rate of each link in Gb/s over a time, each transfer's bytes spread evenly from its start to its end.
    pub(crate) fn rates(&self, from_secs: u64, until_secs: u64) -> Vec<f64> {
        let mut bits = vec![0.0; self.world.scene().links.len()];
        for row in &self.rows {
            let (start, end) = (row.started.unwrap().as_secs_f64(), row.ended.as_secs_f64());
            let within = end.min(until_secs as f64) - start.max(from_secs as f64);
            bits[row.ask] += 8.0 * row.moved as f64 * (within / (end - start)).max(0.0);
        }
        let seconds = (until_secs - from_secs) as f64;
        bits.iter().map(|bits| bits / seconds / 1e9).collect()
    }

    /// Nothing that watches from outside has anything to say.
    pub(crate) fn assert_sound(&self) {
        assert!(
            self.world.checks().violations().is_empty(),
            "{:?}",
            self.world.checks().violations()
        );
    }
}

/// Jain's index of fairness: 1 where all have the same, 1 ÷ n where one has all (Jain, Chiu, Hawe, DEC TR-301, 1984).
pub(crate) fn jain(rates: &[f64]) -> f64 {
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
    sum * sum / (rates.len() as f64 * squares)
}
