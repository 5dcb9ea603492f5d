//! Repair of stuck rules, and the end of DIDs.

use super::*;
use crate::dids::ending;

on_both!(MIGRATIONS;
    stuck_rules_are_repaired_and_at_last_suspended
    a_did_ends_with_its_rules_and_its_content
);

async fn stuck_rules_are_repaired_and_at_last_suspended(database: Database) {
    prepared(&database, 3).await;
    let rule = done(&database, adding("r1", "d", wish("A"))).await;
    let stuck = |session: &mut dyn Session, now: Millis| {
        let due = outgoing::due(session, now, 9)?;
        let told = due.iter().map(|one| Ended {
            attempt: one.attempt,
            end: End::NoSource(RequestState::NoSources),
            reason: Some("no".into()),
            times: CopyTimes::default(),
        });
        requests::ended(session, &told.collect::<Vec<_>>(), now)
    };
    let work = move |session: &mut dyn Session| {
        assert_eq!(stuck(session, NOW)?, 3);
        let half_an_hour = 1_800_000;
        assert_eq!(repair::due(session, NOW + half_an_hour - 1, 9)?, []);
        let later = NOW + half_an_hour;
        assert_eq!(repair::due(session, later, 9)?, [rule.id]);
        assert!(!repair::part(session, rule.id, later)?);
        let repaired = get(session, "r1")?;
        assert_eq!(
            (repaired.state, repaired.counts),
            (RuleState::Replicating, recounted(session, &repaired)?)
        );
        assert_eq!((repaired.counts.replicating, repaired.stuck_at), (3, Some(NOW)));
        assert_eq!(repair::due(session, later, 9)?, []);
        assert_eq!(stuck(session, later)?, 3);
        // Two weeks after it was stuck for the first time.
        let end = NOW + 14 * 86_400_000;
        repair::part(session, rule.id, end)?;
        assert_eq!(get(session, "r1")?.state, RuleState::Suspended);
        assert_eq!(repair::due(session, end + half_an_hour, 9)?, []);
        change(session, rule.id, &RuleChange::Repair, end)?;
        let attempts = submit(session, end)?;
        assert_eq!((get(session, "r1")?.state, attempts.len()), (RuleState::Replicating, 3));
        requests::ended(
            session,
            &attempts
                .iter()
                .map(|one| Ended {
                    attempt: *one,
                    end: End::Done,
                    reason: None,
                    times: CopyTimes::default(),
                })
                .collect::<Vec<_>>(),
            end,
        )?;
        get(session, "r1")
    };
    let rule = done(&database, work).await;
    assert_eq!((rule.state, rule.stuck_at, rule.error), (RuleState::Ok, None, None));
}

async fn a_did_ends_with_its_rules_and_its_content(database: Database) {
    prepared(&database, 2).await;
    let rule = done(&database, adding("r1", "d", wish("A"))).await;
    let work = move |session: &mut dyn Session| {
        let d = dids::get(session, &did("d"))?.id;
        let keys = serde_json::json!({ "lifetime": 10 });
        dids::metadata::set(session, &did("d"), keys.as_object().unwrap(), NOW)?;
        assert_eq!(ending::due(session, NOW + 9_999, 9)?, []);
        let end = NOW + 10_000;
        change(session, rule.id, &RuleChange::Locked(true), NOW)?;
        assert_eq!(ending::due(session, end, 9)?, [], "a locked rule holds it");
        change(session, rule.id, &RuleChange::Locked(false), NOW)?;
        assert_eq!(ending::due(session, end, 9)?, [d]);
        assert!(!ending::part(session, d, end)?);
        assert_eq!(ending::due(session, end, 9)?, [], "its rules are released first");
        assert_eq!(evaluate::part(session, rule.id, end)?, Progress::Gone);
        assert_eq!(ending::due(session, end, 9)?, [d]);
        assert!(ending::part(session, d, end)?);
        assert_eq!(ending::due(session, end, 9)?, []);
        // Its files are there, and in nothing.
        let file = dids::get(session, &did("f00000"))?.id;
        assert_eq!(dids::content::parents(session, file)?, []);
        dids::get(session, &did("d")).map(drop)
    };
    assert_eq!(attempt(&database, work).await, Some(Class::DidNotFound));
}
