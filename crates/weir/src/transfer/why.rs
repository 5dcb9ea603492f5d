//! `weir transfer why`: the scheduler's reasons.

use serde_json::Value;

use super::{
    causes::{self, ServiceTimes},
    door::TransferClient,
    show::text,
};
use crate::cli::TransferWhyArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

/// Rows of states that are shown.
const STATES_SHOWN: usize = 8;

pub(super) async fn run(arguments: &TransferWhyArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    let mut found = match (arguments.what.as_slice(), of(&arguments.what)) {
        ([source, destination], _) => link(&door, source, destination).await?,
        (_, Some((source, destination))) => link(&door, source, destination).await?,
        ([id], None) if id.chars().all(|c| c.is_ascii_digit()) => door.get(&format!("/why/files/{id}")).await?,
        ([id], None) => door.get(&format!("/why/jobs/{}", encoded(id))).await?,
        _ => {
            return Err(Failure::bad_input(anyhow::anyhow!(
                "name a link by its two ends, a job or a file"
            )));
        }
    };
    match &found {
        Value::Array(files) if files.is_empty() => output.line("every file of the job has ended"),
        Value::Array(files) => files.iter().for_each(|file| transfer(file, output)),
        link if link["source_se"].is_string() && link["active"].is_number() => {
            show_link(link, output);
            let causes = ServiceTimes::read(&door)
                .await?
                .of(text(link, "source_se"), text(link, "dest_se"));
            if !causes.is_empty() {
                output.line("  the same time by cause, that of slots followed to the transfers that hold them");
                causes::show(&causes, "    ", output);
            }
            found["causes"] = causes::data(&causes);
        }
        file => transfer(file, output),
    }
    output.done(&found);
    Ok(Exit::Done)
}

/// `https://a > https://b` in one word, as the configuration file writes a link.
fn of(what: &[String]) -> Option<(&str, &str)> {
    let [link] = what else { return None };
    let (source, destination) = link.split_once('>').or_else(|| link.split_once('→'))?;
    Some((source.trim(), destination.trim()))
}

async fn link(door: &TransferClient, source: &str, destination: &str) -> Result<Value, Failure> {
    let path = format!(
        "/why/link?source_se={}&dest_se={}",
        encoded(source),
        encoded(destination)
    );
    door.get(&path).await
}

fn show_link(link: &Value, output: &Output) {
    output.line(format!("{} → {}", text(link, "source_se"), text(link, "dest_se")));
    let each = link["each_bps"]
        .as_u64()
        .map(|rate| format!(", {} each", weir_units::BitRate(rate)));
    output.line(format!(
        "  {} active of {} allowed now (limit {}), {} queued, {} wait for their next attempt{}",
        link["active"],
        link["allowed"],
        link["limit"],
        link["queued"],
        link["delayed"],
        each.unwrap_or_default()
    ));
    for reason in link["reasons"].as_array().into_iter().flatten() {
        output.line(format!("  {}", text(reason, "text")));
    }
    show_waits(link, output);
    let decisions = link["decisions"].as_array().filter(|decisions| !decisions.is_empty());
    if let Some(decisions) = decisions {
        output.line("  last decisions");
        for decision in decisions {
            let at = text(decision, "at");
            output.line(format!("    {at}  {}  {}", decision["file_id"], text(decision, "text")));
        }
    }
}

/// The states in which most time went, since the service's start.
fn show_waits(link: &Value, output: &Output) {
    let mut waits: Vec<(f64, &Value)> = link["waits"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|wait| Some((wait["seconds"].as_f64()?, wait)))
        .collect();
    let sum: f64 = waits.iter().map(|(seconds, _)| seconds).sum();
    if sum <= 0.0 {
        return;
    }
    output.line("  where the time of its transfers went since the service's start");
    waits.sort_by(|(one, _), (other, _)| other.total_cmp(one));
    for (seconds, wait) in waits.iter().take(STATES_SHOWN) {
        let place = wait["place"]
            .as_str()
            .map_or_else(String::new, |place| format!("  {place}"));
        output.line(format!(
            "    {:>5.1} %  {seconds:>10.1} s  {}{place}",
            seconds / sum * 100.0,
            text(wait, "wait")
        ));
    }
}

fn transfer(file: &Value, output: &Output) {
    output.line(format!("{}  {}", file["file_id"], text(file, "text")));
}
