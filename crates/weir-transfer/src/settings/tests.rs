#![allow(clippy::unwrap_used, reason = "a failed test may panic")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

use serde_json::json;
use weir_sched::{Direction, Mode};
use weir_units::BitRate;

use super::*;
use crate::store::sqlite::SqliteStore;

fn object(value: Value) -> Object {
    value.as_object().unwrap().clone()
}

fn pair() -> (String, String) {
    ("https://a".to_owned(), "https://b".to_owned())
}

fn a_link(extra: Value) -> Checked<Object> {
    let mut body = object(json!({ "symbolicname": "ab", "source": "https://a:8443", "destination": "https://B/" }));
    body.extend(object(extra));
    normal_link(&body, None)
}

fn link_effects(extra: Value) -> Vec<(Key, Worth)> {
    rows::link(&a_link(extra).unwrap()).unwrap()
}

#[test]
fn a_link_sets_what_it_names_and_nothing_else() {
    let place = Place::Link(pair());
    assert_eq!(
        link_effects(json!({ "max_active": 7 })),
        [(Key::Slots(place.clone()), Worth::Number(7))]
    );
    assert_eq!(
        link_effects(json!({ "weir": { "target": "10 Gb/s", "rate": "20 Gb/s", "weight": 300 } })),
        [
            (Key::Rate(place), Worth::Rate(BitRate(20_000_000_000))),
            (Key::Target(pair()), Worth::Rate(BitRate(10_000_000_000))),
            (Key::Weight(pair()), Worth::Number(300)),
        ]
    );
}

fn mode(extra: Value, expected: Option<Mode>) {
    let key = Key::LinkOptimiser(pair());
    let set = link_effects(extra).into_iter().find(|(of, _)| *of == key);
    assert_eq!(set.map(|(_, worth)| worth), expected.map(Worth::Mode));
}

#[test]
fn the_optimiser_of_a_link_is_set_as_fts_sets_it_or_in_words() {
    mode(json!({ "max_active": 7 }), None);
    mode(json!({ "max_active": 7, "min_active": 2 }), None);
    mode(json!({ "max_active": 7, "min_active": 7 }), Some(Mode::Fixed(7)));
    mode(json!({ "max_active": 7, "optimizer_mode": 0 }), Some(Mode::Off));
    mode(json!({ "max_active": 7, "optimizer_mode": 2 }), Some(Mode::Auto));
    mode(json!({ "weir": { "optimiser": "off" } }), Some(Mode::Off));
    mode(
        json!({ "optimizer_mode": 0, "weir": { "optimiser": 12 } }),
        Some(Mode::Fixed(12)),
    );
}

fn refuses(extra: Value, words: &str) {
    let error = a_link(extra).unwrap_err().to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn a_link_that_makes_no_sense_is_refused_in_words() {
    refuses(
        json!({ "max_active": 1, "min_active": 2 }),
        "max_active is lower than min_active",
    );
    refuses(json!({ "max_active": -1 }), "between 0 and");
    refuses(json!({ "max_activ": 1 }), "max_activ unknown");
    refuses(json!({ "optimizer_mode": -1 }), "optimizer_mode");
    refuses(json!({ "source": "*" }), "name both");
    refuses(json!({ "source": "a.example.org/path" }), "scheme://host");
    refuses(json!({ "weir": { "target": "10" } }), "target");
    refuses(json!({ "weir": { "taget": "10 Gb/s" } }), "taget unknown");
    refuses(json!({ "weir": { "weight": 0 } }), "weight");
    refuses(
        json!({ "source": "*", "destination": "*", "weir": { "weight": 7 } }),
        "for one link",
    );
    refuses(json!({ "symbolicname": "" }), "Missing symbolicname");
}

#[test]
fn keys_that_a_second_call_leaves_out_stay() {
    let first = a_link(json!({ "max_active": 7, "weir": { "target": "10 Gb/s" } })).unwrap();
    let body = object(json!({ "symbolicname": "ab", "max_active": 9 }));
    let second = normal_link(&body, Some(&first)).unwrap();
    assert_eq!(
        (&second["max_active"], &second["weir"]["target"]),
        (&json!(9), &json!("10 Gb/s"))
    );
    assert_eq!(ends(&second), pair());
}

#[test]
fn a_storage_element_limits_directions_rates_and_vos() {
    let row = object(json!({
        "se_info": { "inbound_max_active": 7, "outbound_max_active": 0, "inbound_max_throughput": 100.0, "site": "X" },
        "operations": { "atlas": { "staging": 10, "outbound": 3 } }
    }));
    let se = || "https://a".to_owned();
    assert_eq!(
        rows::storage("https://a", &row).unwrap(),
        [
            (Key::Slots(Place::Inbound(se())), Worth::Number(7)),
            (Key::Rate(Place::Inbound(se())), Worth::Rate(BitRate(838_860_800))),
            (Key::Slots(Place::VoStaging(se(), "atlas".into())), Worth::Number(10)),
            (Key::Slots(Place::VoOutbound(se(), "atlas".into())), Worth::Number(3)),
        ]
    );
    let wrong = object(json!({ "se_info": { "inbound_max_active": "many" } }));
    assert!(rows::storage("https://a", &wrong).is_err());
    assert!(rows::storage("*", &row).is_err());
}

fn weights(body: Value) -> Vec<(String, u32)> {
    let row = normal_activities(&object(body)).unwrap();
    let weight = |(key, worth)| match (key, worth) {
        (Key::ActivityShare(_, name), Worth::Number(weight)) => (name, weight),
        other => panic!("{other:?}"),
    };
    rows::activities("atlas", &row)
        .unwrap()
        .into_iter()
        .map(weight)
        .collect()
}

#[test]
fn shares_of_activities_keep_their_proportions_and_those_not_listed_count_as_default() {
    let listed = weights(json!({ "vo": "atlas", "share": [{ "Tier-0": 0.7 }, { "default": 0.1 }, { "Idle": 0 }] }));
    let expected = [("default", 100), ("idle", 0), ("tier-0", 700)];
    assert_eq!(listed, expected.map(|(name, weight)| (name.to_owned(), weight)));
    let without = weights(json!({ "vo": "atlas", "share": { "a": 0.75, "b": 0.25 } }));
    assert_eq!(without, [("a".to_owned(), 150), ("b".to_owned(), 50)]);
    assert!(weights(json!({ "vo": "atlas", "share": { "a": 1 }, "active": false })).is_empty());
    assert!(normal_activities(&object(json!({ "vo": "atlas", "share": { "a": 0 } }))).is_err());
}

#[test]
fn a_removed_setting_gives_way_to_the_configuration_file() {
    let place = Place::Link(pair());
    let base = Plan::from([(Key::Slots(place.clone()), Worth::Number(40))]);
    let settings = Settings::load(&SqliteStore::in_memory(), base).unwrap();
    let (key, link) = (
        (Kind::Link, "ab".to_owned()),
        a_link(json!({ "max_active": 7 })).unwrap(),
    );
    let set = settings.draft(vec![(key.clone(), Some(link))]).unwrap();
    assert_eq!(set.settings.len(), 1);
    settings.note(set);
    let removed = settings.draft(vec![(key, None)]).unwrap();
    assert_eq!(
        removed.settings,
        [NamedSetting {
            key: Key::Slots(place),
            worth: Some(Worth::Number(40))
        }]
    );
}

#[test]
fn groups_have_members_and_a_ban_overrules_them_all() {
    let group = object(
        json!({ "name": "wan", "max_rate": "100 Gb/s", "members": [{ "se": "https://a", "direction": "out" }] }),
    );
    let group = normal_group(&group).unwrap();
    let settings = Settings::default();
    let draft = settings
        .draft(vec![((Kind::Group, "wan".into()), Some(group))])
        .unwrap();
    settings.note(draft);
    let member = Key::Member("wan".into(), "https://a".into(), Direction::Out);
    assert!(settings.plan().contains_key(&member));
    let se = object(json!({ "se_info": { "inbound_max_active": 9 } }));
    let rows = vec![
        ((Kind::BannedStorage, "https://a".to_owned()), Some(Object::new())),
        ((Kind::Storage, "https://a".to_owned()), Some(se)),
    ];
    settings.note(settings.draft(rows).unwrap());
    let inbound = Key::Slots(Place::Inbound("https://a".into()));
    assert_eq!(settings.plan()[&inbound], Worth::Number(0));
}

#[test]
fn ageing_is_a_time_or_never() {
    let read = |value: &str| rows::global("*", &object(json!({ "ageing": value })));
    assert_eq!(read("never").unwrap(), [(Key::Ageing, Worth::After(None))]);
    assert!(read("0s").is_err() && read("soon").is_err());
    assert!(rows::global("atlas", &object(json!({ "ageing": "1h" }))).is_err());
    assert!(rows::global("*", &object(json!({ "retry": "many" }))).is_err());
}

#[test]
fn the_audit_forgets_the_oldest_and_survives_a_restart() {
    let (store, audit) = (SqliteStore::in_memory(), Audit::default());
    for n in 0..10_003 {
        let (entry, changes) = audit.draft(0, "root", "set", n.to_string());
        store.apply(&changes).unwrap();
        audit.note(entry);
    }
    let again = Audit::load(&store).unwrap();
    assert_eq!(again.newest(100), audit.newest(100));
    assert_eq!(again.newest(1)[0].config, "10002");
    assert_eq!(again.newest(usize::MAX).len(), 10_000);
}
