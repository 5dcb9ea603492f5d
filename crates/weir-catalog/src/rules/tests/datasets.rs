//! Locks on datasets.

use super::*;
use crate::rules::datasets;

on_both!(MIGRATIONS; datasets_are_held_by_rules_on_them_and_on_their_containers);

async fn datasets_are_held_by_rules_on_them_and_on_their_containers(database: Database) {
    let [_, a, b] = prepared(&database, 2).await;
    let work = |session: &mut dyn Session| {
        collection(session, "c", DidType::Container)?;
        dids::content::attach(session, &did("c"), &[did("d")], false, NOW)
    };
    done(&database, work).await;
    let by_dataset = RuleTerms {
        grouping: Grouping::Dataset,
        ..wish("A")
    };
    done(&database, adding("r1", "d", by_dataset)).await;
    done(&database, adding("r2", "c", wish("B"))).await;
    // Files that are held one by one are no dataset that is held.
    let by_file = RuleTerms {
        grouping: Grouping::None,
        ..wish("A")
    };
    done(
        &database,
        adding(
            "r3",
            "d",
            RuleTerms {
                copies: 1,
                expression: "A|A".into(),
                ..by_file
            },
        ),
    )
    .await;
    let work = move |session: &mut dyn Session| {
        let mut number = |name| Ok::<_, StoreError>(dids::get(session, &did(name))?.id);
        let (container, dataset, file) = (number("c")?, number("d")?, number("f00000")?);
        assert_eq!(datasets::datasets(session, container)?, [dataset]);
        assert_eq!(
            (
                datasets::datasets(session, dataset)?,
                datasets::datasets(session, file)?
            ),
            (vec![dataset], vec![])
        );
        for rse in [a, b] {
            assert_eq!(datasets::at(session, rse, DidId(0), 9)?, [dataset]);
            assert_eq!(datasets::at(session, rse, dataset, 9)?, []);
        }
        let shown = |session: &mut dyn Session| {
            let locks = datasets::of(session, dataset)?;
            assert!(locks.iter().all(|lock| lock.size == (2, 20)));
            let short = locks
                .into_iter()
                .map(|lock| (lock.rule, lock.rse.to_string(), lock.state));
            Ok::<_, StoreError>(short.collect::<Vec<_>>())
        };
        let lock = |rule: &str, rse: &str, state| (rule.to_owned(), rse.to_owned(), state);
        let all = |state| vec![lock("r1", "A", state), lock("r2", "B", state)];
        assert_eq!(shown(session)?, all(LockState::Replicating));
        let attempts = submit(session, NOW)?;
        let (stuck, done) = attempts.split_first().unwrap();
        end(session, done, End::Done, NOW)?;
        end(session, &[*stuck], End::NoSource(RequestState::NoSources), NOW)?;
        let at_a = stuck.at.1 == a;
        let (first, second) = if at_a {
            (LockState::Stuck, LockState::Ok)
        } else {
            (LockState::Ok, LockState::Stuck)
        };
        assert_eq!(shown(session)?, [lock("r1", "A", first), lock("r2", "B", second)]);
        Ok(())
    };
    done(&database, work).await;
}
