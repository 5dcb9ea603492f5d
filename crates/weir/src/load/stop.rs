//! `weir load stop`.

use serde_json::{Value, json};

use crate::catalog::door::CatalogClient;
use crate::cli::LoadStopArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

pub(super) async fn run(arguments: &LoadStopArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    let body = json!({ "keep_rules": arguments.keep_rules });
    let mut stopped = 0;
    if arguments.all {
        stopped = count(&door.json("POST", "/loads/stop", Some(&body)).await?);
    }
    for id in &arguments.loads {
        let path = format!("/loads/{}/stop", encoded(id));
        stopped += count(&door.json("POST", &path, Some(&body)).await?);
    }
    let rules = if arguments.keep_rules {
        "the rules that they made live on"
    } else {
        "the rules that they made end now"
    };
    match stopped {
        0 => output.line("nothing to stop"),
        1 => output.line(format!("1 load is stopped; {rules}")),
        n => output.line(format!("{n} loads are stopped; {rules}")),
    }
    output.done(&json!({ "stopped": stopped }));
    Ok(Exit::Done)
}

fn count(answer: &Value) -> u64 {
    answer["stopped"].as_u64().unwrap_or_default()
}
