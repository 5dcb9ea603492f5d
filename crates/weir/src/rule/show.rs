//! `weir rule show`, and rules as text.

use serde_json::{Value, json};

use crate::catalog::door::CatalogClient;
use crate::cli::RulesArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

const GREEN: &str = "32";
const RED: &str = "31";

pub(super) async fn run(arguments: &RulesArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    let mut rules = Vec::new();
    for id in &arguments.rules {
        let rule = one(&door, id).await?;
        whole(&rule, output);
        rules.push(rule);
    }
    output.done(&json!({ "rules": rules }));
    Ok(Exit::Done)
}

/// A rule by its id.
pub(super) async fn one(door: &CatalogClient, id: &str) -> Result<Value, Failure> {
    door.json("GET", &format!("/rules/{}", encoded(id)), None).await
}

/// A text of an object; empty if there is none.
pub(super) fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object[key].as_str().unwrap_or_default()
}

/// A state, padded, in its colour.
pub(super) fn state(state: &str, output: &Output) -> String {
    let padded = format!("{state:11}");
    let color = match state {
        "OK" => GREEN,
        "STUCK" | "SUSPENDED" => RED,
        _ => return padded,
    };
    if output.color() {
        format!("\x1b[{color}m{padded}\x1b[0m")
    } else {
        padded
    }
}

/// How many of its files are there.
pub(super) fn progress(rule: &Value) -> String {
    let n = |key: &str| rule[key].as_u64().unwrap_or_default();
    let (ok, replicating, stuck) = (n("locks_ok_cnt"), n("locks_replicating_cnt"), n("locks_stuck_cnt"));
    let stuck = if stuck > 0 {
        format!(", {stuck} stuck")
    } else {
        String::new()
    };
    format!("{ok} of {} there{stuck}", ok + replicating + n("locks_stuck_cnt"))
}

/// A rule in one line.
pub(super) fn line(rule: &Value, output: &Output) -> String {
    format!(
        "{}  {}  {}:{}  {} at {}  {}",
        text(rule, "id"),
        state(text(rule, "state"), output),
        text(rule, "scope"),
        text(rule, "name"),
        copies(rule),
        text(rule, "rse_expression"),
        progress(rule),
    )
}

fn copies(rule: &Value) -> String {
    match rule["copies"].as_u64() {
        Some(1) => "1 copy".to_owned(),
        n => format!("{} copies", n.unwrap_or_default()),
    }
}

fn whole(rule: &Value, output: &Output) {
    output.line(line(rule, output));
    for (key, name) in [
        ("account", "account"),
        ("activity", "activity"),
        ("created_at", "added"),
        ("expires_at", "ends"),
        ("source_replica_expression", "sources"),
        ("comments", "comment"),
        ("error", "last error"),
    ] {
        if !text(rule, key).is_empty() {
            // Other people's words reach this terminal.
            output.line(format!("  {name:10}  {}", weir_auth::peer_text(text(rule, key))));
        }
    }
}
