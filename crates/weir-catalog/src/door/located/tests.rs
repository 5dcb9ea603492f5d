#![allow(clippy::unwrap_used, reason = "a failed test may panic")]

use serde_json::json;

use super::*;
use crate::{
    replicas,
    rses::{self, attributes, distances},
    rules::tests::{alice, file, prepared},
    schema::MIGRATIONS,
    testing::{NOW, done, protocol},
};
use weir_database::{Database, on_both};

on_both!(MIGRATIONS;
    replicas_of_the_clients_site_come_first_then_the_nearest
    filters_of_replicas_are_heeded
);

/// `d` with `f00000` at S, A and B; B is of the site Lyon, and A nearer to it than S.
async fn laid(database: &Database) {
    let [s, a, b] = prepared(database, 1).await;
    let work = move |session: &mut dyn Session| {
        for (rse, host) in [(s, "s"), (a, "a"), (b, "b")] {
            rses::protocols::add(session, rse, &protocol("davs", host, 1))?;
            rses::protocols::add(session, rse, &protocol("root", host, 2))?;
        }
        for (rse, at) in [(a, NOW + 1000), (b, NOW + 2000)] {
            replicas::add(session, rse, &[file("f00000")], &alice(), at)?;
        }
        attributes::set(session, b, "site", "Lyon")?;
        distances::set(session, s, b, 9)?;
        distances::set(session, a, b, 2)
    };
    done(database, work).await;
}

/// The first row of an answer.
async fn row(database: &Database, body: Value) -> Value {
    let Value::Object(mut body) = body else {
        panic!("no object")
    };
    body.insert("dids".into(), json!([{ "scope": "mc", "name": "d" }]));
    let (dids, wish) = wish(&Object::new(body)).unwrap();
    let read = move |session: &mut dyn Session| {
        let listing = ReplicaListing {
            wish: wish.clone(),
            form: Form::Lines,
            rses: readable(session, &wish)?,
            near: Near::read(session, &wish.order)?,
            files: PackedIds::default(),
        };
        let files = files(session, &dids)?;
        listing.page(session, &files[..1])
    };
    let text = database.read(read).await.unwrap();
    serde_json::from_str(&text).unwrap()
}

/// URLs with their domains, in the order of their priorities.
fn urls(row: &Value) -> Vec<String> {
    let of = |(url, about): (&String, &Value)| {
        let domain = about["domain"].as_str().unwrap();
        let place = url.split(".example.org").next().unwrap().split(":8443").next().unwrap();
        (about["priority"].as_u64().unwrap(), format!("{domain} {place}"))
    };
    let mut all = row["pfns"].as_object().unwrap().iter().map(of).collect::<Vec<_>>();
    all.sort();
    all.into_iter().map(|(_, url)| url).collect()
}

async fn replicas_of_the_clients_site_come_first_then_the_nearest(database: Database) {
    laid(&database).await;
    let anywhere = row(&database, json!({})).await;
    assert_eq!(urls(&anywhere)[..2], ["wan davs://s", "wan root://s"]);
    let lyon = json!({ "client_location": { "site": "Lyon" }, "schemes": ["davs"] });
    let at_lyon = row(&database, lyon).await;
    assert_eq!(urls(&at_lyon), ["lan davs://b", "wan davs://a", "wan davs://s"]);
    let wan = json!({ "client_location": { "site": "Lyon" }, "schemes": ["davs"], "domain": "wan" });
    assert_eq!(urls(&row(&database, wan).await)[0], "wan davs://b");

    // At random each comes first now and then; so does each alone.
    let mut first = BTreeSet::new();
    let mut alone = BTreeSet::new();
    for _ in 0..100 {
        let random = row(&database, json!({ "sort": "random", "schemes": ["davs"] })).await;
        first.insert(urls(&random)[0].clone());
        let one = row(&database, json!({ "nrandom": 1, "schemes": ["davs"] })).await;
        assert_eq!(urls(&one).len(), 1);
        alone.insert(urls(&one)[0].clone());
    }
    assert_eq!((first.len(), alone.len()), (3, 3));
}

async fn filters_of_replicas_are_heeded(database: Database) {
    laid(&database).await;
    let rses = |row: &Value| row["rses"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    let since = |at: Value| row(&database, json!({ "updated_after": at }));
    let seconds = (NOW + 1000) as f64 / 1e3;
    assert_eq!(rses(&since(json!(seconds)).await), ["A", "B"]);
    assert_eq!(rses(&since(json!(time::format(NOW + 2000))).await), ["B"]);
    let tier = json!({ "rse_expression": "t2=true", "schemes": ["root"] });
    let row = row(&database, tier).await;
    assert_eq!((rses(&row), urls(&row).len()), (vec!["A".into(), "B".into()], 2));
    for wrong in [
        json!({ "sort": "beauty" }),
        json!({ "domain": "moon" }),
        json!({ "updated_after": "yesterday" }),
        json!({ "nrandom": "many" }),
    ] {
        let Value::Object(mut body) = wrong else { continue };
        body.insert("dids".into(), json!([]));
        assert!(wish(&Object::new(body.clone())).is_err(), "{body:?}");
    }
}
