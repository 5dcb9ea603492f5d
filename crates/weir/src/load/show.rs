//! `weir load list` and `weir load show`.

use serde_json::{Value, json};
use weir_units::{BitRate, Bytes};

use crate::catalog::door::CatalogClient;
use crate::cli::{LoadListArguments, LoadShowArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

/// Cycles that people are shown; `--json` has all.
const CYCLES: usize = 10;

/// Cycles of one answer.
const PAGE: usize = 10_000;

pub(super) async fn list(arguments: &LoadListArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    let path = if arguments.everybody {
        "/loads".to_owned()
    } else {
        format!("/loads?account={}", encoded(door.account()))
    };
    let loads = door.rows(&path).await?;
    if loads.is_empty() {
        output.line("no loads");
    }
    for load in &loads {
        output.line(line(load));
    }
    output.done(&json!({ "loads": loads }));
    Ok(Exit::Done)
}

pub(super) async fn run(arguments: &LoadShowArguments, output: &Output) -> Result<Exit, Failure> {
    let door = CatalogClient::open(&arguments.door).await?;
    let mut loads = Vec::new();
    for id in &arguments.loads {
        let mut load = door.json("GET", &format!("/loads/{}", encoded(id)), None).await?;
        let cycles = cycles(&door, id).await?;
        whole(&load, &cycles, output);
        load["ledger"] = json!(cycles);
        loads.push(load);
    }
    output.done(&json!({ "loads": loads }));
    Ok(Exit::Done)
}

async fn cycles(door: &CatalogClient, id: &str) -> Result<Vec<Value>, Failure> {
    let mut all = Vec::<Value>::new();
    loop {
        let after = all.last().and_then(|row| row["cycle"].as_u64()).unwrap_or_default();
        let page = door
            .rows(&format!("/loads/{}/cycles?after={after}", encoded(id)))
            .await?;
        let is_last = page.len() < PAGE;
        all.extend(page);
        if is_last {
            return Ok(all);
        }
    }
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or("?")
}

fn bytes(row: &Value, key: &str) -> Bytes {
    Bytes(row[key].as_u64().unwrap_or_default())
}

/// The highest rate of the curve.
fn rate(load: &Value) -> String {
    let points = load["curve"].as_array().into_iter().flatten();
    let rates = points.filter_map(|point| point[1].as_u64()).collect::<Vec<_>>();
    let most = BitRate(rates.iter().copied().max().unwrap_or_default()).three_digits();
    if rates.len() > 1 { format!("up to {most}") } else { most }
}

fn line(load: &Value) -> String {
    let held = load["held"]
        .as_str()
        .map_or_else(String::new, |held| format!("  held: {held}"));
    format!(
        "{}  {:9}  {} → {}  {}  {} of {} asked are injected, {} arrived{held}",
        text(load, "id"),
        text(load, "state"),
        text(load, "source"),
        text(load, "destination"),
        rate(load),
        bytes(load, "injected_bytes"),
        bytes(load, "asked_bytes"),
        bytes(load, "arrived_bytes"),
    )
}

fn whole(load: &Value, cycles: &[Value], output: &Output) {
    output.line(line(load));
    for (name, value) in [
        ("account", text(load, "account").to_owned()),
        ("time", format!("{} to {}", text(load, "start"), text(load, "end"))),
        ("waiting", bytes(load, "waiting_bytes").to_string()),
        ("lost", bytes(load, "lost_bytes").to_string()),
        ("given up", bytes(load, "given_up_bytes").to_string()),
        ("reason", load["reason"].as_str().unwrap_or_default().to_owned()),
        ("comment", load["comment"].as_str().unwrap_or_default().to_owned()),
    ] {
        if !value.is_empty() {
            // Other people's words reach this terminal.
            output.line(format!("  {name:8}  {}", weir_auth::peer_text(value)));
        }
    }
    let left_out = cycles.len().saturating_sub(CYCLES);
    if left_out > 0 {
        output.line(format!("  {left_out} cycles before these (--json has all)"));
    }
    for row in &cycles[left_out..] {
        let why = [row["held"].as_str(), row["reason"].as_str()];
        let why = weir_auth::peer_text(why.into_iter().flatten().collect::<Vec<_>>().join(": "));
        output.line(format!(
            "  {}  {:>5}  {} files, {}  rule {}  {why}",
            text(row, "asked_at"),
            row["cycle"],
            row["files"],
            bytes(row, "bytes"),
            row["rule"].as_str().unwrap_or("none"),
        ));
    }
}
