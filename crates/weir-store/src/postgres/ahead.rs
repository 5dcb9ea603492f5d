//! Statements that are sent together with the next one instead of in round trips of their own: the beginning of a transaction, and statements
//! whose results are not needed. A round trip costs both sides more than a small statement does.

use futures_util::future::{try_join, try_join_all};
use tokio_postgres::{Client, Error, Statement, types::ToSql};

/// A value of a statement that is sent later.
pub type Owned = Box<dyn ToSql + Sync + Send>;

/// In the order in which it is sent.
#[derive(Default)]
pub(super) struct Ahead {
    begin: Option<String>,
    statements: Vec<(Statement, Vec<Owned>)>,
}

impl Ahead {
    /// Statements that wait, at most.
    pub(super) const MAX: usize = 24;

    pub(super) fn begin(text: &str) -> Self {
        Self {
            begin: Some(text.to_owned()),
            statements: Vec::new(),
        }
    }

    pub(super) fn push(&mut self, statement: Statement, values: Vec<Owned>) {
        self.statements.push((statement, values));
    }

    pub(super) fn n_statements(&self) -> usize {
        self.statements.len()
    }

    /// The beginning of a transaction waits: the server knows nothing of it yet.
    pub(super) fn begins(&self) -> bool {
        self.begin.is_some()
    }

    /// Sends all in order, before any statement that is polled after this for the first time, and waits for the
    /// results. The first error counts: the server refuses the statements after it.
    pub(super) async fn sent(self, client: &Client) -> Result<(), Error> {
        let begin = async {
            match &self.begin {
                Some(text) => client.batch_execute(text).await,
                None => Ok(()),
            }
        };
        let statements = self.statements.iter().map(|(statement, values)| {
            let values = values.iter().map(|value| &**value as &(dyn ToSql + Sync));
            let values = values.collect::<Vec<_>>();
            async move { client.execute(statement, &values).await }
        });
        try_join(begin, try_join_all(statements)).await.map(drop)
    }
}
