//! `weir load add`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use serde_json::{Value, json};
use weir_units::Timestamp;

use crate::catalog::door::CatalogClient;
use crate::cli::LoadAddArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) async fn run(arguments: &LoadAddArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    let mut loads = match &arguments.csv {
        Some(file) => from_file(&door, file).await?,
        None => vec![from_options(arguments)],
    };
    for load in &mut loads {
        load["activity"] = json!(arguments.activity);
        if let Some(scope) = &arguments.scope {
            load["scope"] = json!(scope);
        }
        if arguments.dry_run {
            load["dry_run"] = json!(true);
        }
    }
    let made = door.json("POST", "/loads", Some(&json!({ "loads": loads }))).await?;
    for id in made.as_array().into_iter().flatten().filter_map(Value::as_str) {
        output.line(id);
    }
    output.done(&json!({ "loads": made }));
    Ok(Exit::Done)
}

fn from_options(arguments: &LoadAddArguments) -> Value {
    let mut load = json!({
        "source": arguments.from, "destination": arguments.to, "interval": arguments.cycle.as_secs_f64(),
        "lifetime": arguments.lifetime.as_secs_f64(), "big_first": arguments.big_first,
    });
    let curve = arguments.curve.as_ref().map(|curve| {
        let points = curve.0.iter().map(|(after, rate)| json!([after.as_secs_f64(), rate.0]));
        points.collect::<Value>()
    });
    let duration = arguments.end.is_none().then_some(arguments.length.as_secs_f64());
    let optional = [
        ("rate", arguments.rate.map(|rate| json!(rate.0))),
        ("curve", curve),
        ("start", arguments.start.as_ref().map(|text| json!(text))),
        ("end", arguments.end.as_ref().map(|text| json!(text))),
        ("duration", duration.map(Value::from)),
        ("data", arguments.data.as_ref().map(|text| json!(text))),
        ("comment", arguments.comment.as_ref().map(|text| json!(text))),
    ];
    for (key, value) in optional {
        if let Some(value) = value {
            load[key] = value;
        }
    }
    load
}

/// The loads of a file, whose RSEs the catalogue knows.
async fn from_file(door: &CatalogClient, file: &Path) -> Result<Vec<Value>, Failure> {
    let text = std::fs::read_to_string(file)
        .with_context(|| format!("could not read {}", file.display()))
        .map_err(Failure::bad_input)?;
    let rses = door.rows("/rses/").await?;
    let names = rses.iter().filter_map(|rse| rse["rse"].as_str().map(str::to_owned));
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now = Timestamp(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX));
    let read = weir_plan::loads::read_csv(&text, file, &names.collect::<BTreeSet<_>>(), now);
    let loads =
        read.map_err(|problems| Failure::problems(&format!("the file of loads {}", file.display()), &problems))?;
    let value = |load| serde_json::to_value(load).context("could not write a load as JSON");
    Ok(loads.iter().map(value).collect::<Result<_, _>>()?)
}
