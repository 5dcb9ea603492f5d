//! `weir catalog status`.

use serde_json::Value;

use super::door::{CatalogClient, verdict};
use crate::cli::CatalogStatusArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) async fn run(arguments: &CatalogStatusArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    let told = door.json("GET", "/.well-known/weir/catalog", None).await?;
    output.line(format!("version   {}", told["version"].as_str().unwrap_or_default()));
    output.line(format!("rules     {}", counts(&told["rules"])));
    output.line(format!("requests  {}", counts(&told["requests"])));
    output.line(format!("deletions {}", told["deletions"]));
    for line in waits(&told) {
        output.line(line);
    }
    let services = told["services"].as_array().map(Vec::as_slice).unwrap_or_default();
    if services.is_empty() {
        output.line("no transfer service is configured: requests wait");
    }
    let mut good = true;
    for service in services {
        let reason = service["reason"].as_str();
        good &= reason.is_none();
        let state = match reason {
            None => "in use".to_owned(),
            Some(reason) => format!("left alone for {} s: {reason}", service["pause_s"]),
        };
        output.line(format!(
            "service   {}  {state}",
            service["url"].as_str().unwrap_or_default()
        ));
    }
    output.done(&told);
    Ok(verdict(good))
}

/// A line for each RSE and reason of waiting requests, and for the room of requests on their way.
fn waits(told: &Value) -> Vec<String> {
    let rows = |key: &str| told[key].as_array().cloned().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let waiting = rows("waits").into_iter().map(|row| {
        let oldest = std::time::Duration::try_from_secs_f64(row["oldest_s"].as_f64().unwrap_or_default());
        let oldest = weir_units::duration::format(oldest.unwrap_or_default());
        let (rse, why) = (text(&row["rse"]), text(&row["why"]));
        format!(
            "waiting   {rse}  {} for {why}, the oldest for {oldest}",
            row["requests"]
        )
    });
    let reserved = rows("reserved").into_iter().map(|row| {
        let (bytes, requests) = (
            weir_units::Bytes(row["bytes"].as_u64().unwrap_or_default()),
            &row["requests"],
        );
        format!("on way    {}  {requests}, {bytes}", text(&row["rse"]))
    });
    waiting.chain(reserved).collect()
}

fn counts(by_state: &Value) -> String {
    let all = by_state.as_object().into_iter().flatten();
    let texts = all.map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>();
    if texts.is_empty() {
        "none".to_owned()
    } else {
        texts.join(", ")
    }
}
