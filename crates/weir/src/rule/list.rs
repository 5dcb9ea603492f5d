//! `weir rule list`.

use serde_json::json;

use super::show;
use crate::catalog::door::{CatalogClient, did};
use crate::cli::RuleListArguments;
use crate::failure::{Exit, Failure};
use crate::output::Output;
use crate::url::encoded;

pub(super) async fn run(arguments: &RuleListArguments, output: &Output) -> Result<Exit, Failure> {
    let named = arguments.did.as_deref().map(did).transpose()?;
    let door = CatalogClient::open(&arguments.door).await?;
    let path = match named {
        Some((scope, name)) => format!("/dids/{}/{}/rules", encoded(scope), encoded(name)),
        None => format!("/rules/?account={}", encoded(door.account())),
    };
    let rules = door.rows(&path).await?;
    if rules.is_empty() {
        output.line("no rules");
    }
    for rule in &rules {
        output.line(show::line(rule, output));
    }
    output.done(&json!({ "rules": rules }));
    Ok(Exit::Done)
}
