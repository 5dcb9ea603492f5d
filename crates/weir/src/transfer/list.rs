//! `weir transfer list`.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::{
    door::TransferClient,
    show::{self, text},
};
use crate::cli::TransferListArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

pub(super) async fn run(arguments: &TransferListArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    let mut query = format!("limit={}", arguments.limit);
    let states = arguments.state.join(",").to_ascii_uppercase();
    let states = (!states.is_empty()).then_some(states);
    let wanted = [
        ("state_in", &states),
        ("vo_name", &arguments.vo),
        ("source_se", &arguments.source),
        ("dest_se", &arguments.destination),
    ];
    for (key, value) in wanted {
        if let Some(value) = value {
            let _ = write!(query, "&{key}={}", encoded(value));
        }
    }
    let jobs = door.get(&format!("/jobs?{query}")).await?;
    let jobs = jobs.as_array().cloned().unwrap_or_default();
    if jobs.is_empty() {
        output.line("no jobs");
    }
    for job in &jobs {
        output.line(line(job, output));
    }
    output.done(&json!({ "jobs": jobs }));
    Ok(Exit::Done)
}

fn line(job: &Value, output: &Output) -> String {
    let end = |key: &str| {
        if text(job, key).is_empty() {
            "(several)"
        } else {
            text(job, key)
        }
    };
    format!(
        "{}  {}  {}Z  {}  {} → {}",
        text(job, "job_id"),
        show::state(text(job, "job_state"), 13, output),
        text(job, "submit_time"),
        text(job, "vo_name"),
        end("source_se"),
        end("dest_se"),
    )
}
