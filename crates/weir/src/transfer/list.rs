//! `weir transfer list`.

use std::{borrow::Cow, fmt::Write as _};

use anyhow::Context;
use serde::Deserialize as _;
use serde_json::json;
use weir_fts_api::Job;

use super::{door::TransferClient, show};
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
        let job = Job::deserialize(job).context("could not understand a job")?;
        output.line(line(&job, output));
    }
    output.done(&json!({ "jobs": jobs }));
    Ok(Exit::Done)
}

fn line(job: &Job<'_>, output: &Output) -> String {
    let end = |se: &Option<Cow<'_, str>>| {
        se.as_deref()
            .filter(|se| !se.is_empty())
            .unwrap_or("(several)")
            .to_owned()
    };
    format!(
        "{}  {}  {}Z  {}  {} → {}",
        show::id(job),
        show::state(job.job_state.as_deref().unwrap_or_default(), 13, output),
        job.submit_time.map(|time| time.to_string()).unwrap_or_default(),
        job.vo_name.as_deref().unwrap_or_default(),
        end(&job.source_se),
        end(&job.dest_se),
    )
}
