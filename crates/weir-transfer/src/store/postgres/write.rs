//! Writing: a batch is one transaction, and each kind of change in it one statement for all of its files.

use std::collections::{HashMap, HashSet};

use serde_json::value::RawValue;
use tokio_postgres::types::Type;
use uuid::Uuid;
use weir_store::postgres::{PATIENCE, Session, Values, wait};

use super::{
    destinations, renewals,
    rows::Rows,
    tally::Tally,
    text::{clean, optional, text},
    urls,
};
use weir_executor::job::{TokenHash, job_state_code};

use crate::store::{Change, Conflict, Sealer, StoreError, Submission};

/// Records jobs submitted at a node without the scheduler, for the scheduler. False: there are none.
pub(super) fn with_arrivals(session: &mut Session, changes: &[&Change]) -> Result<bool, StoreError> {
    let number = |change: &&Change| match change {
        Change::Submit(submission) => Some(number_of(submission)),
        _ => None,
    };
    let numbers = changes.iter().filter_map(number).collect::<Vec<_>>();
    if numbers.is_empty() {
        return Ok(false);
    }
    let text = "INSERT INTO arrivals SELECT * FROM unnest($1::bigint[]) ON CONFLICT DO NOTHING";
    session.execute(text, &[&numbers]).map(|_| true)
}

/// A batch, sorted: submissions first, as nothing can be about a file before its submission; then rounds, in each of which no file is
/// changed twice.
pub(super) struct BatchPlan<'a> {
    submissions: Vec<&'a Submission>,
    rounds: Vec<Vec<&'a Change>>,
}

impl<'a> BatchPlan<'a> {
    pub(super) fn of(changes: impl IntoIterator<Item = &'a Change>) -> Self {
        let (mut submissions, mut rounds) = (Vec::new(), Vec::<Vec<&Change>>::new());
        // The first round in which this file may be changed again; jobs and settings likewise.
        let (mut files, mut jobs, mut settings) = (HashMap::new(), HashMap::new(), HashMap::new());
        // The last round with a claim: a release reads the claims of other files, in the same round or later.
        let mut claims = 0;
        for change in changes {
            let mut own = Vec::new();
            let mut round = 0;
            match change {
                Change::Submit(submission) => {
                    submissions.push(submission.as_ref());
                    continue;
                }
                Change::Begin { file, .. }
                | Change::Again { file, .. }
                | Change::End { file, .. }
                | Change::Metadata { file, .. }
                | Change::Advance { file, .. }
                | Change::Claim { file, .. } => own.push(*file),
                Change::Release { file } => {
                    own.push(*file);
                    round = claims;
                }
                Change::Cancel {
                    job, settled, stopping, ..
                } => {
                    own.extend(settled.iter().chain(stopping));
                    round = *jobs.get(job).unwrap_or(&0);
                    jobs.insert(*job, round + 1);
                }
                Change::Requested { files, .. } | Change::Unpinned { files } | Change::Force { files } => {
                    own.extend(files);
                }
                Change::Priority { job, .. } => {
                    round = *jobs.get(job).unwrap_or(&0);
                    jobs.insert(*job, round + 1);
                }
                Change::Setting { key, .. } => {
                    round = *settings.get(key).unwrap_or(&0);
                    settings.insert(key, round + 1);
                }
            }
            for file in &own {
                round = round.max(*files.get(file).unwrap_or(&0));
            }
            for file in own {
                files.insert(file, round + 1);
            }
            if matches!(change, Change::Claim { .. }) {
                claims = claims.max(round);
            }
            if rounds.len() <= round {
                rounds.resize_with(round + 1, Vec::new);
            }
            rounds[round].push(change);
        }
        Self { submissions, rounds }
    }

    pub(super) fn write(&self, session: &mut Session, sealer: &Sealer) -> Result<(), StoreError> {
        if !self.submissions.is_empty() {
            submit(session, sealer, &self.submissions)?;
        }
        let mut tally = Tally::default();
        for round in &self.rounds {
            Rows::of(round).write(session, &mut tally)?;
        }
        tally.settle(session)
    }
}

const JOBS: &str = "INSERT INTO jobs (job_no, job_id, kind, user_dn, cred_id, vo, priority, submitted, expires, source_se, dest_se,
        params, metadata, n_files, state)
    SELECT new.* FROM unnest($1::bigint[], $2::uuid[], $3::text[], $4::text[], $5::text[], $6::text[], $7::smallint[], $8::bigint[],
        $9::bigint[], $10::text[], $11::text[], $12::text[], $13::text[], $14::bigint[], $15::smallint[])
        AS new (job_no, job_id, kind, user_dn, cred_id, vo, priority, submitted, expires, source_se, dest_se, params, metadata, n_files,
        state)
    WHERE NOT EXISTS (SELECT 1 FROM history WHERE history.job_id = new.job_id)
    ON CONFLICT (job_id) DO NOTHING RETURNING job_no";

const FILES: &str =
    "COPY files (file_id, job_no, size, src_token, dst_token, scitag, source, dest, checksum, activity, strategy,
    metadata, staging, archive, state) FROM STDIN (FORMAT binary)";

const FILE_TYPES: [Type; 15] = [
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT8,
    Type::INT4,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT2,
];

pub(super) fn number_of(submission: &Submission) -> i64 {
    submission.files.first().map_or(0, |file| file.id as i64)
}

fn submit(session: &mut Session, sealer: &Sealer, submissions: &[&Submission]) -> Result<(), StoreError> {
    insert_jobs(session, submissions)?;
    let tokens = renewals::tokens(session, sealer, submissions)?;
    copy_files(session, submissions, &tokens)?;
    urls::keep(session, sealer, submissions)?;
    destinations::claim(session, submissions)?;
    let ids = submissions
        .iter()
        .flat_map(|submission| &submission.files)
        .map(|file| file.id);
    let next = ids.max().map_or(0, |last| last as i64 + 1);
    // Nodes reserve ids before they use them: usually no update is needed, and no transaction waits for the row.
    session.execute("UPDATE ids SET next_file = $1 WHERE next_file < $1", &[&next])?;
    Ok(())
}

fn insert_jobs(session: &mut Session, submissions: &[&Submission]) -> Result<(), StoreError> {
    let column = |of: fn(&Submission) -> String| submissions.iter().map(|job| of(job)).collect::<Vec<_>>();
    let maybe = |of: fn(&Submission) -> Option<String>| submissions.iter().map(|job| of(job)).collect::<Vec<_>>();
    let numbers = submissions.iter().map(|job| number_of(job)).collect::<Vec<_>>();
    let ids = submissions.iter().map(|job| job.job.id).collect::<Vec<_>>();
    let params = submissions.iter().map(|job| serde_json::to_string(&job.job.params));
    let params = params
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| StoreError::Broken(error.into()))?;
    let priorities = submissions
        .iter()
        .map(|job| i16::from(job.job.priority))
        .collect::<Vec<_>>();
    let submitted = submissions.iter().map(|job| job.job.submitted).collect::<Vec<_>>();
    let expires = submissions
        .iter()
        .map(|job| job.job.params.max_time_in_queue)
        .collect::<Vec<_>>();
    let n_files = submissions.iter().map(|job| job.files.len() as i64).collect::<Vec<_>>();
    let states = submissions
        .iter()
        .map(|job| job_state_code(job.first_job_state()) as i16);
    let states = states.collect::<Vec<_>>();
    let values: Values<'_> = &[
        &numbers,
        &ids,
        &column(|job| job.job.kind.to_string()),
        &column(|job| text(&job.job.user_dn)),
        &column(|job| text(&job.job.cred_id)),
        &column(|job| text(&job.job.vo)),
        &priorities,
        &submitted,
        &expires,
        &maybe(|job| optional(job.job.source_se.as_deref())),
        &maybe(|job| optional(job.job.dest_se.as_deref())),
        &params,
        &maybe(|job| job.job.metadata.as_ref().map(|raw| raw.get().to_owned())),
        &n_files,
        &states,
    ];
    let taken = session.query(JOBS, values)?;
    if taken.len() == submissions.len() {
        return Ok(());
    }
    let taken = taken.iter().map(|row| row.get::<_, i64>(0)).collect::<HashSet<_>>();
    let refused = submissions.iter().find(|job| !taken.contains(&number_of(job)));
    Err(Conflict::Duplicate(refused.map_or(Uuid::nil(), |job| job.job.id)).into())
}

fn copy_files(
    session: &mut Session,
    submissions: &[&Submission],
    tokens: &HashMap<TokenHash, i64>,
) -> Result<(), StoreError> {
    let statement = session.prepare(FILES)?;
    let client = session.client()?;
    let copy = async {
        let sink = client.copy_in(&statement).await?;
        let writer = tokio_postgres::binary_copy::BinaryCopyInWriter::new(sink, &FILE_TYPES);
        let mut writer = std::pin::pin!(writer);
        for submission in submissions {
            let number = number_of(submission);
            for file in &submission.files {
                let token = |hash: Option<TokenHash>| hash.and_then(|hash| tokens.get(&hash).copied());
                let values: Values<'_> = &[
                    &(file.id as i64),
                    &number,
                    &file.user_filesize.map(|size| size as i64),
                    &token(file.source_token),
                    &token(file.destination_token),
                    &file.scitag.map(|scitag| scitag as i32),
                    &file.source.as_str(),
                    &file.destination.as_str(),
                    &clean(&file.checksum),
                    &clean(&file.activity),
                    &clean(&file.selection_strategy),
                    &file.metadata.as_deref().map(RawValue::get),
                    &file.staging_metadata.as_deref().map(RawValue::get),
                    &file.archive_metadata.as_deref().map(RawValue::get),
                    &(submission.first_state(file).code() as i16),
                ];
                writer.as_mut().write(values).await?;
            }
        }
        writer.finish().await
    };
    wait(copy, PATIENCE)??;
    Ok(())
}
