//! The `files` of a submission.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weir_auth::Secret;
use weir_sched::Strategy;
use weir_units::{Algorithm, Checksum};

use super::{
    Refusal, SubmissionLimits, Submitter,
    values::{self, Object},
};
use weir_executor::{
    job::{NewFile, SIZE_MAX, TokenHash, hash_of},
    surl::{Surl, SurlError},
};

/// Bytes of a URL. FTS3: 1100 for a path; signed URLs are longer.
const URL_MAX: usize = 8 * 1024;

/// Storage elements, and activities, that one job may name: each is remembered for as long as the service runs.
const STORAGES_MAX: usize = 500;
const ACTIVITIES_MAX: usize = 100;

type Tokens = BTreeMap<TokenHash, Secret>;

/// A file, with data that only the submission needs.
pub(super) struct FileEntry {
    file: NewFile,
    /// Even a bare algorithm name counts, as in FTS3.
    pub(super) checksum_given: bool,
}

impl FileEntry {
    /// Its place among the files of the job.
    pub(super) fn index(&self) -> u32 {
        self.file.index
    }

    pub(super) fn into_file(self) -> NewFile {
        self.file
    }
}

pub(super) fn files(
    submitted: &[Value],
    user: &Submitter,
    limits: &SubmissionLimits,
) -> Result<(Vec<FileEntry>, Tokens), Refusal> {
    let mut tokens = Tokens::new();
    let mut entries = Vec::with_capacity(submitted.len());
    let fallback = api_token(submitted, user, &mut tokens);
    for (index, file) in submitted.iter().enumerate() {
        let Value::Object(file) = file else {
            return Err(Refusal::malformed("a file is not an object"));
        };
        entries.append(&mut self::entries(file, index as u32, fallback, &mut tokens, limits)?);
    }
    Ok((entries, tokens))
}

/// A job without any token of its own uses the API token for all.
fn api_token(submitted: &[Value], user: &Submitter, tokens: &mut Tokens) -> Option<TokenHash> {
    let token = user.token.as_ref()?;
    let own = submitted.iter().any(|file| {
        ["source_tokens", "destination_tokens"]
            .iter()
            .any(|key| file.get(key).is_some_and(|v| !values::is_empty(v)))
    });
    (!own).then(|| remember(token.expose(), tokens))
}

fn remember(token: &str, tokens: &mut Tokens) -> TokenHash {
    let hash = hash_of(token);
    tokens.entry(hash).or_insert_with(|| Secret::new(token));
    hash
}

/// One entry of the submission: a file for each of its sources.
fn entries(
    file: &Object,
    index: u32,
    fallback: Option<TokenHash>,
    tokens: &mut Tokens,
    limits: &SubmissionLimits,
) -> Result<Vec<FileEntry>, Refusal> {
    let sources = strings(file, "sources")?;
    let destinations = strings(file, "destinations")?;
    let destination = match destinations.as_slice() {
        [] => return Err(Refusal::bad("No valid pairs available")),
        [destination] => url(destination, limits)?,
        _ => {
            return Err(Refusal::bad(
                "File transfers with multiple destinations are not allowed.",
            ));
        }
    };
    let sources = sources.iter().map(|source| url(source, limits));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let Some(first) = sources.first() else {
        return Err(Refusal::bad("No valid pairs available"));
    };
    let own = own_tokens(file, &sources, &destination, tokens)?;
    let (checksum, checksum_given) = checksum(file)?;
    let other = limits.other_metadata;
    let common = NewFile {
        index,
        checksum,
        user_filesize: filesize(file)?,
        activity: values::text(file, "activity")?.unwrap_or_else(|| "default".to_owned()),
        selection_strategy: strategy(file)?,
        scitag: scitag(file)?,
        metadata: values::metadata(file.get("metadata"), "File metadata", limits.file_metadata, false)?,
        staging_metadata: values::metadata(file.get("staging_metadata"), "Staging metadata", other, true)?,
        archive_metadata: values::metadata(file.get("archive_metadata"), "Archive metadata", other, true)?,
        source_token: fallback,
        destination_token: fallback,
        ..NewFile::new(first, &destination)
    };
    let mut entries = Vec::with_capacity(sources.len());
    for (place, source) in sources.iter().enumerate() {
        let mut file = common.clone();
        file.set_urls(source, &destination);
        if let Some((of_sources, of_destination)) = &own {
            (file.source_token, file.destination_token) = (Some(of_sources[place]), Some(*of_destination));
        }
        entries.push(FileEntry { file, checksum_given });
    }
    Ok(entries)
}

fn url(text: &str, limits: &SubmissionLimits) -> Result<Surl, Refusal> {
    checked(text, limits, Surl::parse)
}

/// A URL at a storage for a request about its namespace: of the same kinds as those of files, and it may be the
/// storage's root.
///
/// # Errors
/// As a submission with such a file.
pub(crate) fn place(text: &str, limits: &SubmissionLimits) -> Result<Surl, Refusal> {
    checked(text, limits, Surl::parse_place)
}

fn checked(text: &str, limits: &SubmissionLimits, parse: fn(&str) -> Result<Surl, SurlError>) -> Result<Surl, Refusal> {
    if text.len() > URL_MAX {
        let length = text.len();
        return Err(Refusal::invalid(format!(
            "a URL has {length} bytes, at most {URL_MAX} are taken"
        )));
    }
    let url = parse(text).map_err(Refusal::invalid)?;
    if !url.scheme().is_encrypted() && !limits.plain_http {
        return Err(Refusal::invalid(SurlError::Unencrypted(url.redacted())));
    }
    Ok(url)
}

/// The storage elements of a job's files, each once.
///
/// # Errors
/// If they, or the activities, are too many for one job.
pub(super) fn storages(files: &[NewFile]) -> Result<Vec<String>, Refusal> {
    let activities = files.iter().map(|file| file.activity.as_str()).collect::<BTreeSet<_>>();
    let urls = files.iter().flat_map(|file| [&file.source, &file.destination]);
    let storages = urls.map(Surl::storage).collect::<BTreeSet<_>>();
    for (n, most, what) in [
        (storages.len(), STORAGES_MAX, "storage elements"),
        (activities.len(), ACTIVITIES_MAX, "activities"),
    ] {
        if n > most {
            return Err(Refusal::bad(format!(
                "The files of one job name {n} {what}, at most {most} are taken; split the job"
            )));
        }
    }
    Ok(storages.iter().map(ToString::to_string).collect())
}

/// The links that a job's files use, each once.
///
/// # Errors
/// If they are more than `most`.
pub(super) fn links(files: &[NewFile], most: usize) -> Result<Vec<(String, String)>, Refusal> {
    let links = files
        .iter()
        .map(|file| (file.source.storage(), file.destination.storage()));
    let links = links.collect::<BTreeSet<_>>();
    if links.len() > most {
        let n = links.len();
        return Err(Refusal::bad(format!(
            "The files of one job use {n} links between storage elements, at most {most} are taken; split the job"
        )));
    }
    let named = links.iter().map(|(from, to)| (from.to_string(), to.to_string()));
    Ok(named.collect())
}

fn strings<'a>(file: &'a Object, key: &str) -> Result<Vec<&'a str>, Refusal> {
    let Some(Value::Array(items)) = values::get(file, key) else {
        return Err(Refusal::malformed(format!("'{key}' is missing or not an array")));
    };
    items
        .iter()
        .map(|item| {
            item.as_str()
                .ok_or_else(|| Refusal::malformed(format!("'{key}' holds something that is no string")))
        })
        .collect()
}

/// The tokens of the sources, and of the destination, if the file brings any.
type OwnTokens = Option<(Vec<TokenHash>, TokenHash)>;

fn own_tokens(file: &Object, sources: &[Surl], destination: &Surl, tokens: &mut Tokens) -> Result<OwnTokens, Refusal> {
    let given = |key| values::get(file, key).is_some_and(|value| !values::is_empty(value));
    match (given("source_tokens"), given("destination_tokens")) {
        (false, false) => return Ok(None),
        (true, true) => {}
        _ => {
            return Err(Refusal::bad(
                "Both source_tokens and destination_tokens are required if one of them is present.",
            ));
        }
    }
    let one = |key: &str, item: &Value, of: &str| match item {
        Value::String(token) if is_sendable(token) => Ok(token.trim().to_owned()),
        Value::String(token) if !token.is_empty() => Err(Refusal::invalid(format!(
            "a token in {key} holds characters that a header cannot carry"
        ))),
        Value::String(_) | Value::Null => Err(Refusal::bad(format!("Token for {of} is missing."))),
        _ => Err(Refusal::bad(format!("A token in {key} is not a string"))),
    };
    let all = |key: &str, n: usize| match values::get(file, key) {
        Some(Value::Array(items)) if items.len() == n => Ok(items),
        _ => Err(Refusal::bad(format!(
            "Length of {key} should be equal to the length of {}.",
            key.replace("_tokens", "s")
        ))),
    };
    let of_sources = all("source_tokens", sources.len())?;
    let of_destination = all("destination_tokens", 1)?;
    let read = |(token, source): (&Value, &Surl)| one("source_tokens", token, &format!("source '{source}'"));
    let of_sources = of_sources
        .iter()
        .zip(sources)
        .map(read)
        .collect::<Result<Vec<_>, _>>()?;
    let of_destination = one(
        "destination_tokens",
        &of_destination[0],
        &format!("destination '{destination}'"),
    )?;
    let of_sources = of_sources.iter().map(|token| remember(token, tokens)).collect();
    Ok(Some((of_sources, remember(&of_destination, tokens))))
}

fn is_sendable(token: &str) -> bool {
    let token = token.trim();
    !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic())
}

/// `ALGORITHM` or `ALGORITHM:value`. The text is kept as the client wrote it; only its meaning is checked.
fn checksum(file: &Object) -> Result<(String, bool), Refusal> {
    let Some(text) = values::text(file, "checksum")? else {
        return Ok(("ADLER32".to_owned(), false));
    };
    let understood = match text.split_once(':') {
        Some((algorithm, "")) => algorithm.parse::<Algorithm>().is_ok(),
        Some(_) => text.parse::<Checksum>().is_ok(),
        None => text.parse::<Algorithm>().is_ok(),
    };
    if let Some(named) = with_algorithm(&text).filter(|_| !understood) {
        return Ok((named, true));
    }
    if understood {
        Ok((text, true))
    } else {
        Err(Refusal::invalid(format!(
            "checksum '{}' is not ALGORITHM or ALGORITHM:VALUE with adler32, crc32c, md5 or sha256",
            text.chars().take(80).collect::<String>()
        )))
    }
}

/// A value without its algorithm, as FTS3's own tests write it: its length tells which. Adler-32 may lack leading zeros.
fn with_algorithm(text: &str) -> Option<String> {
    let digits = text.len();
    let is_hex = digits > 0 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let algorithm = match digits {
        _ if !is_hex => return None,
        ..=8 => "ADLER32",
        32 => "MD5",
        64 => "SHA256",
        _ => return None,
    };
    Some(format!("{algorithm}:{text:0>8}"))
}

/// FTS3 takes 0 for "not said".
fn filesize(file: &Object) -> Result<Option<u64>, Refusal> {
    match values::integer(file, "filesize")? {
        None | Some(0) => Ok(None),
        Some(size) => match u64::try_from(size) {
            Ok(size) if size <= SIZE_MAX => Ok(Some(size)),
            Ok(_) => Err(Refusal::invalid(format!("filesize is beyond {SIZE_MAX} ({size})"))),
            Err(_) => Err(Refusal::invalid(format!("filesize is negative ({size})"))),
        },
    }
}

fn scitag(file: &Object) -> Result<Option<u32>, Refusal> {
    match values::integer(file, "scitag")? {
        None => Ok(None),
        Some(tag @ 65..=65_535) => Ok(Some(tag as u32)),
        Some(tag) => Err(Refusal::invalid(format!(
            "Invalid SciTag value: {tag} (not in [65, 65535] range)"
        ))),
    }
}

fn strategy(file: &Object) -> Result<String, Refusal> {
    match values::text(file, "selection_strategy")? {
        None => Ok("auto".to_owned()),
        Some(name) if Strategy::named(&name).is_some() => Ok(name),
        Some(name) => Err(Refusal::bad(format!("{name} algorithm is not supported by Scheduler"))),
    }
}
