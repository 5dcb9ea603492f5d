//! The job of a transfer service, as Rucio writes it.

use serde_json::{Value, json};
use weir_auth::Secret;
use weir_fts_api::{NewTransfer, Params, Submission};
use weir_model::catalog::RseType;

use super::plan::Copy;
use crate::requests::{outgoing::Job, slice::Slice, uid::Tag};

/// How long a file that was recalled from tape stays there for its transfer, in seconds (Rucio).
const BRING_ONLINE: u32 = 43_200;

/// Hours after which a transfer that has not begun is given up (Rucio).
const HOURS_IN_QUEUE: u32 = 168;

/// Tokens for the storages of a job.
#[derive(Debug, Clone, Default)]
pub(super) struct Tokens {
    /// To read the source.
    pub(super) source: Option<Secret>,
    /// To write and read the RSEs in between.
    pub(super) hops: Vec<Option<Secret>>,
    /// To write the destination.
    pub(super) destination: Option<Secret>,
}

/// The content of `POST /jobs`. All copies have the same source, destination, activity, account and priority.
pub(super) fn submission(
    job: &Job,
    copies: &[Copy],
    slice: &Slice,
    tag: Tag,
    tokens: &Tokens,
    keeps_tokens: bool,
) -> Option<Submission> {
    let first = &copies.first()?.due;
    let is_tape = |rse| Some(slice.sites.get(&rse)?.described.rse.traits.kind == RseType::Tape);
    let (from_tape, to_tape) = (is_tape(copies.first()?.member.source)?, is_tape(first.attempt.at.1)?);
    let files = match copies {
        [copy] if !copy.hop_urls.is_empty() => hops(copy, slice, tag, tokens)?,
        copies => {
            let all = copies.iter().map(|copy| file(copy, slice, tag, tokens));
            all.collect::<Option<Vec<_>>>()?
        }
    };
    let destination = &slice.sites.get(&first.attempt.at.1)?.described;
    let archive_timeout = destination.attributes.get("archive_timeout").filter(|_| to_tape);
    let mut metadata = json!({ "issuer": "rucio", "multi_sources": false, "catalogue": "weir" });
    let multihop = copies.iter().any(|copy| !copy.hop_urls.is_empty());
    if multihop {
        metadata["multihop"] = true.into();
    }
    let params = Params {
        account: Some(first.account.clone()),
        verify_checksum: Some("both"),
        overwrite: Some(destination.rse.traits.kind == RseType::Disk),
        priority: Some(first.priority),
        max_time_in_queue: Some(HOURS_IN_QUEUE),
        id_generator: Some("deterministic"),
        sid: Some(job.sid.clone()),
        job_metadata: Some(metadata),
        bring_online: from_tape.then_some(BRING_ONLINE),
        dst_file_report: to_tape.then_some(true),
        archive_timeout: archive_timeout.map(|limit| limit.parse()).transpose().ok()?,
        multihop: multihop.then_some(true),
        unmanaged_tokens: (!keeps_tokens).then_some(true),
        ..Params::default()
    };
    Some(Submission { files, params })
}

/// The hops of a copy, in order: the last one is the request's.
fn hops(copy: &Copy, slice: &Slice, tag: Tag, tokens: &Tokens) -> Option<Vec<NewTransfer>> {
    let whole = file(copy, slice, tag, tokens)?;
    let urls = std::iter::once(&copy.source_url)
        .chain(&copy.hop_urls)
        .chain([&copy.destination_url])
        .collect::<Vec<_>>();
    let tokens = std::iter::once(&tokens.source)
        .chain(&tokens.hops)
        .chain([&tokens.destination])
        .collect::<Vec<_>>();
    let n_steps = urls.len() - 1;
    let step = |at: usize| {
        let token = |at: usize| tokens.get(at).into_iter().copied().flatten().cloned().collect();
        let mut step = NewTransfer {
            sources: vec![urls[at].clone()],
            destinations: vec![urls[at + 1].clone()],
            source_tokens: token(at),
            destination_tokens: token(at + 1),
            ..whole.clone()
        };
        if at + 1 < n_steps
            && let Some(metadata) = &mut step.metadata
        {
            // Its end is none of the request's.
            metadata["request_id"] = Value::Null;
        }
        step
    };
    Some((0..n_steps).map(step).collect())
}

fn file(copy: &Copy, slice: &Slice, tag: Tag, tokens: &Tokens) -> Option<NewTransfer> {
    let attempt = copy.due.attempt;
    let file = slice.files.get(&attempt.at.0)?;
    let (from, to) = (
        &slice.sites.get(&copy.member.source)?.described.rse,
        &slice.sites.get(&attempt.at.1)?.described.rse,
    );
    let sums = [("ADLER32", &file.adler32), ("MD5", &file.md5)];
    let checksum = sums
        .into_iter()
        .find_map(|(name, sum)| Some(format!("{name}:{}", sum.as_ref()?)));
    Some(NewTransfer {
        sources: vec![copy.source_url.clone()],
        destinations: vec![copy.destination_url.clone()],
        source_tokens: tokens.source.iter().cloned().collect(),
        destination_tokens: tokens.destination.iter().cloned().collect(),
        checksum,
        filesize: file.bytes,
        activity: Some(copy.due.activity.clone()),
        selection_strategy: Some("orderly".to_owned()),
        metadata: Some(json!({
            "request_id": tag.uid(attempt.request, attempt.number), "scope": file.did.scope, "name": file.did.name,
            "activity": copy.due.activity, "request_type": "TRANSFER", "src_type": from.traits.kind, "dst_type": to.traits.kind,
            "src_rse": from.name, "dst_rse": to.name, "src_rse_id": from.uid, "dest_rse_id": to.uid, "filesize": file.bytes,
            "md5": file.md5, "adler32": file.adler32,
        })),
        ..NewTransfer::default()
    })
}
