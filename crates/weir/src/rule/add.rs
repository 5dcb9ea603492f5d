//! `weir rule add` and `weir rule delete`.

use serde_json::{Value, json};

use super::watch;
use crate::catalog::door::{CatalogClient, did};
use crate::cli::{RuleAddArguments, RulesArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

pub(super) async fn run(arguments: &RuleAddArguments, output: &Output) -> Result<Exit, Failure> {
    let mut dids = Vec::new();
    for text in &arguments.dids {
        let (scope, name) = did(text)?;
        dids.push(json!({ "scope": scope, "name": name }));
    }
    let door = CatalogClient::open(&arguments.door).await?;
    let mut body = json!({
        "dids": dids, "account": door.account(), "copies": arguments.copies, "rse_expression": arguments.rses,
        "grouping": arguments.grouping.as_str(), "purge_replicas": arguments.purge,
    });
    let optional = [
        ("lifetime", arguments.lifetime.map(|life| json!(life.as_secs()))),
        (
            "source_replica_expression",
            arguments.source_rses.as_ref().map(|text| json!(text)),
        ),
        ("activity", arguments.activity.as_ref().map(|text| json!(text))),
        ("priority", arguments.priority.map(|priority| json!(priority))),
        ("comment", arguments.comment.as_ref().map(|text| json!(text))),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            body[key] = value;
        }
    }
    let made = door.json("POST", "/rules/", Some(&body)).await?;
    let rules = made
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .map(str::to_owned);
    let rules = rules.collect::<Vec<_>>();
    rules.iter().for_each(|rule| output.line(rule));
    if arguments.watch {
        output.event("added", &json!({ "rules": rules }));
        return watch::follow(&door, &rules, output).await;
    }
    output.done(&json!({ "rules": rules }));
    Ok(Exit::Done)
}

pub(super) async fn delete(arguments: &RulesArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    for rule in &arguments.rules {
        door.text("DELETE", &format!("/rules/{}", encoded(rule)), Some(&json!({})))
            .await?;
        output.line(format!("{rule} ends within the hour"));
    }
    output.done(&json!({ "rules": arguments.rules }));
    Ok(Exit::Done)
}
