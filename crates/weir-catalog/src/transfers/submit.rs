//! Submission: plan, mark, call, note.

use futures_util::{StreamExt as _, stream};
use http::StatusCode;
use uuid::Uuid;
use weir_database::Session;
use weir_model::catalog::RequestWait;
use weir_rules::place::End;
use weir_service::time::Millis;
use weir_store::StoreError;

use super::{
    Transfers,
    fts::{Fts, FtsFailure, Kind},
    job::{self, Tokens},
    plan::{self, Copy, SubmissionPlan},
};
use crate::{
    credentials::Credentials,
    requests::{
        self, Attempt, CopyTimes, Ended,
        outgoing::{self, Due, Group, Held, Job},
        slice::Slice,
        uid::Tag,
    },
};

/// Requests that are planned together.
const REQUESTS: usize = 2_000;

/// Jobs that are submitted at the same time.
const JOBS: usize = 4;

/// Requests that wait for something else than a transfer service are looked at again after this time, in milliseconds.
const PAUSE: i64 = 60_000;

/// Requests for which the issuer gave no token are looked at again after this time, in milliseconds. An issuer that is restarted is back
/// within seconds, and a rule with a short lifetime must not end for that.
const TOKEN_PAUSE: i64 = 10_000;

/// A job that is marked, and is to be submitted.
struct Ready {
    job: Job,
    attempts: Vec<Attempt>,
    copies: Vec<Copy>,
    tokens: Tokens,
}

impl Transfers {
    /// Submits requests that are due; whether there may be more.
    pub(super) async fn submit(&mut self) -> Result<bool, StoreError> {
        let (now, in_flight_max) = (self.clock.now(), self.config.in_flight as u64);
        let read = move |session: &mut dyn Session| {
            let (due, is_full) = outgoing::next(session, now, REQUESTS, in_flight_max)?;
            if due.is_empty() {
                return Ok(None);
            }
            let slice = Slice::read(session, &due, now)?;
            Ok(Some((due, slice, is_full)))
        };
        let Some((due, slice, is_full)) = self.database.read(read).await? else {
            return Ok(false);
        };
        let urls = self
            .services
            .iter()
            .map(|service| service.url().to_owned())
            .collect::<Vec<_>>();
        let plan = plan::plan(&due, &slice, &urls);
        let ready = self.mark(plan, &slice).await?;
        self.hand_over(ready, &slice).await?;
        // Requests that go out or wait are not due any more: the next read finds others.
        Ok(is_full)
    }

    /// Submits jobs again whose submission was not recorded.
    pub(super) async fn resume(&mut self) -> Result<bool, StoreError> {
        let now = self.clock.now();
        let read = move |session: &mut dyn Session| {
            let jobs = outgoing::half_submitted(session, REQUESTS)?;
            let all = jobs.iter().flat_map(|(_, due)| due.clone()).collect::<Vec<_>>();
            let slice = if all.is_empty() {
                Slice::default()
            } else {
                Slice::read(session, &all, now)?
            };
            Ok((jobs, slice))
        };
        let (jobs, slice) = self.database.read(read).await?;
        let mut ready = Vec::new();
        for (job, due) in jobs {
            let Some(service) = self.service(&job.service) else {
                // The configuration has it no more.
                self.end(due.iter().map(|one| lost(one.attempt)).collect()).await?;
                continue;
            };
            if service.namespace(now).await.is_some() {
                ready.push(self.again(job, due, &slice).await?);
            }
        }
        let ready = ready.into_iter().flatten().collect::<Vec<_>>();
        self.hand_over(ready, &slice).await?;
        Ok(false)
    }

    /// The same job with the same sources. Requests whose files or RSEs are gone end.
    async fn again(&self, job: Job, due: Vec<Due>, slice: &Slice) -> Result<Option<Ready>, StoreError> {
        let copy = |one: &Due| plan::copy(one, slice, one.source?, &one.hops);
        let copies = due.iter().filter_map(copy).collect::<Vec<_>>();
        let is_gone = |one: &&Due| copies.iter().all(|copy| copy.due.attempt != one.attempt);
        let gone = due
            .iter()
            .filter(is_gone)
            .map(|one| failed(one.attempt, true, "its source is gone"));
        self.end(gone.collect()).await?;
        let attempts = copies.iter().map(|copy| copy.due.attempt).collect::<Vec<_>>();
        if copies.is_empty() {
            return Ok(None);
        }
        match tokens(&self.credentials, &copies, slice).await {
            Ok(tokens) => Ok(Some(Ready {
                job,
                attempts,
                copies,
                tokens,
            })),
            Err(reason) => {
                let delayed = move |session: &mut dyn Session| outgoing::delayed(session, job.id, &reason);
                self.database.write(delayed).await.map(|()| None)
            }
        }
    }

    /// Writes the plan down: requests are marked before they are submitted. Those whose service or storages do not
    /// allow it wait.
    async fn mark(&mut self, plan: SubmissionPlan, slice: &Slice) -> Result<Vec<Ready>, StoreError> {
        let now = self.clock.now();
        let (mut groups, mut all_tokens, mut later) = (Vec::new(), Vec::new(), Vec::new());
        for (group, copies) in plan.groups {
            match self.opened(&group.service, &copies, slice).await {
                Ok((namespace, tokens)) => {
                    groups.push((group, namespace));
                    all_tokens.push((tokens, copies));
                }
                Err((held, pause)) => {
                    let waits = group.members.iter().map(|one| (one.attempt, held.clone()));
                    later.push((waits.collect::<Vec<_>>(), now.saturating_add(pause)));
                }
            }
        }
        later.push((plan.waits, now + PAUSE));
        let (tag, ends) = (self.tag, plan.ends);
        let write = move |session: &mut dyn Session| {
            requests::ended(session, &ends, now)?;
            for (waits, until) in &later {
                outgoing::put_off(session, waits, *until)?;
            }
            let mark =
                |(group, namespace): &(Group, Uuid)| outgoing::submitting(session, group, (tag, *namespace), now);
            groups.iter().map(mark).collect::<Result<Vec<_>, _>>()
        };
        let marked = self.database.write(write).await?.into_iter();
        let ready = marked.zip(all_tokens).filter_map(|(marked, (tokens, mut copies))| {
            let (job, attempts) = marked?;
            copies.retain(|copy| attempts.contains(&copy.due.attempt));
            Some(Ready {
                job,
                attempts,
                copies,
                tokens,
            })
        });
        Ok(ready.collect())
    }

    /// The namespace of a service that takes jobs, and tokens for the storages of one; else a reason, and for how many milliseconds it holds.
    async fn opened(&mut self, url: &str, copies: &[Copy], slice: &Slice) -> Result<(Uuid, Tokens), (Held, i64)> {
        let held = |wait, reason: &str| Held {
            wait,
            reason: reason.to_owned(),
        };
        let unknown = || {
            (
                held(RequestWait::Service, "its transfer service is configured no more"),
                PAUSE,
            )
        };
        let now = self.clock.now();
        let service = self.service(url).ok_or_else(unknown)?;
        let Some(namespace) = service.namespace(now).await else {
            let (reason, left) = service.closed(now).unwrap_or_default();
            let pause = i64::try_from(left.as_millis()).unwrap_or(PAUSE);
            return Err((held(RequestWait::Service, reason), pause));
        };
        let tokens = tokens(&self.credentials, copies, slice).await;
        let without = |reason: String| (held(RequestWait::Token, &reason), TOKEN_PAUSE);
        Ok((namespace, tokens.map_err(without)?))
    }

    /// Submits jobs, and records the result of each.
    async fn hand_over(&mut self, ready: Vec<Ready>, slice: &Slice) -> Result<(), StoreError> {
        let (tag, keeps_tokens) = (self.tag, !self.config.unmanaged_tokens);
        let mut calls = Vec::new();
        for one in ready {
            let Some(service) = self.service(&one.job.service) else {
                continue;
            };
            calls.push((service.fts().clone(), one));
        }
        let calls = calls.into_iter().map(|(fts, one)| async move {
            let answer = call(&fts, &one, slice, (tag, keeps_tokens)).await;
            (one, answer)
        });
        let mut answers = stream::iter(calls).buffer_unordered(JOBS);
        while let Some((one, answer)) = answers.next().await {
            let now = self.clock.now();
            let answer = match self
                .services
                .iter_mut()
                .find(|service| service.url() == one.job.service)
            {
                Some(service) => service.heed_submission(answer, now),
                None => answer,
            };
            note(&self.database, one, answer, now).await?;
        }
        Ok(())
    }

    /// Applies ends of attempts.
    pub(super) async fn end(&self, ends: Vec<Ended>) -> Result<(), StoreError> {
        if ends.is_empty() {
            return Ok(());
        }
        let now = self.clock.now();
        let end = move |session: &mut dyn Session| requests::ended(session, &ends, now);
        self.database.write(end).await.map(drop)
    }
}

fn lost(attempt: Attempt) -> Ended {
    Ended {
        attempt,
        end: End::Lost,
        reason: Some("the catalogue does not use its transfer service any more".to_owned()),
        times: CopyTimes::default(),
    }
}

fn failed(attempt: Attempt, recoverable: bool, reason: &str) -> Ended {
    Ended {
        attempt,
        end: End::Failed {
            recoverable,
            has_other_source: false,
        },
        reason: Some(reason.to_owned()),
        times: CopyTimes::default(),
    }
}

/// Submits a job.
async fn call(fts: &Fts, ready: &Ready, slice: &Slice, (tag, keeps_tokens): (Tag, bool)) -> Result<(), FtsFailure> {
    let gone = || FtsFailure {
        kind: Kind::Refused(StatusCode::BAD_REQUEST),
        message: "an RSE of the job is gone".to_owned(),
    };
    let body = job::submission(&ready.job, &ready.copies, slice, tag, &ready.tokens, keeps_tokens);
    fts.submit(&body.ok_or_else(gone)?).await
}

/// Tokens for the storages of a job; a sentence if there are none.
async fn tokens(credentials: &Credentials, copies: &[Copy], slice: &Slice) -> Result<Tokens, String> {
    let first = copies.first().ok_or("a job without files")?;
    let rse = |rse| slice.sites.get(&rse).ok_or("a job's RSE is gone");
    let way = std::iter::once(first.member.source)
        .chain(first.member.hops.iter().copied())
        .chain([first.due.attempt.at.1]);
    let way = way.map(rse).collect::<Result<Vec<_>, _>>()?;
    let failed = |error| format!("there is no token for a job: {}", weir_auth::error_chain(&error));
    let mut tokens = Tokens::default();
    for (at, ends) in way.windows(2).enumerate() {
        let (read, write) = plan::pair(ends[0], ends[1]).ok_or("a job's RSEs share no protocol")?;
        if at == 0 {
            tokens.source = credentials
                .to_storage(ends[0], read, &["storage.read"])
                .await
                .map_err(failed)?;
        }
        let writes = credentials
            .to_storage(ends[1], write, &["storage.modify", "storage.read"])
            .await;
        let token = writes.map_err(failed)?;
        if at + 2 == way.len() {
            tokens.destination = token;
        } else {
            tokens.hops.push(token);
        }
    }
    Ok(tokens)
}

/// Records the answer of a transfer service about a job. Without a clear answer, the job is submitted once more later.
async fn note(
    database: &weir_database::Database,
    one: Ready,
    answer: Result<(), FtsFailure>,
    now: Millis,
) -> Result<(), StoreError> {
    let job = one.job.id;
    let write = move |session: &mut dyn Session| match &answer {
        Ok(()) => outgoing::submitted(session, job, now),
        Err(failure) if matches!(failure.kind, Kind::Refused(_)) => {
            // In a job of many the reason may lie in another file: each has another attempt, by itself.
            let recoverable = one.attempts.len() > 1;
            let ends = one
                .attempts
                .iter()
                .map(|one| failed(*one, recoverable, &failure.message));
            requests::ended(session, &ends.collect::<Vec<_>>(), now).map(drop)
        }
        Err(failure) => outgoing::delayed(session, job, &failure.message),
    };
    database.write(write).await
}
