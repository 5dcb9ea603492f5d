//! `POST /jobs`, `PUT /jobs`.

use std::sync::Arc;

use axum::response::Response;
use serde_json::json;

use super::{
    ROOM, State,
    answer::{Answer, ApiError, ok},
    ban,
    body::JsonBody,
    caller::Caller,
    delegation,
};
use crate::{
    driver::{Request, Room},
    nodes,
    store::Submission,
    submission::{self, Draft},
    surl::Surl,
    time,
};

/// Takes a job: answers when it is durable.
pub(super) async fn submit(service: State, caller: Caller, JsonBody(body): JsonBody) -> Answer<Response> {
    let now = time::now();
    let mut draft = submission::read(&body, &caller.submitter(), &service.submission, now)?;
    if draft.needs_proxy() {
        if draft.asks_tape() {
            // They would wait in the queue, and then be refused by every storage.
            return Err(ApiError::bad_request(
                "Tape is not asked with a delegated proxy: give source_tokens and destination_tokens, or leave out \
                 bring_online, copy_pin_lifetime and archive_timeout",
            ));
        }
        delegation::require(&service, &caller).await?;
    }
    let door = service.settings.door();
    if let Some(se) = door.banned_storage(&draft) {
        return Err(ApiError::forbidden(format!("{se} is banned")));
    }
    door.complete(&mut draft, now);
    drop(body);
    if let Some(refused) = room(&service, &draft).await? {
        return Ok(refused);
    }
    let id = draft.job.id;
    // Two submissions of one sid at the same time: one takes the reservation, later ones find the job in the store. Meanwhile 409
    // would promise a job that may yet be refused.
    let reservation = if draft.deterministic {
        let reservation = service
            .reserve(id)
            .ok_or_else(|| ApiError::unavailable("A submission with this sid is under way; ask again"))?;
        if service.read(move |store| store.job(id)).await?.is_some() {
            return Err(ApiError::duplicate_sid());
        }
        Some(reservation)
    } else {
        None
    };
    let first = service.file_ids(draft.files.len()).await?;
    for (file, number) in draft.files.iter_mut().zip(first..) {
        file.id = number;
    }
    let submission = Box::new(Submission::new(draft.job, draft.files, draft.tokens));
    // Goes on if the client leaves: the reservation must last as long as the submission is on its way.
    let driver = service.driver.clone();
    let taken = tokio::spawn(async move {
        let _reservation = reservation;
        driver.ask(|reply| Request::Submit { submission, reply }).await
    });
    taken
        .await
        .map_err(|_| ApiError::unavailable("The service is stopping"))??;
    // What came in elsewhere the scheduler takes with its own settings.
    if service.driver.is_taken() && !Arc::ptr_eq(&door, &service.settings.door()) {
        ban::catch_up(&service, id, &caller).await?;
    }
    Ok(ok(&json!({ "job_id": id })))
}

/// Asks the scheduler, if it is elsewhere and queues have limits, whether there is room: its refusal, if there is none.
async fn room(service: &State, draft: &Draft) -> Answer<Option<Response>> {
    let Some(membership) = service.membership.as_ref().filter(|_| !service.driver.is_taken()) else {
        return Ok(None);
    };
    if service.queues.is_none() {
        return Ok(None);
    }
    let se = |url: &str| Surl::parse(url).map_or_else(|_| url.to_owned(), |surl| surl.se());
    let room = Room {
        vo: draft.job.vo.clone(),
        client: draft.job.cred_id.clone(),
        at: draft.job.submitted,
        links: draft
            .files
            .iter()
            .map(|file| (se(&file.source), se(&file.destination)))
            .collect(),
    };
    let answer = nodes::ask(membership, ROOM, &room).await?;
    Ok((!answer.status().is_success()).then_some(answer))
}
