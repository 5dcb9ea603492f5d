//! `weir transfer submit`.

use std::io::Read as _;
use std::path::Path;

use anyhow::Context;
use http::Method;
use serde_json::{Map, Value, json};
use weir_fts_api::{NewTransfer, Params, Submission};

use super::{door::TransferClient, watch};
use crate::cli::TransferSubmitArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) async fn run(arguments: &TransferSubmitArguments, output: &Output) -> Result<Exit, Failure> {
    let mut body = match &arguments.file {
        Some(file) => bulk(&read(file)?, &file.display().to_string())?,
        None => single(arguments)?,
    };
    add_params(&mut body, arguments)?;
    let door = TransferClient::open(&arguments.door)?;
    add_tokens(&mut body, arguments, &door)?;
    let answer = door.ask(Method::POST, "/jobs", Some(&body)).await?;
    let id = answer["job_id"]
        .as_str()
        .context("the service gave no job id")?
        .to_owned();
    output.line(&id);
    if arguments.watch {
        output.event("submitted", &json!({ "job_id": id }));
        return watch::follow(&door, &[id], output).await;
    }
    output.done(&json!({ "job_id": id }));
    Ok(Exit::Done)
}

fn read(file: &Path) -> Result<String, Failure> {
    let named = || format!("could not read {}", file.display());
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).with_context(named)?;
        return Ok(text);
    }
    let text = std::fs::read_to_string(file).with_context(named);
    text.map_err(Failure::bad_input)
}

fn single(arguments: &TransferSubmitArguments) -> Result<Value, Failure> {
    let (Some(source), Some(destination)) = (&arguments.source, &arguments.destination) else {
        let error = anyhow::anyhow!("a source and a destination are needed");
        return Err(Failure::bad_input(error).with_remedy("give both URLs, or a file of them with --file"));
    };
    let file = NewTransfer {
        checksum: arguments.checksum.clone(),
        filesize: arguments.size.map(|size| size.0),
        ..copy(source, destination)
    };
    Ok(job(vec![file]))
}

fn copy(source: &str, destination: &str) -> NewTransfer {
    NewTransfer {
        sources: vec![source.to_owned()],
        destinations: vec![destination.to_owned()],
        ..NewTransfer::default()
    }
}

fn job(files: Vec<NewTransfer>) -> Value {
    json!(Submission {
        files,
        params: Params::default(),
    })
}

/// A job in FTS3's JSON, or lines `SOURCE DESTINATION [CHECKSUM]`.
fn bulk(text: &str, name: &str) -> Result<Value, Failure> {
    if text.trim_start().starts_with('{') {
        let job: Value = serde_json::from_str(text)
            .with_context(|| format!("{name} is no JSON"))
            .map_err(Failure::bad_input)?;
        return if job["files"].is_array() {
            Ok(job)
        } else {
            Err(Failure::bad_input(anyhow::anyhow!("{name} has no list \"files\"")))
        };
    }
    let (mut files, mut problems) = (Vec::new(), Vec::new());
    for (number, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            [first, ..] if first.starts_with('#') => {}
            [source, destination] => files.push(copy(source, destination)),
            [source, destination, checksum] => {
                files.push(NewTransfer {
                    checksum: Some((*checksum).to_owned()),
                    ..copy(source, destination)
                });
            }
            _ => problems.push(format!("{name}:{}: expected SOURCE DESTINATION [CHECKSUM]", number + 1)),
        }
    }
    if !problems.is_empty() {
        return Err(Failure::problems(name, &problems));
    }
    if files.is_empty() {
        return Err(Failure::bad_input(anyhow::anyhow!("{name} names no files")));
    }
    Ok(job(files))
}

fn add_params(body: &mut Value, arguments: &TransferSubmitArguments) -> Result<(), Failure> {
    let mut params = Map::new();
    if arguments.overwrite {
        params.insert("overwrite".into(), json!(true));
    }
    if let Some(verify) = arguments.verify_checksum {
        params.insert("verify_checksum".into(), json!(verify.as_str()));
    }
    if let Some(retry) = arguments.retry {
        // FTS3 reads 0 as its own default.
        params.insert("retry".into(), json!(if retry == 0 { -1 } else { i64::from(retry) }));
    }
    if let Some(priority) = arguments.priority {
        params.insert("priority".into(), json!(priority));
    }
    if let Some(metadata) = &arguments.metadata {
        let metadata = serde_json::from_str::<Value>(metadata).context("--metadata is no JSON");
        params.insert("job_metadata".into(), metadata.map_err(Failure::bad_input)?);
    }
    let kept = body["params"].take();
    let mut all = kept.as_object().cloned().unwrap_or_default();
    all.extend(params);
    body["params"] = Value::Object(all);
    if let Some(activity) = &arguments.activity {
        for file in body["files"].as_array_mut().into_iter().flatten() {
            file["activity"] = json!(activity);
        }
    }
    Ok(())
}

/// Without tokens of their own, files are copied with the caller's.
fn add_tokens(body: &mut Value, arguments: &TransferSubmitArguments, door: &TransferClient) -> Result<(), Failure> {
    if arguments.source_token_file.is_none() && arguments.destination_token_file.is_none() {
        return Ok(());
    }
    let of = |file: &Option<std::path::PathBuf>| -> Result<String, Failure> {
        let token = match file {
            Some(file) => crate::token::read(file)?,
            None => door.token().clone(),
        };
        Ok(token.expose().to_owned())
    };
    let (source, destination) = (
        of(&arguments.source_token_file)?,
        of(&arguments.destination_token_file)?,
    );
    for file in body["files"].as_array_mut().into_iter().flatten() {
        let copies = |key: &str, token: &str| vec![token.to_owned(); file[key].as_array().map_or(1, Vec::len)];
        let (sources, destinations) = (copies("sources", &source), copies("destinations", &destination));
        file["source_tokens"] = json!(sources);
        file["destination_tokens"] = json!(destinations);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use super::*;

    #[test]
    fn a_list_of_copies_is_a_job() {
        let job = bulk(
            "# copies\nhttps://a/f https://b/f\n\nhttps://a/g https://b/g ADLER32:00000001\n",
            "l",
        )
        .unwrap();
        assert_eq!(job["files"].as_array().unwrap().len(), 2);
        assert_eq!(job["files"][1]["checksum"], "ADLER32:00000001");
        let job = bulk(r#"{"files": [{"sources": ["x"]}], "params": {"retry": 2}}"#, "l").unwrap();
        assert_eq!(job["params"]["retry"], 2);
    }

    #[test]
    fn a_list_that_is_none_is_told_by_its_line() {
        for (text, word) in [
            ("https://a/f", "l:1"),
            ("# a\na b c d", "l:2"),
            ("", "names no files"),
            ("{", "no JSON"),
            ("{}", "files"),
        ] {
            let failure = bulk(text, "l").unwrap_err();
            assert!(failure.to_string().contains(word), "{failure}");
        }
    }
}
