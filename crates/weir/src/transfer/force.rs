//! `weir transfer force`.

use http::Method;
use serde_json::json;

use super::{door::TransferClient, show::text};
use crate::cli::TransferForceArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;

pub(super) async fn run(arguments: &TransferForceArguments, output: &Output) -> Result<Exit, Failure> {
    let door = TransferClient::open(&arguments.door)?;
    let files = json!(arguments.files);
    let refused = door.ask(Method::POST, "/admin/force-start", Some(&files)).await?;
    for file in &arguments.files {
        let of_it = refused.as_array().into_iter().flatten();
        let error = of_it
            .filter(|one| one["file_id"] == *file)
            .map(|one| text(one, "error"))
            .next();
        output.line(format!("{file}  {}", error.unwrap_or("forced")));
    }
    output.done(&json!({ "refused": refused }));
    Ok(if refused.as_array().is_some_and(Vec::is_empty) {
        Exit::Done
    } else {
        Exit::CouldNotRun
    })
}
