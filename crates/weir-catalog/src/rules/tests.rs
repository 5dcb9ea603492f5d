#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use uuid::Uuid;
use weir_database::{Database, Work, on_both};
use weir_model::catalog::{AccountType, Did, DidType, ReplicaState, RequestState};
use weir_rules::{deletion::Goal, ids::RseId, place::End};

use super::{create::NewRule, evaluate::Progress, *};
use crate::{
    accounts, dids,
    replicas::{self, deletion},
    requests::{self, CopyTimes, Ended, outgoing, uid::Tag},
    rses,
    schema::MIGRATIONS,
    testing::{NOW, attempt, done},
};

mod datasets;
mod endings;

on_both!(MIGRATIONS;
    a_rule_goes_from_add_to_ok_to_gone
    two_rules_share_what_brings_a_file
    late_ends_of_an_earlier_request_change_nothing
    a_stuck_rule_says_why
    content_that_changes_is_followed
    a_transfer_without_room_holds_no_other_back
    groupings_place_units
    placement_keeps_limits
    a_request_of_rules_that_are_over_is_not_due
    large_rules_are_made_in_parts
);

pub(crate) fn did(name: &str) -> Did {
    format!("mc:{name}").parse().unwrap()
}

pub(crate) fn alice() -> AccountName {
    "alice".parse().unwrap()
}

pub(crate) fn wish(expression: &str) -> RuleTerms {
    RuleTerms {
        account: alice(),
        expression: expression.into(),
        copies: 1,
        grouping: Grouping::All,
        weight: None,
        source_expression: None,
        activity: "User Subscriptions".into(),
        priority: 3,
        expires: None,
        is_locked: false,
        purge: false,
        notify: Notification::No,
        comments: None,
        meta: None,
    }
}

/// Three RSEs; at S lies the dataset `d` of so many files. Alice may store 1,000 bytes at A and B.
pub(crate) async fn prepared(database: &Database, n_files: u64) -> [RseId; 3] {
    let work = move |session: &mut dyn Session| {
        accounts::add(session, &alice(), AccountType::User, None, NOW)?;
        accounts::scopes::add(session, &"mc".parse().unwrap(), &alice(), NOW)?;
        let mut make = |name: &str| rses::add(session, (&name.parse().unwrap(), name), &rses::Traits::default(), NOW);
        let [s, a, b] = [make("S")?, make("A")?, make("B")?];
        for rse in [a, b] {
            accounts::limits::set(session, &alice(), rse, 10 * n_files.max(100))?;
            rses::attributes::set(session, rse, "t2", "true")?;
        }
        let files = (0..n_files).map(|n| file(&format!("f{n:05}"))).collect::<Vec<_>>();
        replicas::add(session, s, &files, &alice(), NOW)?;
        collection(session, "d", DidType::Dataset)?;
        let names = files.iter().map(|file| file.did.clone()).collect::<Vec<_>>();
        dids::content::attach(session, &did("d"), &names, false, NOW)?;
        Ok([s, a, b])
    };
    done(database, work).await
}

pub(crate) fn file(name: &str) -> replicas::NewReplica {
    replicas::NewReplica {
        did: did(name),
        bytes: 10,
        adler32: None,
        md5: None,
        path: None,
        is_coming: false,
        meta: "{}".into(),
    }
}

fn collection(session: &mut dyn Session, name: &str, kind: DidType) -> Result<(), StoreError> {
    let new = dids::NewDid {
        did: did(name),
        kind,
        account: alice(),
        bytes: None,
        adler32: None,
        md5: None,
        monotonic: false,
        meta: "{}".into(),
        expires: None,
    };
    dids::add(session, &[new], NOW)
}

/// Adds a rule on a DID, and gives it as it is then.
pub(crate) fn adding(uid: &'static str, name: &'static str, wish: RuleTerms) -> impl Work<Rule> {
    move |session: &mut dyn Session| {
        let new = NewRule {
            uid: uid.into(),
            did: dids::get(session, &did(name))?,
            wish: wish.clone(),
            ignore_availability: false,
        };
        create::add(session, &new, NOW)?;
        get(session, uid)
    }
}

fn refused(uid: &'static str, name: &'static str, wish: RuleTerms) -> impl Work<()> {
    let adding = adding(uid, name, wish);
    move |session: &mut dyn Session| adding(session).map(drop)
}

/// Submits due requests, and returns the attempts.
pub(crate) fn submit(session: &mut dyn Session, now: Millis) -> Result<Vec<requests::Attempt>, StoreError> {
    let due = outgoing::due(session, now, 100_000)?;
    let source = rses::get(session, &"S".parse().unwrap())?.id;
    let member = |one: &outgoing::Due| outgoing::Member {
        attempt: one.attempt,
        source,
        hops: Vec::new(),
        path: None,
    };
    let group = outgoing::Group {
        service: "https://fts.example.org:8446".into(),
        members: due.iter().map(member).collect(),
    };
    let names = (Tag::of(session, 7)?, Uuid::NAMESPACE_URL);
    let Some((job, marked)) = outgoing::submitting(session, &group, names, now)? else {
        return Ok(Vec::new());
    };
    outgoing::submitted(session, job.id, now)?;
    Ok(marked)
}

pub(crate) fn end(
    session: &mut dyn Session,
    attempts: &[requests::Attempt],
    end: End,
    now: Millis,
) -> Result<usize, StoreError> {
    let reason = (end != End::Done).then(|| "disk on fire".to_owned());
    let ended = attempts.iter().map(|attempt| Ended {
        attempt: *attempt,
        end,
        reason: reason.clone(),
        times: CopyTimes::default(),
    });
    requests::ended(session, &ended.collect::<Vec<_>>(), now)
}

pub(crate) const FAILED: End = End::Failed {
    recoverable: true,
    has_other_source: false,
};

/// The counters, recounted from the locks and places.
fn recounted(session: &mut dyn Session, rule: &Rule) -> Result<LockCounts, StoreError> {
    let text = "SELECT did_id, rse_id FROM locks WHERE rule_id = $1 ORDER BY 1, 2";
    let rows = session.query(text, &values![rule.id.0])?;
    let all = rows
        .iter()
        .map(|row| Ok((DidId(row.size(0)?), crate::rses::rse_id(row, 1)?)));
    let all = all.collect::<Result<Vec<_>, StoreError>>()?;
    let places = crate::places::read(session, &all)?;
    assert_eq!(places.len(), all.len());
    let mut counts = LockCounts::default();
    for place in places.values() {
        *counts.of(place.lock_state()) += 1;
    }
    Ok(counts)
}

fn used(session: &mut dyn Session, rse: RseId) -> Result<(u64, u64), StoreError> {
    let usage = accounts::limits::usage(session, &alice())?;
    Ok(usage.get(&rse).map_or((0, 0), |usage| (usage.bytes, usage.files)))
}

async fn a_rule_goes_from_add_to_ok_to_gone(database: Database) {
    let [_, a, _] = prepared(&database, 5).await;
    let rule = done(&database, adding("r1", "d", wish("A"))).await;
    let counts = LockCounts {
        replicating: 5,
        ..LockCounts::default()
    };
    assert_eq!((rule.state, rule.counts), (RuleState::Replicating, counts));
    assert_eq!(
        attempt(&database, refused("r2", "d", wish("A"))).await,
        Some(Class::DuplicateRule)
    );
    let work = move |session: &mut dyn Session| {
        let attempts = submit(session, NOW)?;
        assert_eq!((attempts.len(), used(session, a)?), (5, (50, 5)));
        assert_eq!(end(session, &attempts[..2], End::Done, NOW)?, 2);
        let half = get(session, "r1")?;
        assert_eq!(
            (half.counts.ok, half.counts, half.state),
            (2, recounted(session, &half)?, RuleState::Replicating)
        );
        // Told twice, and of an attempt that is over.
        assert_eq!(end(session, &attempts[..2], End::Done, NOW)?, 0);
        assert_eq!(end(session, &attempts[..1], FAILED, NOW)?, 0);
        end(session, &attempts[2..], End::Done, NOW)?;
        get(session, "r1")
    };
    let rule = done(&database, work).await;
    assert_eq!((rule.state, rule.counts.ok), (RuleState::Ok, 5));
    let work = move |session: &mut dyn Session| {
        delete(session, "r1", None, NOW)?;
        assert_eq!(evaluate::due(session, NOW, 9)?, []);
        let later = NOW + 3_600_000;
        assert_eq!(evaluate::due(session, later, 9)?, [rule.id]);
        assert_eq!(evaluate::part(session, rule.id, later)?, Progress::Gone);
        let marked = deletion::mark(session, a, Goal::Greedy, later, 100)?;
        assert_eq!((marked.len(), used(session, a)?), (5, (0, 0)));
        deletion::deleted(session, a, &marked, later)?;
        assert_eq!(deletion::mark(session, a, Goal::Greedy, later, 100)?, []);
        replicas::of(session, &marked)
    };
    let left = done(&database, work).await;
    assert!(
        left.len() == 5 && left.iter().all(|one| one.rse_name.as_str() == "S"),
        "the source has no tombstone"
    );
    let gone = |session: &mut dyn Session| get(session, "r1").map(drop);
    assert_eq!(attempt(&database, gone).await, Some(Class::RuleNotFound));
}

async fn late_ends_of_an_earlier_request_change_nothing(database: Database) {
    // The file of the first rule is gone; a repeated message about it would make the second one OK.
    let [_, a, _] = prepared(&database, 1).await;
    let first = done(&database, adding("r1", "d", wish("A"))).await;
    let work = move |session: &mut dyn Session| {
        let attempts = submit(session, NOW)?;
        end(session, &attempts, End::Done, NOW)?;
        set_end(session, "r1", Some(NOW), NOW)?;
        assert_eq!(evaluate::part(session, first.id, NOW)?, Progress::Gone);
        let marked = deletion::mark(session, a, Goal::Greedy, NOW, 9)?;
        deletion::deleted(session, a, &marked, NOW)?;
        Ok(attempts)
    };
    let old = done(&database, work).await;
    done(&database, adding("r2", "d", wish("A"))).await;
    let work = move |session: &mut dyn Session| {
        let new = submit(session, NOW)?;
        assert!(new.len() == 1 && new[0].at == old[0].at && new != old, "{new:?}");
        assert_eq!(end(session, &old, End::Done, NOW)?, 0);
        assert_eq!(end(session, &old, FAILED, NOW)?, 0);
        get(session, "r2")
    };
    assert_eq!(done(&database, work).await.state, RuleState::Replicating);
}

async fn two_rules_share_what_brings_a_file(database: Database) {
    let [_, a, _] = prepared(&database, 2).await;
    done(&database, adding("r1", "d", wish("A"))).await;
    let one_file = RuleTerms {
        expires: Some(NOW + 10),
        ..wish("A|B&A")
    };
    done(&database, adding("r2", "f00000", one_file)).await;
    let work = move |session: &mut dyn Session| {
        let attempts = submit(session, NOW)?;
        assert_eq!((attempts.len(), used(session, a)?), (2, (30, 3)));
        end(session, &attempts, FAILED, NOW)?;
        for uid in ["r1", "r2"] {
            let rule = get(session, uid)?;
            assert_eq!(
                (rule.state, rule.error.as_deref()),
                (RuleState::Replicating, Some("disk on fire"))
            );
        }
        // Each failure is followed by another attempt, the fourth is not.
        for n in 2..=4 {
            let later = NOW + n * 1_000_000;
            set_end(session, "r2", Some(later + 10), later)?;
            let attempts = submit(session, later)?;
            assert!(attempts.iter().all(|one| one.number == n as u64) && attempts.len() == 2);
            end(session, &attempts, FAILED, later)?;
        }
        let rules = [get(session, "r1")?, get(session, "r2")?];
        for rule in &rules {
            assert_eq!((rule.state, rule.counts), (RuleState::Stuck, recounted(session, rule)?));
            assert!(rule.stuck_at.is_some());
        }
        let after = NOW + 5_000_000;
        assert_eq!(evaluate::part(session, rules[1].id, after)?, Progress::Gone);
        assert_eq!(get(session, "r1")?.counts, recounted(session, &rules[0])?);
        used(session, a)
    };
    assert_eq!(done(&database, work).await, (20, 2));
}

async fn a_stuck_rule_says_why(database: Database) {
    prepared(&database, 1).await;
    done(&database, adding("r1", "d", wish("A"))).await;
    let work = |session: &mut dyn Session| {
        let due = outgoing::due(session, NOW, 9)?;
        let end = End::NoSource(RequestState::NoSources);
        let told = Ended {
            attempt: due[0].attempt,
            end,
            reason: Some("no RSE can give the file".into()),
            times: CopyTimes::default(),
        };
        assert_eq!(requests::ended(session, &[told], NOW)?, 1);
        assert_eq!(outgoing::due(session, NOW + 1_000_000, 9)?, []);
        get(session, "r1")
    };
    let rule = done(&database, work).await;
    assert_eq!((rule.state, rule.stuck_at), (RuleState::Stuck, Some(NOW)));
    assert_eq!(rule.error.as_deref(), Some("no RSE can give the file"));
}

async fn content_that_changes_is_followed(database: Database) {
    let [s, a, _] = prepared(&database, 2).await;
    let rule = done(&database, adding("r1", "d", wish("A"))).await;
    let work = move |session: &mut dyn Session| {
        assert_eq!(evaluate::due(session, NOW, 9)?, []);
        replicas::add(session, s, &[file("new")], &alice(), NOW)?;
        dids::content::attach(session, &did("d"), &[did("new")], false, NOW)?;
        dids::content::detach(session, &did("d"), &[did("f00000")], NOW)?;
        let d = dids::get(session, &did("d"))?.id;
        evaluate::content_changed(session, d, NOW)?;
        assert_eq!(evaluate::due(session, NOW, 9)?, [rule.id]);
        assert_eq!(evaluate::part(session, rule.id, NOW)?, Progress::Settled);
        let rule = get(session, "r1")?;
        assert_eq!((rule.counts, used(session, a)?), (recounted(session, &rule)?, (20, 2)));
        // The request of the detached file is cancelled.
        let cancelled = outgoing::to_cancel(session, NOW, 9)?;
        assert_eq!(cancelled.len(), 1);
        assert_eq!((cancelled[0].state, &cancelled[0].job), (RequestState::Queued, &None));
        let attempt = cancelled[0].attempt;
        end(session, &[attempt], End::Cancelled, NOW)?;
        let marked = replicas::of(session, &[attempt.at.0])?;
        let states = marked.iter().map(|one| one.state).collect::<Vec<_>>();
        assert_eq!(states, [ReplicaState::Available, ReplicaState::BeingDeleted]);
        Ok(submit(session, NOW)?.len())
    };
    assert_eq!(done(&database, work).await, 2);
}

async fn a_transfer_without_room_holds_no_other_back(database: Database) {
    let [s, a, _] = prepared(&database, 3).await;
    let work = |session: &mut dyn Session| {
        collection(session, "c", DidType::Container)?;
        dids::content::attach(session, &did("c"), &[did("d")], false, NOW)
    };
    assert_eq!(attempt(&database, work).await, None);
    let by_dataset = RuleTerms {
        grouping: Grouping::Dataset,
        ..wish("A")
    };
    let rule = done(&database, adding("r1", "c", by_dataset)).await;
    let work = move |session: &mut dyn Session| {
        // A dataset that no quota fits, and a file less in the other one.
        replicas::add(
            session,
            s,
            &[replicas::NewReplica {
                bytes: 5000,
                ..file("large")
            }],
            &alice(),
            NOW,
        )?;
        collection(session, "d2", DidType::Dataset)?;
        dids::content::attach(session, &did("d2"), &[did("large")], false, NOW)?;
        dids::content::attach(session, &did("c"), &[did("d2")], false, NOW)?;
        dids::content::detach(session, &did("d"), &[did("f00000")], NOW)?;
        let c = dids::get(session, &did("c"))?.id;
        evaluate::content_changed(session, c, NOW)?;
        assert_eq!(evaluate::part(session, rule.id, NOW)?, Progress::Settled);
        let rule = get(session, "r1")?;
        assert!(
            rule.error.as_deref().unwrap_or_default().contains("insufficient quota"),
            "{rule:?}"
        );
        assert_eq!((rule.counts, used(session, a)?), (recounted(session, &rule)?, (20, 2)));
        // It is tried again later, and succeeds once there is quota.
        assert_eq!(evaluate::due(session, NOW + 1000, 9)?, []);
        accounts::limits::set(session, &alice(), a, 10_000)?;
        let later = NOW + 600_000;
        assert_eq!(evaluate::due(session, later, 9)?, [rule.id]);
        assert_eq!(evaluate::part(session, rule.id, later)?, Progress::Settled);
        used(session, a)
    };
    assert_eq!(done(&database, work).await, (5020, 3));
}

async fn groupings_place_units(database: Database) {
    prepared(&database, 40).await;
    let work = |session: &mut dyn Session| {
        collection(session, "c", DidType::Container)?;
        dids::content::attach(session, &did("c"), &[did("d")], false, NOW)
    };
    assert_eq!(attempt(&database, work).await, None);
    for (uid, grouping, n_units) in [
        ("ra", Grouping::All, 1),
        ("rd", Grouping::Dataset, 1),
        ("rn", Grouping::None, 40),
    ] {
        let terms = RuleTerms {
            grouping,
            expression: format!("t2|{uid}"),
            ..wish("")
        };
        let rule = done(&database, adding(uid, "c", terms)).await;
        let work = move |session: &mut dyn Session| {
            let units = session.query(
                "SELECT unit, rse_id FROM rule_units WHERE rule_id = $1",
                &values![rule.id.0],
            )?;
            let rses = session.query(
                "SELECT DISTINCT rse_id FROM locks WHERE rule_id = $1",
                &values![rule.id.0],
            )?;
            Ok((
                units.len(),
                rses.len(),
                rule.counts.total(),
                recounted(session, &rule)? == rule.counts,
            ))
        };
        let (units, rses, locks, is_exact) = done(&database, work).await;
        assert_eq!((units, locks, is_exact), (n_units, 40, true), "{grouping}");
        assert!(grouping == Grouping::None || rses == 1, "{grouping}: {rses}");
    }
}

async fn placement_keeps_limits(database: Database) {
    let [_, a, b] = prepared(&database, 10).await;
    let work = move |session: &mut dyn Session| {
        accounts::limits::set(session, &alice(), a, 99)?;
        rses::attributes::set(session, b, "share", "many")?;
        let full = rses::space::SpaceUsage {
            source: "storage".into(),
            used: 0,
            free: Some(99),
            files: None,
            updated: NOW,
        };
        rses::space::set_usage(session, b, &full)
    };
    assert_eq!(attempt(&database, work).await, None);
    for (terms, class) in [
        (wish("A"), Class::InsufficientAccountLimit),
        (wish("S"), Class::InsufficientAccountLimit),
        (wish("B"), Class::InsufficientTargetRses),
        (
            RuleTerms {
                copies: 3,
                ..wish("t2")
            },
            Class::InsufficientTargetRses,
        ),
        (wish("NOWHERE"), Class::InvalidRseExpression),
        (wish("A|&"), Class::InvalidRseExpression),
        (
            RuleTerms {
                weight: Some("share".into()),
                ..wish("B")
            },
            Class::InvalidRuleWeight,
        ),
        (
            RuleTerms {
                account: "nobody".parse().unwrap(),
                ..wish("B")
            },
            Class::AccountNotFound,
        ),
    ] {
        let expression = terms.expression.clone();
        assert_eq!(
            attempt(&database, refused("r", "d", terms)).await,
            Some(class),
            "{expression}"
        );
    }
    let blocked = move |session: &mut dyn Session| {
        let traits = rses::Traits {
            can_write: false,
            ..rses::Traits::default()
        };
        rses::change(session, b, (&"B".parse().unwrap(), &traits), NOW)
    };
    assert_eq!(attempt(&database, blocked).await, None);
    assert_eq!(
        attempt(&database, refused("r", "d", wish("B"))).await,
        Some(Class::RseWriteBlocked)
    );
    let admin = |session: &mut dyn Session| accounts::add_attribute(session, &alice(), "admin", "true");
    assert_eq!(attempt(&database, admin).await, None);
    let rule = done(&database, adding("r", "d", wish("A"))).await;
    assert_eq!(rule.counts.replicating, 10, "an administrator has no limits");
}

async fn a_request_of_rules_that_are_over_is_not_due(database: Database) {
    prepared(&database, 1).await;
    let short = |expression| RuleTerms {
        expires: Some(NOW + 10),
        ..wish(expression)
    };
    done(&database, adding("r1", "d", short("A"))).await;
    done(&database, adding("r2", "d", short("A|A"))).await;
    let n_due = |at: Millis| {
        let database = database.clone();
        async move {
            done(&database, move |session: &mut dyn Session| {
                outgoing::due(session, at, 9)
            })
            .await
            .len()
        }
    };
    assert_eq!((n_due(NOW + 9).await, n_due(NOW + 10).await), (1, 0));
    let longer = |session: &mut dyn Session| set_end(session, "r2", Some(NOW + 20), NOW);
    assert_eq!(attempt(&database, longer).await, None);
    assert_eq!(
        (n_due(NOW + 19).await, n_due(NOW + 20).await),
        (1, 0),
        "another rule wants it longer"
    );
}

async fn large_rules_are_made_in_parts(database: Database) {
    let [_, a, _] = prepared(&database, PART + 5).await;
    let rule = done(&database, adding("r1", "d", wish("A"))).await;
    assert_eq!((rule.state, rule.counts.total()), (RuleState::Inject, PART));
    let work = move |session: &mut dyn Session| {
        assert_eq!(evaluate::part(session, rule.id, NOW)?, Progress::Settled);
        let whole = get(session, "r1")?;
        assert_eq!(
            (whole.state, whole.counts.replicating),
            (RuleState::Replicating, PART + 5)
        );
        set_end(session, "r1", Some(NOW), NOW)?;
        assert_eq!(evaluate::part(session, rule.id, NOW)?, Progress::More);
        assert_eq!(used(session, a)?, (50, 5));
        assert_eq!(evaluate::part(session, rule.id, NOW)?, Progress::Gone);
        used(session, a)
    };
    assert_eq!(done(&database, work).await, (0, 0));
}
