//! `weir rule why`: from the rule over its requests to the transfers, and the scheduler's reasons.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::show::{state, text};
use crate::catalog::door::CatalogClient;
use crate::cli::{AccessArguments, DoorArguments, RuleWhyArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::transfer::TransferClient;
use crate::transfer::causes::{self, ServiceTimes};
use crate::url::encoded;

/// Files that are named for each reason.
const EXAMPLES: usize = 3;

/// Links of which causes are shown.
const LINKS: usize = 5;

/// Jobs of which the transfer service is asked.
const JOBS: usize = 10;

pub(super) async fn run(arguments: &RuleWhyArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    let path = format!("/.well-known/weir/rules/{}/why", encoded(&arguments.rule));
    let mut told = door.json("GET", &path, None).await?;
    let locks = &told["locks"];
    output.line(format!(
        "{}  {}  {}  at {}: {} there, {} on their way, {} stuck",
        text(&told, "id"),
        state(text(&told, "state"), output).trim_end(),
        text(&told, "did"),
        text(&told, "rse_expression"),
        locks["ok"],
        locks["replicating"],
        locks["stuck"]
    ));
    if !text(&told, "error").is_empty() {
        output.line(format!("  last error: {}", text(&told, "error")));
    }
    let requests = told["requests"].as_array().cloned().unwrap_or_default();
    by_reason(&requests, output);
    let (transfers, causes) = transfers(arguments, &requests, output).await?;
    if requests.is_empty() && text(&told, "state") == "OK" {
        output.line("  nothing is missing");
    }
    told["transfers"] = transfers;
    told["causes"] = causes;
    output.done(&told);
    Ok(Exit::Done)
}

/// Requests with the same state, place and reason, in one paragraph.
fn by_reason(requests: &[Value], output: &Output) {
    let mut groups = BTreeMap::<_, Vec<&Value>>::new();
    for one in requests {
        let reason = match (text(one, "state"), text(one, "reason")) {
            ("QUEUED", "") => "waits for its submission",
            ("SUBMITTED", _) => "is with the transfer service",
            ("WAITING", _) => "waits for the upload of a client, or for a deletion",
            (_, reason) => reason,
        };
        let key = (
            text(one, "state").to_owned(),
            text(one, "rse").to_owned(),
            reason.to_owned(),
        );
        groups.entry(key).or_default().push(one);
    }
    for ((state, rse, reason), files) in groups {
        let from = files
            .iter()
            .map(|one| text(one, "source"))
            .find(|source| !source.is_empty());
        let from = from.map(|source| format!("{source} → ")).unwrap_or_default();
        output.line(format!("  {} {state} {from}{rse}: {reason}", count(files.len())));
        let names = files
            .iter()
            .take(EXAMPLES)
            .map(|one| format!("{}:{}", text(one, "scope"), text(one, "name")));
        let more = files.len().saturating_sub(EXAMPLES);
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        output.line(format!("    {}{more}", names.collect::<Vec<_>>().join(", ")));
    }
}

fn count(n: usize) -> String {
    if n == 1 {
        "1 request".to_owned()
    } else {
        format!("{n} requests")
    }
}

/// The reasons of the scheduler, where the named transfer service has the jobs. The token goes to no other.
async fn transfers(
    arguments: &RuleWhyArguments,
    requests: &[Value],
    output: &Output,
) -> Result<(Value, Value), Failure> {
    let Some(endpoint) = arguments.endpoint.as_deref().map(|url| url.trim_end_matches('/')) else {
        return Ok((Value::Null, Value::Null));
    };
    let with_it = |one: &&Value| text(one, "service") == endpoint && text(one, "state") == "SUBMITTED";
    let mut jobs = requests
        .iter()
        .filter(with_it)
        .map(|one| text(one, "job"))
        .collect::<Vec<_>>();
    jobs.sort_unstable();
    jobs.dedup();
    if jobs.is_empty() {
        return Ok((Value::Null, Value::Null));
    }
    let access = &arguments.door.access;
    let door = TransferClient::open(&DoorArguments {
        endpoint: endpoint.to_owned(),
        access: AccessArguments {
            token_file: access.token_file.clone(),
            ca: access.ca.clone(),
            ca_directory: access.ca_directory.clone(),
        },
    })?;
    let (mut all, mut links) = (Vec::new(), BTreeSet::new());
    for job in jobs.iter().take(JOBS) {
        // Of a job that ends meanwhile there is nothing to say.
        let Ok(files) = door.get(&format!("/why/jobs/{job}")).await else {
            continue;
        };
        let texts = files
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| text(file, "text").to_owned());
        let mut counted = BTreeMap::<String, usize>::new();
        texts.for_each(|text| *counted.entry(text).or_default() += 1);
        output.line(format!("  transfer service, job {job}"));
        for (text, n) in &counted {
            output.line(format!("    {n} × {text}"));
        }
        for file in files.as_array().into_iter().flatten() {
            links.insert((text(file, "source_se").to_owned(), text(file, "dest_se").to_owned()));
        }
        all.push(json!({ "job": job, "files": files }));
    }
    Ok((all.into(), causes_of(&door, &links, output).await?))
}

/// The time of the transfers of some links by cause.
async fn causes_of(
    door: &TransferClient,
    links: &BTreeSet<(String, String)>,
    output: &Output,
) -> Result<Value, Failure> {
    let links: Vec<_> = links
        .iter()
        .filter(|(source, _)| !source.is_empty())
        .take(LINKS)
        .collect();
    if links.is_empty() {
        return Ok(Value::Null);
    }
    let mut all = Vec::new();
    let times = ServiceTimes::read(door).await?;
    for (source, destination) in links {
        let causes = times.of(source, destination);
        if !causes.is_empty() {
            output.line(format!(
                "  {source} → {destination}: the time of its transfers by cause"
            ));
            causes::show(&causes, "    ", output);
        }
        all.push(json!({ "source_se": source, "dest_se": destination, "causes": causes::data(&causes) }));
    }
    Ok(all.into())
}
