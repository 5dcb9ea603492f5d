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

fn counts(by_state: &Value) -> String {
    let all = by_state.as_object().into_iter().flatten();
    let texts = all.map(|(state, n)| format!("{n} {state}")).collect::<Vec<_>>();
    if texts.is_empty() {
        "none".to_owned()
    } else {
        texts.join(", ")
    }
}
