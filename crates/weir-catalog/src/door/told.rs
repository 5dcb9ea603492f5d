//! Transfer services tell of transfers.

use aws_lc_rs::{constant_time, digest};
use http::{HeaderMap, header};

use super::{
    State,
    answer::{Answer, Failure, done},
    body::List,
};
use crate::{
    refusal::{Class, Refusal},
    transfers::events,
};

/// `POST /.well-known/weir/transfers`: messages of a webhook, as Weir's transfer service sends them. A caller without the token could only have jobs
/// asked for more often, and is refused all the same.
pub(crate) async fn told(door: State, headers: HeaderMap, messages: List) -> Answer {
    let expected = door.tasks.webhook.as_ref();
    let expected =
        expected.ok_or_else(|| Failure::not_built("nothing is heard here: transfers.webhook_token_file is not set"))?;
    let shown = headers
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok()?.strip_prefix("Bearer "));
    let hash = |text: &str| digest::digest(&digest::SHA256, text.as_bytes());
    let (shown, expected) = (hash(shown.unwrap_or_default()), hash(expected.expose()));
    if constant_time::verify_slices_are_equal(shown.as_ref(), expected.as_ref()).is_err() {
        return Err(Refusal::new(Class::CannotAuthenticate, "The token of the webhook is another one").into());
    }
    let jobs = messages
        .0
        .iter()
        .filter_map(|message| events::job_of(message.json().as_bytes()));
    events::told(&door.database, jobs.collect(), &door.tasks.transfers).await?;
    Ok(done())
}
