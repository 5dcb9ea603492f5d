//! `weir transfer limits` and `weir transfer drain`: settings of an administrator while the service runs.

use anyhow::{Context, anyhow};
use http::Method;
use serde_json::{Map, Value, json};

use super::{door::TransferClient, show::text};
use crate::cli::{TransferDrainArguments, TransferLimitsArguments};
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

pub(super) async fn run(arguments: &TransferLimitsArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    match (arguments.link.as_slice(), &arguments.se) {
        ([source, destination], None) => set_link(&door, (source, destination), arguments).await?,
        ([], Some(se)) => set_se(&door, se, arguments).await?,
        ([], None) if !arguments.remove => {}
        _ => {
            let error = anyhow!("a limit belongs to one link or to one storage element");
            return Err(Failure::bad_input(error).with_remedy("name it with --link SOURCE DESTINATION or with --se SE"));
        }
    }
    let (links, storages) = (door.get("/config/links").await?, door.get("/config/se").await?);
    show(&links, &storages, output);
    output.done(&json!({ "links": links, "storages": storages }));
    Ok(Exit::Done)
}

async fn set_link(
    door: &TransferClient,
    (source, destination): (&str, &str),
    arguments: &TransferLimitsArguments,
) -> Result<(), Failure> {
    let links = door.get("/config/links").await?;
    let same = |link: &&Value| text(link, "source") == source && text(link, "destination") == destination;
    let known = links.as_array().into_iter().flatten().find(same);
    let name = known.map_or_else(
        || format!("{source}-{destination}"),
        |link| text(link, "symbolicname").to_owned(),
    );
    if arguments.remove {
        let path = format!("/config/links/{}", encoded(&name));
        return door.ask(Method::DELETE, &path, None).await.map(drop);
    }
    let mut weir = Map::new();
    for (key, value) in [("rate", &arguments.rate), ("target", &arguments.target)] {
        if let Some(value) = value {
            weir.insert(key.into(), json!(value));
        }
    }
    if let Some(weight) = arguments.weight {
        weir.insert("weight".into(), json!(weight));
    }
    if let Some(optimiser) = &arguments.optimiser {
        let number = optimiser.parse::<u32>().map(|number| json!(number));
        weir.insert("optimiser".into(), number.unwrap_or_else(|_| json!(optimiser)));
    }
    let mut body = json!({ "symbolicname": name, "source": source, "destination": destination });
    if let Some(active) = arguments.max_active {
        body["max_active"] = json!(active);
    }
    if !weir.is_empty() {
        body["weir"] = Value::Object(weir);
    }
    door.ask(Method::POST, "/config/links", Some(&body)).await.map(drop)
}

async fn set_se(door: &TransferClient, se: &str, arguments: &TransferLimitsArguments) -> Result<(), Failure> {
    if arguments.remove {
        let path = format!("/config/se?se={}", encoded(se));
        return door.ask(Method::DELETE, &path, None).await.map(drop);
    }
    let mut info = Map::new();
    for (key, value) in [
        ("inbound_max_active", arguments.inbound),
        ("outbound_max_active", arguments.outbound),
    ] {
        if let Some(value) = value {
            info.insert(key.into(), json!(value));
        }
    }
    let body = json!({ se: { "se_info": info } });
    door.ask(Method::POST, "/config/se", Some(&body)).await.map(drop)
}

fn show(links: &Value, storages: &Value, output: &Output) {
    let set = |object: &Value, keys: &[&str]| -> String {
        let told = keys.iter().filter(|key| !object[**key].is_null());
        let words: Vec<String> = told.map(|key| format!("{key} {}", plain(&object[*key]))).collect();
        words.join(", ")
    };
    for link in links.as_array().into_iter().flatten() {
        let own = set(link, &["max_active", "min_active", "optimizer_mode"]);
        let more = set(&link["weir"], &["rate", "target", "weight", "optimiser"]);
        let limits: Vec<&str> = [own.as_str(), more.as_str()]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect();
        output.line(format!(
            "link {} → {}  {}",
            text(link, "source"),
            text(link, "destination"),
            limits.join(", ")
        ));
    }
    for (se, row) in storages.as_object().into_iter().flatten() {
        let keys = [
            "inbound_max_active",
            "outbound_max_active",
            "inbound_max_throughput",
            "outbound_max_throughput",
        ];
        output.line(format!("se   {se}  {}", set(&row["se_info"], &keys)));
    }
    if links.as_array().is_none_or(Vec::is_empty) && storages.as_object().is_none_or(Map::is_empty) {
        output.line("no limits but those of the configuration file");
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

pub(super) async fn drain(arguments: &TransferDrainArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    let drain = arguments.switch.is_on();
    let hosts = door.get("/config").await?;
    let host = hosts[0]["hostname"].as_str().context("the service names no host")?;
    let body = json!({ "hostname": host, "drain": drain });
    let answer = door.ask(Method::POST, "/config/drain", Some(&body)).await?;
    output.line(if drain {
        "draining: nothing new starts, what runs goes on to its end"
    } else {
        "the service starts transfers again"
    });
    output.done(&answer);
    Ok(Exit::Done)
}
