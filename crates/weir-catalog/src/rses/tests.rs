#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use super::{
    protocols::{Endpoint, Priorities, Protocol},
    space::SpaceUsage,
    *,
};
use crate::{
    schema::MIGRATIONS,
    testing::{NOW, attempt, done},
};
use weir_database::{Database, on_both};

on_both!(MIGRATIONS;
    rses_come_change_and_go
    expressions_mean_rses
    protocols_are_found_by_their_endpoints
    distances_are_links
    space_is_what_sources_say
);

fn name(text: &str) -> RseName {
    text.parse().unwrap()
}

fn make(session: &mut dyn Session, rse: &str) -> Result<RseId, StoreError> {
    let uid = format!("{rse:0>32}");
    add(session, (&name(rse), &uid), &Traits::default(), NOW)
}

async fn rses_come_change_and_go(database: Database) {
    let id = done(&database, |session: &mut dyn Session| make(session, "RAL")).await;
    let again = |session: &mut dyn Session| add(session, (&name("RAL"), "other"), &Traits::default(), NOW).map(drop);
    assert_eq!(attempt(&database, again).await, Some(Class::Duplicate));
    let tape = Traits {
        kind: RseType::Tape,
        can_write: false,
        about: r#"{"city":"Didcot"}"#.into(),
        ..Traits::default()
    };
    let (expected, new) = (tape.clone(), name("RAL-TAPE"));
    let rename = move |session: &mut dyn Session| {
        make(session, "QMUL")?;
        change(session, id, (&new, &tape), NOW + 1)?;
        get(session, &new)
    };
    let changed = done(&database, rename).await;
    assert_eq!((changed.traits, changed.id, changed.uid.len()), (expected, id, 32));
    assert_eq!((changed.created, changed.updated), (NOW, NOW + 1));
    let taken = move |session: &mut dyn Session| change(session, id, (&name("QMUL"), &Traits::default()), NOW);
    assert_eq!(attempt(&database, taken).await, Some(Class::Duplicate));
    let gone = |session: &mut dyn Session| get(session, &name("RAL")).map(drop);
    assert_eq!(attempt(&database, gone).await, Some(Class::RseNotFound));
    let anew = move |session: &mut dyn Session| {
        delete(session, id, NOW + 2)?;
        let uid = "f".repeat(32);
        let anew = add(session, (&name("RAL-TAPE"), &uid), &Traits::default(), NOW + 3)?;
        assert_ne!(anew, id);
        list(session)
    };
    let listed = done(&database, anew).await;
    let names = listed.iter().map(|one| one.rse.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["QMUL", "RAL-TAPE"]);
}

async fn expressions_mean_rses(database: Database) {
    let set = |session: &mut dyn Session| {
        for (rse, tier) in [("CERN", "0"), ("RAL", "1"), ("QMUL", "2")] {
            let id = make(session, rse)?;
            attributes::set(session, id, "tier", "9")?;
            attributes::set(session, id, "tier", tier)?;
        }
        let ral = get(session, &name("RAL"))?.id;
        attributes::set(session, ral, "uk", "true")?;
        attributes::set(session, ral, "old", "x")?;
        attributes::remove(session, ral, "old")?;
        attributes::of(session, ral)
    };
    let of_ral = done(&database, set).await;
    let expected = [("tier", "1"), ("uk", "true")].map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(of_ral, expected.into());
    for (expression, expected) in [
        ("tier<2", vec!["CERN", "RAL"]),
        ("uk|QMUL", vec!["QMUL", "RAL"]),
        ("*\\CERN", vec!["QMUL", "RAL"]),
    ] {
        let work = move |session: &mut dyn Session| matching(session, expression);
        let found = done(&database, work).await;
        let found = found.iter().map(|one| one.rse.name.as_str()).collect::<Vec<_>>();
        assert_eq!(found, expected, "{expression}");
    }
    for wrong in ["", "tier=", "NOWHERE", "x'; DROP TABLE rses; --"] {
        let work = move |session: &mut dyn Session| matching(session, wrong).map(drop);
        assert_eq!(
            attempt(&database, work).await,
            Some(Class::InvalidRseExpression),
            "{wrong}"
        );
    }
    let none = |session: &mut dyn Session| {
        let ral = get(session, &name("RAL"))?.id;
        attributes::remove(session, ral, "old")
    };
    assert_eq!(attempt(&database, none).await, Some(Class::RseAttributeNotFound));
}

fn protocol(scheme: &str, port: u16, tpc_read: Option<u32>) -> Protocol {
    Protocol {
        endpoint: Endpoint {
            scheme: scheme.into(),
            hostname: "se.ral.example".into(),
            port,
        },
        prefix: "/data".into(),
        implementation: "rucio.rse.protocols.gfal.Default".into(),
        extended: Some(r#"{"web_service_path":""}"#.into()),
        priorities: Priorities {
            wan_read: Some(1),
            tpc_read,
            ..Priorities::default()
        },
    }
}

async fn protocols_are_found_by_their_endpoints(database: Database) {
    let work = |session: &mut dyn Session| {
        let id = make(session, "RAL")?;
        for one in [
            protocol("root", 1094, Some(2)),
            protocol("davs", 443, Some(1)),
            protocol("davs", 8443, None),
        ] {
            protocols::add(session, id, &one)?;
        }
        let mut changed = protocol("root", 1094, Some(3));
        changed.prefix = "//other".into();
        protocols::change(session, id, &changed)?;
        let all = protocols::of(session, id)?;
        assert_eq!(
            all,
            [protocol("davs", 443, Some(1)), protocol("davs", 8443, None), changed]
        );
        protocols::remove(session, id, "davs", (Some("se.ral.example"), Some(443)))?;
        protocols::remove(session, id, "root", (None, None))?;
        Ok((id, protocols::of(session, id)?))
    };
    let (id, left) = done(&database, work).await;
    assert_eq!(left, [protocol("davs", 8443, None)]);
    let again = move |session: &mut dyn Session| protocols::add(session, id, &protocol("davs", 8443, None));
    assert_eq!(attempt(&database, again).await, Some(Class::Duplicate));
    let missing = move |session: &mut dyn Session| protocols::change(session, id, &protocol("root", 1, None));
    assert_eq!(attempt(&database, missing).await, Some(Class::RseProtocolNotSupported));
    let missing = move |session: &mut dyn Session| protocols::remove(session, id, "davs", (None, Some(1)));
    assert_eq!(attempt(&database, missing).await, Some(Class::RseProtocolNotSupported));
}

async fn distances_are_links(database: Database) {
    let work = |session: &mut dyn Session| {
        let (a, b) = (make(session, "A")?, make(session, "B")?);
        distances::set(session, a, b, 5)?;
        distances::set(session, a, b, 3)?;
        let found = (distances::get(session, a, b)?, distances::get(session, b, a)?);
        let route = distances::all(session)?.to(b).from(a);
        distances::remove(session, a, b)?;
        Ok((found, route.unwrap().distance, a, b))
    };
    let (found, distance, a, b) = done(&database, work).await;
    assert_eq!((found, distance), ((Some(3), None), 3));
    let missing = move |session: &mut dyn Session| distances::remove(session, a, b);
    assert_eq!(attempt(&database, missing).await, Some(Class::RseAttributeNotFound));
}

async fn space_is_what_sources_say(database: Database) {
    let usage = |source: &str, used| SpaceUsage {
        source: source.into(),
        used,
        free: (used > 1).then_some(7),
        files: None,
        updated: NOW,
    };
    let work = move |session: &mut dyn Session| {
        let id = make(session, "RAL")?;
        space::set_limit(session, id, "MinFreeSpace", 5)?;
        space::set_limit(session, id, "MinFreeSpace", 10)?;
        space::set_usage(session, id, &usage("storage", 1))?;
        space::set_usage(session, id, &usage("storage", 2))?;
        space::set_usage(session, id, &usage("rucio", 1))?;
        let limits = space::limits(session, id)?;
        space::remove_limit(session, id, "MinFreeSpace")?;
        Ok((id, limits, space::usage(session, id)?))
    };
    let (id, limits, said) = done(&database, work).await;
    assert_eq!(limits, [("MinFreeSpace".to_owned(), 10)]);
    assert_eq!(said, [usage("rucio", 1), usage("storage", 2)]);
    let missing = move |session: &mut dyn Session| space::remove_limit(session, id, "MinFreeSpace");
    assert_eq!(attempt(&database, missing).await, Some(Class::RseAttributeNotFound));
}
