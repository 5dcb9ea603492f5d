//! The job of a transfer service, as Rucio writes it.

use serde_json::{Value, json};
use weir_auth::Secret;
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

/// The body of `POST /jobs`. All copies have the same source, destination, activity, account and priority.
pub(super) fn body(
    job: &Job,
    copies: &[Copy],
    slice: &Slice,
    tag: Tag,
    tokens: &Tokens,
    keeps_tokens: bool,
) -> Option<Value> {
    let first = &copies.first()?.due;
    let source = slice.sites.get(&copies.first()?.member.source)?;
    let files = match copies {
        [copy] if !copy.hop_urls.is_empty() => hops(copy, slice, tag, tokens)?,
        copies => {
            let all = copies.iter().map(|copy| file(copy, slice, tag, tokens));
            all.collect::<Option<Vec<_>>>()?
        }
    };
    let destination = slice.sites.get(&first.attempt.at.1)?;
    let mut params = json!({
        "account": first.account,
        "verify_checksum": "both",
        "overwrite": destination.described.rse.traits.kind == RseType::Disk,
        "priority": first.priority,
        "max_time_in_queue": HOURS_IN_QUEUE,
        "id_generator": "deterministic",
        "sid": job.sid,
        "job_metadata": { "issuer": "rucio", "multi_sources": false, "catalogue": "weir" },
    });
    if source.described.rse.traits.kind == RseType::Tape {
        params["bring_online"] = BRING_ONLINE.into();
    }
    if destination.described.rse.traits.kind == RseType::Tape {
        params["dst_file_report"] = true.into();
        if let Some(limit) = destination.described.attributes.get("archive_timeout") {
            params["archive_timeout"] = limit.parse::<u64>().ok()?.into();
        }
    }
    if copies.iter().any(|copy| !copy.hop_urls.is_empty()) {
        params["multihop"] = true.into();
        params["job_metadata"]["multihop"] = true.into();
    }
    if !keeps_tokens {
        params["unmanaged_tokens"] = true.into();
    }
    Some(json!({ "params": params, "files": files }))
}

/// The hops of a copy, in order: the last one is the request's.
fn hops(copy: &Copy, slice: &Slice, tag: Tag, tokens: &Tokens) -> Option<Vec<Value>> {
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
        let mut step = whole.clone();
        step["sources"] = json!([urls[at]]);
        step["destinations"] = json!([urls[at + 1]]);
        for (key, token) in [
            ("source_tokens", tokens.get(at)),
            ("destination_tokens", tokens.get(at + 1)),
        ] {
            if let Some(Some(token)) = token {
                step[key] = json!([token.expose()]);
            }
        }
        if at + 1 < n_steps {
            // Its end is none of the request's.
            step["metadata"]["request_id"] = Value::Null;
        }
        step
    };
    Some((0..n_steps).map(step).collect())
}

fn file(copy: &Copy, slice: &Slice, tag: Tag, tokens: &Tokens) -> Option<Value> {
    let attempt = copy.due.attempt;
    let file = slice.files.get(&attempt.at.0)?;
    let (from, to) = (
        &slice.sites.get(&copy.member.source)?.described.rse,
        &slice.sites.get(&attempt.at.1)?.described.rse,
    );
    let mut value = json!({
        "sources": [copy.source_url],
        "destinations": [copy.destination_url],
        "activity": copy.due.activity,
        "selection_strategy": "orderly",
        "metadata": {
            "request_id": tag.uid(attempt.request, attempt.number), "scope": file.did.scope, "name": file.did.name,
            "activity": copy.due.activity, "request_type": "TRANSFER", "src_type": from.traits.kind, "dst_type": to.traits.kind,
            "src_rse": from.name, "dst_rse": to.name, "src_rse_id": from.uid, "dest_rse_id": to.uid, "filesize": file.bytes,
            "md5": file.md5, "adler32": file.adler32,
        },
    });
    if let Some(bytes) = file.bytes {
        value["filesize"] = bytes.into();
    }
    let sums = [("ADLER32", &file.adler32), ("MD5", &file.md5)];
    if let Some((name, Some(sum))) = sums.into_iter().find(|(_, sum)| sum.is_some()) {
        value["checksum"] = format!("{name}:{sum}").into();
    }
    for (key, token) in [
        ("source_tokens", &tokens.source),
        ("destination_tokens", &tokens.destination),
    ] {
        if let Some(token) = token {
            value[key] = json!([token.expose()]);
        }
    }
    Some(value)
}
