#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_database::{Database, on_both};
use weir_model::catalog::RuleState;
use weir_rules::{deletion::Goal, loads::Held, place::End};

use super::*;
use crate::{
    accounts,
    clock::Clock,
    evaluator, injector,
    replicas::deletion,
    rses,
    rules::{
        self,
        tests::{FAILED, alice, did, end, prepared, submit},
    },
    schema::MIGRATIONS,
    testing::{NOW, attempt, done},
};

on_both!(MIGRATIONS;
    a_load_follows_its_curve
    files_take_part_again_once_they_are_deleted
    an_overdue_file_holds_back_and_is_lost_in_the_end
    quota_and_space_hold_back_what_does_not_fit
    a_destination_that_takes_nothing_is_named
    a_stop_ends_rules_and_lasts
    a_link_has_one_load_at_a_time
    a_load_takes_the_files_of_its_data
    a_dry_run_makes_nothing
);

const SECOND: Millis = 1000;

/// 10 bytes a second, which is a file a second, from S to A, in cycles of ten seconds.
fn settings() -> Settings {
    Settings {
        curve: vec![(0, 80)],
        interval: 10_000,
        lifetime: 60_000,
        cooldown: 0,
        fudge: 0,
        overshoot: 200,
        big_first: false,
        dry_run: false,
        activity: "Data Challenge".into(),
        priority: 3,
        comment: None,
    }
}

fn plan(link: (RseId, RseId), seconds: Millis) -> LoadPlan {
    LoadPlan {
        account: alice(),
        source: link.0,
        destination: link.1,
        scope: "mc".parse().unwrap(),
        data: None,
        starts: NOW,
        ends: NOW + seconds * SECOND,
        settings: settings(),
    }
}

fn adding(uid: &'static str, plan: LoadPlan) -> impl weir_database::Work<()> {
    move |session: &mut dyn Session| add(session, uid, &plan, NOW)
}

/// The catalogue in time that a test moves.
struct World {
    database: Database,
    clock: Clock,
    at: std::sync::Arc<std::sync::atomic::AtomicI64>,
}

impl World {
    fn new(database: &Database) -> Self {
        let at = std::sync::Arc::new(NOW.into());
        Self {
            database: database.clone(),
            clock: Clock::Set(std::sync::Arc::clone(&at)),
            at,
        }
    }

    /// Sets the time, and runs all work that is due then. Transfers end as told, and replicas to delete at A are
    /// deleted.
    async fn pass(&self, seconds: Millis, how: Option<End>) {
        self.at
            .store(NOW + seconds * SECOND, std::sync::atomic::Ordering::Relaxed);
        injector::round(&self.database, &self.clock).await;
        while evaluator::round(&self.database, &self.clock).await {}
        let now = self.clock.now();
        let work = move |session: &mut dyn Session| {
            if let Some(how) = how {
                let attempts = submit(session, now)?;
                end(session, &attempts, how, now)?;
            }
            for rse in rses::list(session)? {
                if rse.rse.name.as_str() != "S" {
                    let marked = deletion::mark(session, rse.rse.id, Goal::Greedy, now, 10_000)?;
                    deletion::deleted(session, rse.rse.id, &marked, now)?;
                }
            }
            Ok(())
        };
        done(&self.database, work).await;
    }

    async fn load(&self) -> (Load, Live, Vec<Entry>) {
        let work = |session: &mut dyn Session| {
            let load = get(session, "l1")?;
            let live = live(session, &load)?;
            let entries = entries(session, load.id, 0, 1000)?;
            Ok((load, live, entries))
        };
        done(&self.database, work).await
    }

    /// The bytes of a load are where the ledger says: each is waiting, arrived or lost.
    async fn check(&self) -> (Load, Live, Vec<Entry>) {
        let (load, live, entries) = self.load().await;
        let sum = |of: fn(&Entry) -> u64| entries.iter().map(of).sum::<u64>();
        assert_eq!(load.sums.injected.0, sum(|entry| entry.bytes.0));
        assert_eq!(load.sums.injected_files, sum(|entry| entry.files));
        assert_eq!(load.sums.given_up.0, sum(|entry| entry.given_up.0));
        let parts = load.sums.arrived.0 + live.arrived.0 + live.waiting.0 + load.sums.lost.0 + live.lost.0;
        assert_eq!(
            load.sums.injected.0,
            if load.plan.settings.dry_run { 0 } else { parts } + dry(&load)
        );
        (load, live, entries)
    }
}

fn dry(load: &Load) -> u64 {
    if load.plan.settings.dry_run {
        load.sums.injected.0
    } else {
        0
    }
}

async fn a_load_follows_its_curve(database: Database) {
    let [s, a, _] = prepared(&database, 100).await;
    let curve = vec![(0, 80), (20_000, 80), (20_000, 160)];
    let mut plan = plan((s, a), 40);
    plan.settings.curve = curve;
    done(&database, adding("l1", plan)).await;
    let world = World::new(&database);
    for second in 0..=40 {
        world.pass(second, Some(End::Done)).await;
        let (load, live, _) = world.check().await;
        assert_eq!(live.waiting, Bytes(0));
        let phase = load.terms().unwrap().phase.as_secs() as Millis;
        assert_eq!(phase, 6, "the second cycle of load 1");
    }
    let (load, live, entries) = world.check().await;
    assert_eq!(load.state, LoadState::Ended);
    assert_eq!(
        (load.sums.injected_files, live.arrived_files),
        (60, 60),
        "20 s at a file a second, 20 s at two"
    );
    assert_eq!(load.sums.given_up, Bytes(0));
    assert_eq!(entries.iter().map(|entry| entry.files).collect::<Vec<_>>().len(), 5);
    let rule = entries[0].rule.clone().unwrap();
    let read = move |session: &mut dyn Session| rules::get(session, &rule);
    let rule = done(&database, read).await;
    assert_eq!(
        (rule.state, rule.wish.source_expression.as_deref()),
        (RuleState::Ok, Some("S"))
    );
    assert_eq!((rule.wish.expires, rule.wish.purge), (Some(NOW + 60 * SECOND), true));
    // When all rules have ended, all is counted, and the load is looked at no more.
    for second in [70, 110, 170, 300] {
        world.pass(second, Some(End::Done)).await;
    }
    let (load, live, entries) = world.check().await;
    assert_eq!((load.due, live, load.sums.arrived_files), (None, Live::default(), 60));
    assert!(
        entries
            .iter()
            .all(|entry| entry.ended.is_some() && entry.arrived == entry.bytes)
    );
}

async fn files_take_part_again_once_they_are_deleted(database: Database) {
    // 100 files for a load that asks for 200: each goes twice, and none while a copy of it is there.
    let [s, a, _] = prepared(&database, 100).await;
    let mut plan = plan((s, a), 200);
    plan.settings.cooldown = 20_000;
    done(&database, adding("l1", plan)).await;
    let world = World::new(&database);
    for second in 0..=200 {
        world.pass(second, Some(End::Done)).await;
    }
    let (load, _, entries) = world.check().await;
    assert_eq!((load.sums.injected_files, load.sums.given_up), (200, Bytes(0)));
    assert!(entries.iter().all(|entry| entry.held.is_none()), "{entries:?}");
}

async fn an_overdue_file_holds_back_and_is_lost_in_the_end(database: Database) {
    let [s, a, _] = prepared(&database, 100).await;
    done(&database, adding("l1", plan((s, a), 300))).await;
    let world = World::new(&database);
    for second in 0..55 {
        world.pass(second, None).await;
    }
    let (load, live, entries) = world.check().await;
    assert_eq!(
        (load.sums.injected, live.waiting),
        (Bytes(500), Bytes(500)),
        "five cycles"
    );
    assert_eq!(
        (load.held, entries.last().unwrap().held),
        (Some(Held::Backlog), Some(Held::Backlog))
    );
    // Their rules end after a minute; lost bytes are asked for again, up to a quarter.
    for second in 55..=300 {
        world.pass(second, Some(FAILED)).await;
    }
    let (load, live, _) = world.check().await;
    assert!(load.sums.lost.0 > 500 && load.sums.arrived.0 == 0, "{load:?}");
    assert_eq!(load.state, LoadState::Ended);
    assert!(load.sums.given_up.0 > 0 && load.sums.injected.0 <= 3000 * 5 / 4 && live.arrived.0 == 0);
}

async fn quota_and_space_hold_back_what_does_not_fit(database: Database) {
    let [s, a, b] = prepared(&database, 100).await;
    let limit = move |session: &mut dyn Session| accounts::limits::set(session, &alice(), a, 120);
    done(&database, limit).await;
    done(&database, adding("l1", plan((s, a), 100))).await;
    let world = World::new(&database);
    for second in 0..40 {
        world.pass(second, Some(End::Done)).await;
    }
    let (load, _, _) = world.check().await;
    assert_eq!(
        (load.sums.injected, load.held),
        (Bytes(120), Some(Held::Quota)),
        "what fits goes"
    );
    // As soon as the first rules have ended there is room again.
    for second in 40..100 {
        world.pass(second, Some(End::Done)).await;
    }
    let (load, ..) = world.check().await;
    assert!(load.sums.injected > Bytes(120), "{load:?}");
    let space = move |session: &mut dyn Session| {
        stop(session, &Which::All, (true, "stopped by root"), NOW + 100_000)?;
        let text =
            "INSERT INTO rse_usage (rse_id, source, used, free, files, updated) VALUES ($1, 'storage', 0, 35, 0, $2)";
        session.execute(text, &values![b.0, NOW])?;
        let mut plan = plan((s, b), 100);
        (plan.starts, plan.ends) = (NOW + 100_000, NOW + 200_000);
        add(session, "l2", &plan, NOW)
    };
    done(&database, space).await;
    for second in 100..120 {
        world.pass(second, None).await;
    }
    let read = |session: &mut dyn Session| get(session, "l2");
    let load = done(&database, read).await;
    assert_eq!(
        (load.sums.injected, load.held),
        (Bytes(30), Some(Held::Space)),
        "before the RSE is full"
    );
}

async fn a_destination_that_takes_nothing_is_named(database: Database) {
    let [s, a, _] = prepared(&database, 20).await;
    done(&database, adding("l1", plan((s, a), 100))).await;
    let block = |can_write| {
        move |session: &mut dyn Session| {
            let text = "UPDATE rses SET can_write = $2 WHERE rse_id = $1";
            session.execute(text, &values![a.0, can_write]).map(drop)
        }
    };
    done(&database, block(false)).await;
    let world = World::new(&database);
    world.pass(0, None).await;
    world.pass(7, None).await;
    let (load, _, entries) = world.check().await;
    assert_eq!((load.sums.injected, load.held), (Bytes(0), Some(Held::Blocked)));
    assert_eq!(entries[0].reason.as_deref(), Some("RSE excluded due to write blocking"));
    done(&database, block(true)).await;
    for second in 17..80 {
        world.pass(second, Some(End::Done)).await;
    }
    let (load, _, entries) = world.check().await;
    assert_eq!(load.sums.injected_files, 20, "what was owed is caught up");
    assert_eq!((load.held, entries.last().unwrap().files), (Some(Held::Sources), 0));
}

async fn a_stop_ends_rules_and_lasts(database: Database) {
    let [s, a, _] = prepared(&database, 100).await;
    done(&database, adding("l1", plan((s, a), 300))).await;
    let world = World::new(&database);
    world.pass(0, None).await;
    world.pass(7, None).await;
    let stopping = |ends_rules, account: &'static str| {
        move |session: &mut dyn Session| {
            let which = Which::Of(account.parse().unwrap());
            stop(session, &which, (ends_rules, "stopped by alice"), NOW + 8 * SECOND)
        }
    };
    assert_eq!(done(&database, stopping(false, "bob")).await, 0);
    assert_eq!(done(&database, stopping(false, "alice")).await, 1);
    for second in 8..40 {
        world.pass(second, None).await;
    }
    let (load, live, _) = world.check().await;
    assert_eq!(
        (load.state, load.sums.injected, live.rules),
        (LoadState::Stopped, Bytes(170), 2),
        "rules are kept"
    );
    // A second stop, with the rules, ends these.
    assert_eq!(done(&database, stopping(true, "alice")).await, 1);
    assert_eq!(done(&database, stopping(true, "alice")).await, 0);
    world.pass(40, None).await;
    world.pass(41, None).await;
    let (load, live, _) = world.check().await;
    assert_eq!(
        (live.rules, live.lost, load.reason.as_deref()),
        (0, Bytes(170), Some("stopped by alice"))
    );
    assert_eq!(load.stopped, Some(NOW + 8 * SECOND), "the first stop");
    // It injects nothing, even after a restart.
    let world = World::new(&database);
    for second in 42..200 {
        world.pass(second, None).await;
    }
    let (load, ..) = world.check().await;
    assert_eq!(
        (load.sums.injected, load.sums.lost, load.due),
        (Bytes(170), Bytes(170), None)
    );
}

async fn a_link_has_one_load_at_a_time(database: Database) {
    let [s, a, b] = prepared(&database, 1).await;
    done(&database, adding("l1", plan((s, a), 100))).await;
    assert_eq!(
        attempt(&database, adding("l2", plan((s, a), 10))).await,
        Some(Class::Duplicate)
    );
    done(&database, adding("l3", plan((s, b), 100))).await;
    let later = LoadPlan {
        starts: NOW + 100 * SECOND,
        ends: NOW + 200 * SECOND,
        ..plan((s, a), 0)
    };
    done(&database, adding("l4", later)).await;
    let read = |session: &mut dyn Session| {
        let all = list(session, Some(&alice()), 2)?;
        Ok(all.into_iter().map(|load| load.uid).collect::<Vec<_>>())
    };
    assert_eq!(done(&database, read).await, ["l4", "l3"]);
    let gone = |session: &mut dyn Session| get(session, "l2").map(drop);
    assert_eq!(attempt(&database, gone).await, Some(Class::LoadNotFound));
}

async fn a_load_takes_the_files_of_its_data(database: Database) {
    // Files of others at the source would be moved about.
    let [s, a, _] = prepared(&database, 5).await;
    let more = move |session: &mut dyn Session| {
        let other = (10..50)
            .map(|n| rules::tests::file(&format!("g{n}")))
            .collect::<Vec<_>>();
        crate::replicas::add(session, s, &other, &alice(), NOW)?;
        let data = crate::dids::get(session, &did("d"))?.id;
        let mut plan = plan((s, a), 100);
        plan.data = Some(data);
        plan.settings.big_first = true;
        add(session, "l1", &plan, NOW)
    };
    done(&database, more).await;
    let world = World::new(&database);
    for second in 0..30 {
        world.pass(second, Some(End::Done)).await;
    }
    let (load, _, entries) = world.check().await;
    assert_eq!((load.sums.injected_files, load.held), (5, Some(Held::Sources)));
    assert_eq!(entries[0].held, Some(Held::Sources), "the first cycle wanted six");
}

async fn a_dry_run_makes_nothing(database: Database) {
    let [s, a, _] = prepared(&database, 100).await;
    let mut plan = plan((s, a), 30);
    plan.settings.dry_run = true;
    done(&database, adding("l1", plan)).await;
    let world = World::new(&database);
    for second in 0..=31 {
        world.pass(second, Some(End::Done)).await;
    }
    let (load, live, entries) = world.check().await;
    assert_eq!((load.sums.injected_files, live.rules, load.due), (30, 0, None));
    assert!(entries.iter().all(|entry| entry.rule.is_none() && entry.files > 0));
    let rules = |session: &mut dyn Session| session.row("SELECT count(*) FROM rules", &[]);
    assert_eq!(done(&database, rules).await.unwrap().int(0).unwrap(), 0);
}
