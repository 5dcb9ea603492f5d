//! Sealed queries of URLs.

use weir_store::postgres::Session;

use super::decode::get;
use weir_executor::job::{File, NewFile};

use crate::store::{
    Sealer, StoreError, Submission,
    urls::{SealedUrls, hidden_range, opened, put_back},
};

pub(super) fn keep(session: &mut Session, sealer: &Sealer, submissions: &[&Submission]) -> Result<(), StoreError> {
    let files = submissions.iter().flat_map(|submission| &submission.files);
    let sealed = files
        .filter_map(|file| SealedUrls::of(sealer, file))
        .collect::<Vec<_>>();
    if sealed.is_empty() {
        return Ok(());
    }
    let (mut files, mut sources, mut destinations) = (Vec::new(), Vec::new(), Vec::new());
    for one in sealed {
        files.push(one.file as i64);
        sources.push(one.source);
        destinations.push(one.destination);
    }
    session.execute(
        "INSERT INTO urls SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bytea[])",
        &[&files, &sources, &destinations],
    )?;
    Ok(())
}

/// See [`crate::store::Store::reveal`].
pub(super) fn reveal(session: &mut Session, sealer: &Sealer, files: &mut [File]) -> Result<(), StoreError> {
    let Some(range) = hidden_range(files.iter().map(|file| &file.spec)) else {
        return Ok(());
    };
    let sealed = between(session, range)?;
    put_back(files.iter_mut().map(|file| &mut file.spec), &sealed, sealer);
    Ok(())
}

/// For the executor, which can do nothing without.
pub(super) fn open(session: &mut Session, sealer: &Sealer, file: &mut NewFile) -> Result<(), StoreError> {
    let Some(range) = hidden_range([&*file]) else {
        return Ok(());
    };
    put_back([&mut *file], &between(session, range)?, sealer);
    opened(file)
}

fn between(session: &mut Session, [first, last]: [i64; 2]) -> Result<Vec<SealedUrls>, StoreError> {
    let text = "SELECT file_id, source, dest FROM urls WHERE file_id BETWEEN $1 AND $2 ORDER BY file_id";
    let one = |row: &tokio_postgres::Row| {
        Ok(SealedUrls {
            file: get::<i64>(row, 0)? as u64,
            source: get(row, 1)?,
            destination: get(row, 2)?,
        })
    };
    session.query(text, &[&first, &last])?.iter().map(one).collect()
}
