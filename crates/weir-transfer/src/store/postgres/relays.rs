//! Requests that only the scheduler can answer, and its answers.

use tokio_postgres::Row;
use weir_store::postgres::{LEADER, notify};

use super::{PostgresStore, nodes::DOORS};
use crate::store::StoreError;

/// Requests that the scheduler takes at once: they may be large.
const ASKED_MAX: i64 = 64;

/// A request for the scheduler.
#[derive(Debug, Clone)]
pub struct Asked {
    /// Under which it waits.
    pub number: i64,
    /// Its heading, as the door wrote it.
    pub request: String,
    /// Its body.
    pub body: Vec<u8>,
}

/// Of nodes that do not schedule.
impl PostgresStore {
    /// Asks the scheduler.
    pub(crate) fn ask(&self, request: &str, body: &[u8]) -> Result<i64, StoreError> {
        self.readers.with(|session| {
            let text = "INSERT INTO relays (request, body) VALUES ($1, $2) RETURNING relay_no";
            let row = session.row(text, &[&request, &body])?;
            notify(session, LEADER)?;
            row.map(|row| row.get(0))
                .ok_or_else(|| StoreError::Broken("a row that was written has no number".into()))
        })
    }

    /// Takes the answer, once it is there.
    pub(crate) fn answer_to(&self, number: i64) -> Result<Option<(String, Vec<u8>)>, StoreError> {
        self.readers.with(|session| {
            let text = "DELETE FROM relays WHERE relay_no = $1 AND response IS NOT NULL RETURNING response, answer";
            let row = session.row(text, &[&number])?;
            Ok(row.map(|row| (row.get(0), row.get::<_, Option<Vec<u8>>>(1).unwrap_or_default())))
        })
    }

    /// Asks no more.
    pub(crate) fn withdraw(&self, number: i64) -> Result<(), StoreError> {
        self.readers.with(|session| {
            let text = "DELETE FROM relays WHERE relay_no = $1";
            session.execute(text, &[&number]).map(drop)
        })
    }
}

/// Of the scheduler.
impl PostgresStore {
    /// Some requests without an answer, the oldest first, except those being answered. Requests whose client has gone
    /// are deleted.
    pub(crate) fn asked(&self, epoch: u64, answering: &[i64]) -> Result<Vec<Asked>, StoreError> {
        self.election.while_leading(&self.leading, epoch, |session| {
            session.execute(
                "DELETE FROM relays WHERE asked < clock_timestamp() - interval '1 min'",
                &[],
            )?;
            let text = "SELECT relay_no, request, body FROM relays WHERE response IS NULL AND relay_no <> ALL($1)
                ORDER BY relay_no LIMIT $2";
            let asked = |row: &Row| Asked {
                number: row.get(0),
                request: row.get(1),
                body: row.get(2),
            };
            let rows = session.query(text, &[&answering, &ASKED_MAX])?;
            Ok(rows.iter().map(asked).collect())
        })
    }

    /// Answers a request.
    pub(crate) fn answer(&self, epoch: u64, number: i64, response: &str, body: &[u8]) -> Result<(), StoreError> {
        self.election.while_leading(&self.readers, epoch, |session| {
            let text = "UPDATE relays SET response = $2, answer = $3 WHERE relay_no = $1";
            session.execute(text, &[&number, &response, &body])?;
            notify(session, &format!("{DOORS} {number}"))
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a failed test may panic")]
    use weir_store::postgres::testing::wanted;

    use super::super::tests::OnServer;
    use crate::store::{Store as _, suite::Keeper as _};

    #[test]
    fn a_request_is_read_once_and_few_at_a_time() {
        // The scheduler would read the same bodies in each of its rounds, more of them the slower it answers.
        if !wanted() {
            return;
        }
        let keeper = OnServer::new();
        let (leader, door) = (keeper.handle(), keeper.handle());
        let epoch = leader.next_epoch().unwrap();
        let asked = (0..100).map(|n| door.ask("{}", &[n])).collect::<Result<Vec<_>, _>>();
        let asked = asked.unwrap();
        let read = |answering: &[i64]| {
            let requests = leader.asked(epoch, answering).unwrap();
            requests.iter().map(|asked| asked.number).collect::<Vec<_>>()
        };
        let first = read(&[]);
        assert_eq!(first, asked[..64]);
        assert_eq!(read(&first), asked[64..]);
        assert!(read(&asked).is_empty());
        leader.answer(epoch, asked[0], "heading", b"body").unwrap();
        assert!(read(&asked[1..]).is_empty(), "it has its answer");
        assert_eq!(
            door.answer_to(asked[0]).unwrap(),
            Some(("heading".into(), b"body".to_vec()))
        );
    }
}
