//! `weir transfer cancel`.

use http::Method;
use serde_json::{Value, json};

use super::{
    door::TransferClient,
    show::{self, text},
};
use crate::cli::TransferCancelArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

pub(super) async fn run(arguments: &TransferCancelArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    let mut answers = Vec::new();
    for id in &arguments.jobs {
        let mut path = format!("/jobs/{}", encoded(id));
        if !arguments.files.is_empty() {
            let files: Vec<String> = arguments.files.iter().map(u64::to_string).collect();
            path = format!("{path}/files/{}", files.join(","));
        }
        let answer = door.ask(Method::DELETE, &path, None).await?;
        report(id, &answer, output);
        answers.push(answer);
    }
    output.done(&json!({ "answers": answers }));
    Ok(Exit::Done)
}

fn report(id: &str, answer: &Value, output: &Output) {
    match answer {
        Value::String(state) => output.line(format!("{id}  {}", show::state(state, 0, output))),
        Value::Array(states) => {
            for state in states {
                output.line(format!("{id}  {}", state.as_str().unwrap_or_default()));
            }
        }
        job => {
            let note = text(job, "http_message");
            let state = show::state(text(job, "job_state"), 0, output);
            output.line(format!("{id}  {state}  {note}").trim_end());
        }
    }
}
