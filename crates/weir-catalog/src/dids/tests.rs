#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use weir_database::{Database, Work, on_both};
use weir_model::catalog::AccountType;

use super::{content::*, *};
use crate::{
    accounts,
    schema::MIGRATIONS,
    testing::{NOW, attempt},
};

on_both!(MIGRATIONS;
    dids_are_added_once
    collections_take_what_fits
    a_container_is_never_in_itself
    monotonic_collections_lose_nothing
    deep_listings_have_each_file_once
    names_of_every_kind_are_kept
);

fn did(text: &str) -> Did {
    text.parse().unwrap()
}

fn new(text: &str, kind: DidType) -> NewDid {
    NewDid {
        did: did(text),
        kind,
        account: "alice".parse().unwrap(),
        bytes: (kind == DidType::File).then_some(10),
        adler32: (kind == DidType::File).then(|| "0a1b2c3d".into()),
        md5: None,
        monotonic: text.contains("mono"),
        meta: "{}".into(),
        expires: None,
    }
}

/// Files begin with `f`, datasets with `d`, all others are containers.
fn news(names: &[&str]) -> Vec<NewDid> {
    let kind = |name: &str| match name.as_bytes()[0] {
        b'f' => DidType::File,
        b'd' => DidType::Dataset,
        _ => DidType::Container,
    };
    names
        .iter()
        .map(|name| new(&format!("mc:{name}"), kind(name)))
        .collect()
}

async fn with(database: &Database, names: &'static [&'static str]) {
    let work = |session: &mut dyn Session| {
        let alice = "alice".parse().unwrap();
        accounts::add(session, &alice, AccountType::User, None, NOW)?;
        accounts::scopes::add(session, &"mc".parse().unwrap(), &alice, NOW)?;
        add(session, &news(names), NOW)
    };
    assert_eq!(attempt(database, work).await, None);
}

fn attaching(parent: &'static str, children: &'static [&'static str]) -> impl Work<()> {
    move |session: &mut dyn Session| {
        let children = children
            .iter()
            .map(|name| did(&format!("mc:{name}")))
            .collect::<Vec<_>>();
        attach(session, &did(&format!("mc:{parent}")), &children, false, NOW + 1)
    }
}

fn names(all: &[Known]) -> Vec<&str> {
    all.iter().map(|one| one.did.name.as_str()).collect()
}

async fn dids_are_added_once(database: Database) {
    with(&database, &["f1", "d1"]).await;
    let more = |names: &'static [&'static str]| move |session: &mut dyn Session| add(session, &news(names), NOW + 1);
    assert_eq!(
        attempt(&database, more(&["f2", "d1"])).await,
        Some(Class::DidAlreadyExists)
    );
    assert_eq!(
        attempt(&database, more(&["f2", "f2"])).await,
        Some(Class::DidAlreadyExists)
    );
    let read = |session: &mut dyn Session| get(session, &did("mc:f2")).map(drop);
    assert_eq!(attempt(&database, read).await, Some(Class::DidNotFound), "all or none");
    let elsewhere = |session: &mut dyn Session| add(session, &[new("other:f", DidType::File)], NOW);
    assert_eq!(attempt(&database, elsewhere).await, Some(Class::ScopeNotFound));
    let read = |session: &mut dyn Session| Ok((get(session, &did("mc:f1"))?, get(session, &did("mc:d1"))?));
    let (file, dataset) = database.read(read).await.unwrap();
    assert_eq!((file.kind, file.bytes, file.is_open), (DidType::File, Some(10), false));
    assert_eq!(
        (dataset.kind, dataset.bytes, dataset.is_open),
        (DidType::Dataset, None, true)
    );
}

async fn collections_take_what_fits(database: Database) {
    with(&database, &["f1", "f2", "d1", "d2", "c1"]).await;
    assert_eq!(attempt(&database, attaching("d1", &["f2", "f1"])).await, None);
    assert_eq!(attempt(&database, attaching("c1", &["d1", "d2"])).await, None);
    for (parent, children, class) in [
        ("d1", &["f1"], Class::FileAlreadyExists),
        ("d1", &["d2"], Class::UnsupportedOperation),
        ("c1", &["f1"], Class::UnsupportedOperation),
        ("f1", &["f2"], Class::UnsupportedOperation),
        ("d1", &["f9"], Class::DidNotFound),
        ("d9", &["f1"], Class::DidNotFound),
    ] {
        assert_eq!(
            attempt(&database, attaching(parent, children)).await,
            Some(class),
            "{children:?} to {parent}"
        );
    }
    let again = |session: &mut dyn Session| attach(session, &did("mc:d1"), &[did("mc:f1")], true, NOW);
    assert_eq!(attempt(&database, again).await, None, "duplicates may be ignored");
    let close = |session: &mut dyn Session| set_open(session, &did("mc:d2"), false, NOW + 5);
    assert_eq!(attempt(&database, close).await, None);
    assert_eq!(attempt(&database, close).await, Some(Class::UnsupportedOperation));
    assert_eq!(
        attempt(&database, attaching("d2", &["f1"])).await,
        Some(Class::UnsupportedOperation)
    );
    let file = |session: &mut dyn Session| set_open(session, &did("mc:f1"), true, NOW);
    assert_eq!(attempt(&database, file).await, Some(Class::UnsupportedOperation));
    let read = |session: &mut dyn Session| {
        let (d1, d2) = (get(session, &did("mc:d1"))?, get(session, &did("mc:d2"))?);
        let f1 = get(session, &did("mc:f1"))?.id;
        let content = children(session, &d1, DidId(0), 10)?;
        Ok((in_order(session, &content)?, parents(session, f1)?, d2))
    };
    let (content, parents, d2) = database.read(read).await.unwrap();
    assert_eq!((names(&content), names(&parents)), (vec!["f1", "f2"], vec!["d1"]));
    assert_eq!((d2.is_open, d2.closed), (false, Some(NOW + 5)));
}

async fn a_container_is_never_in_itself(database: Database) {
    with(&database, &["a", "b", "c"]).await;
    assert_eq!(
        attempt(&database, attaching("a", &["a"])).await,
        Some(Class::UnsupportedOperation)
    );
    assert_eq!(attempt(&database, attaching("a", &["b"])).await, None);
    assert_eq!(attempt(&database, attaching("b", &["c"])).await, None);
    assert_eq!(
        attempt(&database, attaching("c", &["a"])).await,
        Some(Class::UnsupportedOperation)
    );
    // At the same time, too.
    let more = |session: &mut dyn Session| add(session, &news(&["x", "y"]), NOW);
    assert_eq!(attempt(&database, more).await, None);
    let both = futures_util::join!(
        attempt(&database, attaching("x", &["y"])),
        attempt(&database, attaching("y", &["x"])),
    );
    let refused = Some(Class::UnsupportedOperation);
    assert!(both == (None, refused) || both == (refused, None), "{both:?}");
}

async fn monotonic_collections_lose_nothing(database: Database) {
    with(&database, &["f1", "f2", "d1", "d-mono"]).await;
    for parent in ["d1", "d-mono"] {
        assert_eq!(attempt(&database, attaching(parent, &["f1"])).await, None);
    }
    let detaching = |parent: &'static str, child: &'static str| {
        move |session: &mut dyn Session| detach(session, &did(parent), &[did(child)], NOW)
    };
    assert_eq!(
        attempt(&database, detaching("mc:d-mono", "mc:f1")).await,
        Some(Class::UnsupportedOperation)
    );
    assert_eq!(
        attempt(&database, detaching("mc:d1", "mc:f2")).await,
        Some(Class::DidNotFound)
    );
    assert_eq!(attempt(&database, detaching("mc:d1", "mc:f1")).await, None);
    assert_eq!(
        attempt(&database, detaching("mc:d1", "mc:f1")).await,
        Some(Class::DidNotFound)
    );
}

async fn deep_listings_have_each_file_once(database: Database) {
    with(&database, &["f1", "f2", "f3", "d1", "d2", "c1", "c2"]).await;
    for (parent, children) in [
        ("d1", &["f1", "f2"][..]),
        ("d2", &["f2", "f3"]),
        ("c2", &["d2", "d1"]),
        ("c1", &["c2", "d1"]),
    ] {
        assert_eq!(attempt(&database, attaching(parent, children)).await, None);
    }
    let read = |session: &mut dyn Session| {
        let c1 = get(session, &did("mc:c1"))?;
        let first = files(session, &c1, DidId(0), 2)?;
        let rest = files(session, &c1, first[1], 2)?;
        let [first, rest] = [in_order(session, &first)?, in_order(session, &rest)?];
        Ok((first, rest, size(session, c1.id)?))
    };
    let (first, rest, size) = database.read(read).await.unwrap();
    assert_eq!(
        (names(&first), names(&rest), size),
        (vec!["f1", "f2"], vec!["f3"], (3, 30))
    );
}

async fn names_of_every_kind_are_kept(database: Database) {
    with(
        &database,
        &["f/a+b", "f';DROP/**/TABLE/**/dids;--", "f\"%_\\", "f𝔘", "d"],
    )
    .await;
    assert_eq!(
        attempt(
            &database,
            attaching("d", &["f';DROP/**/TABLE/**/dids;--", "f𝔘", "f\"%_\\", "f/a+b"])
        )
        .await,
        None
    );
    let read = |session: &mut dyn Session| {
        let dataset = get(session, &did("mc:d"))?;
        let content = children(session, &dataset, DidId(0), 9)?;
        in_order(session, &content)
    };
    let found = database.read(read).await.unwrap();
    // In the order in which they were made.
    assert_eq!(names(&found), ["f/a+b", "f';DROP/**/TABLE/**/dids;--", "f\"%_\\", "f𝔘"]);
}
