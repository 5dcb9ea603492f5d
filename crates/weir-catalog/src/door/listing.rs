//! Listings of collections: page by page, so that the memory does not grow with them, and the first row need not wait for the last.

use std::sync::Arc;

use futures_util::stream;
use weir_database::Session;
use weir_model::catalog::Did;
use weir_rules::ids::DidId;
use weir_store::StoreError;

use super::{
    Door, State,
    answer::{Answer, streamed},
    pages::{FIRST, PageSize},
};
use crate::dids::{self, Known};

/// Numbers that are read together: 80 kB, which a reader that stops keeps. A container has to be walked through for each.
const BATCH: usize = 10_000;

/// Reads the numbers of a collection's members, in their order: after this one, and at most so many.
pub(super) type Content = fn(&mut dyn Session, &Known, DidId, usize) -> Result<Vec<DidId>, StoreError>;

/// Where a listing stands.
#[derive(Debug, Clone)]
struct Cursor {
    of: Arc<Known>,
    content: Content,
    batch: Arc<[DidId]>,
    at: usize,
    is_last: bool,
}

impl Cursor {
    fn new(of: Known, content: Content) -> Self {
        Self {
            of: Arc::new(of),
            content,
            batch: Arc::new([]),
            at: 0,
            is_last: false,
        }
    }

    /// The next page, of at most so many; empty at the end.
    fn page(mut self, session: &mut dyn Session, limit: usize) -> Result<(Vec<Known>, Self), StoreError> {
        if self.at == self.batch.len() && !self.is_last {
            let after = self.batch.last().copied().unwrap_or(DidId(0));
            self.batch = (self.content)(session, &self.of, after, BATCH)?.into();
            self.is_last = self.batch.len() < BATCH;
            self.at = 0;
        }
        let end = self.batch.len().min(self.at + limit);
        let rows = dids::in_order(session, &self.batch[self.at..end])?;
        self.at = end;
        Ok((rows, self))
    }

    fn is_over(&self) -> bool {
        self.is_last && self.at == self.batch.len()
    }
}

/// Streams the members of a collection, a line for each DID.
pub(super) async fn listed(door: State, did: Did, content: Content, row: fn(&Known) -> String) -> Answer {
    let of = move |session: &mut dyn Session| {
        let of = dids::get(session, &did)?;
        Cursor::new(of, content).page(session, FIRST)
    };
    let (first, cursor) = door.database.read(of).await?;
    let text = move |rows: &[Known]| rows.iter().map(row).collect::<String>();
    let begin = (Arc::clone(&door.0), cursor, PageSize::first());
    let rest = stream::try_unfold(
        begin,
        move |(door, cursor, size): (Arc<Door>, Cursor, PageSize)| async move {
            if cursor.is_over() {
                return Ok(None);
            }
            let read = move |session: &mut dyn Session| {
                let (rows, cursor) = cursor.clone().page(session, size.rows())?;
                Ok((text(&rows), cursor))
            };
            let (text, cursor) = door.database.read(read).await?;
            let next = size.after(text.len());
            Ok::<_, StoreError>(Some((text, (door, cursor, next))))
        },
    );
    Ok(streamed("application/x-json-stream", text(&first), rest))
}
