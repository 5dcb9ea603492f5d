//! `POST /jobs`, `PUT /jobs`.

use std::{sync::Arc, time::Duration};

use axum::{body::to_bytes, response::Response};
use serde_json::Value;

use crate::state::State;
use crate::{
    CHOICE, ROOM,
    access::{caller::Caller, delegation},
    messages::{
        answer::{Answer, ApiError, ok},
        body::JobBody,
    },
    nodes::relay,
    operation::queue::Sources,
};
use weir_executor::job::{NewFile, SEVERAL_HOPS, SEVERAL_SOURCES};
use weir_fts_api::Submitted;
use weir_service::time::{self, Millis};
use weir_transfer::draft::Draft;
use weir_transfer::{
    cancel,
    driver::{Holdings, NotTaken, Request, Room},
    store::Submission,
};

use crate::jobs::submission::{self, Submitter};

/// How long a submission waits for the scheduler's choice between sources.
const CHOICE_PATIENCE: Duration = Duration::from_secs(2);

/// Takes a job: answers when it is durable.
pub(crate) async fn submit(service: State, caller: Caller, body: JobBody) -> Answer<Response> {
    let now = time::now();
    let (body, place) = body.into_parts();
    let mut draft = read(&service, body, caller.submitter(), now).await?;
    drop(place);
    if draft.needs_proxy() {
        delegation::require(&service, &caller).await?;
    }
    let door = service.settings.door();
    if let Some(se) = door.banned_storage(&draft) {
        return Err(ApiError::forbidden(format!("{se} is banned")));
    }
    door.complete(&mut draft, now);
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
        if let Some(answer) = again(&service, &caller, (id, &draft.files)).await? {
            return Ok(answer);
        }
        Some(reservation)
    } else {
        None
    };
    let files = draft.deterministic.then(|| draft.files.clone());
    let first = service.file_ids(draft.files.len()).await?;
    for (file, number) in draft.files.iter_mut().zip(first..) {
        file.id = number;
    }
    let mut submission = Box::new(Submission::new(draft.job, draft.files, draft.tokens));
    submission.storages = draft.storages;
    submission.one_writer = service.wants_one_writer(&submission.job.vo);
    if let Some(place) = choice(&service, &submission).await {
        submission.live = submission.files.get(place).map(|file| file.id);
    }
    let submission = with_tokens(&service, submission).await?;
    // Goes on if the client leaves: the reservation must last as long as the submission is on its way.
    let driver = service.driver.clone();
    let taken = tokio::spawn(async move {
        let _reservation = reservation;
        driver.ask(|reply| Request::Submit { submission, reply }).await
    });
    let taken = taken
        .await
        .map_err(|_| ApiError::unavailable("The service is stopping"))?;
    if let (Err(NotTaken::Duplicate(_)), Some(files)) = (&taken, &files)
        && let Some(answer) = again(&service, &caller, (id, files)).await?
    {
        return Ok(answer);
    }
    taken?;
    // The scheduler applies its own settings to jobs of other nodes.
    if service.driver.is_taken() && !Arc::ptr_eq(&door, &service.settings.door()) {
        cancel::catch_up(&service, id, &caller.user_dn, &caller.vo).await?;
    }
    Ok(ok(&Submitted { job_id: id }))
}

/// An existing job under the id that was derived from the client's `sid`. A client that repeats its own, identical
/// submission, because the answer did not arrive, gets its id. FTS3 answers 409 then as well.
async fn again(service: &State, caller: &Caller, (id, files): (uuid::Uuid, &[NewFile])) -> Answer<Option<Response>> {
    let found = service.read(move |store| match store.job(id)? {
        Some(job) => Ok(Some((job, store.files(id)?))),
        None => Ok(None),
    });
    let Some((job, known)) = found.await? else {
        return Ok(None);
    };
    let moves = |file: &NewFile| {
        (
            file.index,
            file.source.clone(),
            file.destination.clone(),
            file.checksum.clone(),
        )
    };
    let is_same = caller.owns(&job) && known.iter().map(|file| moves(&file.spec)).eq(files.iter().map(moves));
    if is_same {
        Ok(Some(ok(&Submitted { job_id: id })))
    } else {
        Err(ApiError::duplicate_sid())
    }
}

/// Looks at the tokens and seals them: here, and not on the store's one thread of writing.
async fn with_tokens(service: &State, mut submission: Box<Submission>) -> Answer<Box<Submission>> {
    let (of, tokens) = (service.0.clone(), submission.tokens.len());
    let look = move || {
        let expiring = of.refresher.expiring(&submission.job, &submission.tokens);
        submission.expiring = expiring.map_err(ApiError::bad_request)?;
        of.store.seal(&mut submission);
        Ok(submission)
    };
    if tokens <= READ_HERE {
        return look();
    }
    tokio::task::spawn_blocking(look)
        .await
        .map_err(|_| ApiError::unavailable("The service is stopping"))?
}

/// Asks the scheduler, if it is elsewhere, with which of its sources a file begins. While there is none, it is the first.
async fn choice(service: &State, submission: &Submission) -> Option<usize> {
    let membership = service.membership.as_ref().filter(|_| !service.driver.is_taken())?;
    if submission.job.kind != SEVERAL_SOURCES {
        return None;
    }
    let sources = Sources {
        strategy: submission.job.params.selection_strategy.clone(),
        size: submission
            .files
            .iter()
            .filter_map(|file| file.user_filesize)
            .max()
            .unwrap_or_default(),
        links: links(&submission.files),
    };
    let asked = tokio::time::timeout(CHOICE_PATIENCE, relay::ask(membership, CHOICE, &sources));
    let answer = asked.await.ok()?.ok().filter(|answer| answer.status().is_success())?;
    let body = to_bytes(answer.into_body(), 1024).await.ok()?;
    let answer = serde_json::from_slice::<Value>(&body).ok()?;
    usize::try_from(answer["place"].as_u64()?).ok()
}

fn links(files: &[NewFile]) -> Vec<(String, String)> {
    let link = |file: &NewFile| (file.source.se(), file.destination.se());
    files.iter().map(link).collect()
}

/// Files of a job that are read on the runtime's thread: some milliseconds. More are read on the blocking pool.
const READ_HERE: usize = 500;

async fn read(service: &State, body: Value, who: Submitter, now: Millis) -> Answer<Draft> {
    let n_files = body.get("files").and_then(Value::as_array).map_or(0, Vec::len);
    if n_files <= READ_HERE {
        return Ok(submission::read(&body, &who, &service.submission, now)?);
    }
    let limits = service.submission.clone();
    let read = tokio::task::spawn_blocking(move || submission::read(&body, &who, &limits, now));
    let draft = read
        .await
        .map_err(|_| ApiError::unavailable("The service is stopping"))?;
    Ok(draft?)
}

/// If the scheduler is elsewhere: its refusal, if there is no room. It is not asked as long as there surely is: a node takes jobs also
/// while there is no scheduler.
async fn room(service: &State, draft: &Draft) -> Answer<Option<Response>> {
    let Some(membership) = service.membership.as_ref().filter(|_| !service.driver.is_taken()) else {
        return Ok(None);
    };
    let limits = &service.config.limits;
    if limits.queues.is_none()
        && membership.finds_room(draft.files.len(), &draft.storages, &draft.links, Holdings::of(limits))
    {
        return Ok(None);
    }
    let room = Room {
        vo: draft.job.vo.clone(),
        client: draft.job.cred_id.clone(),
        at: draft.job.submitted,
        links: links(&draft.files),
        route: matches!(draft.job.kind, SEVERAL_SOURCES | SEVERAL_HOPS),
    };
    let answer = relay::ask(membership, ROOM, &room).await?;
    Ok((!answer.status().is_success()).then_some(answer))
}
