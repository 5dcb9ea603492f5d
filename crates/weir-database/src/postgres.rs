//! PostgreSQL: transactions run side by side, and lock the rows that they read in order to change them.

use std::{sync::Arc, time::Duration};

use futures_util::future::try_join_all;
use tokio_postgres::{
    error::SqlState,
    types::{ToSql, Type},
};
use weir_store::{
    Standing, StoreError,
    postgres::{self, Connector, Election, Leadership, Owned, Pool, Purpose, wait},
};

use crate::{Row, Session, Value, Work, bulk, session::POSTGRESQL_ONLY};

/// Sessions of one node.
const SESSIONS: usize = 16;

/// Times that a transaction is begun again because another one was in its way.
const RETRIES: u32 = 8;

/// The pause before the first of these; it grows by as much each time.
const PAUSE: Duration = Duration::from_millis(10);

/// Statements that are on their way to the server at once.
const PIPELINE: usize = 500;

/// From so many rows on a statement is made for all of them at once, and at most for so many.
const BULK_MIN: usize = 8;
const BULK_MAX: usize = 5_000;

/// A batch of statements is answered within this time, or the database does not work.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Postgres {
    pool: Pool,
    election: Election,
}

/// The table that says which node leads.
const LEADER: &str = "leader";

impl std::fmt::Debug for Postgres {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Postgres")
    }
}

impl Postgres {
    /// Connects, and brings the tables up to date.
    pub(crate) fn open(connector: Connector, migrations: &[&str]) -> Result<Self, StoreError> {
        let own = migrations.iter().map(|one| schema(one));
        let migrations = std::iter::once(Election::schema(LEADER)).chain(own).collect::<Vec<_>>();
        let migrations = migrations.iter().map(String::as_str).collect::<Vec<_>>();
        let pool = Pool::new(Arc::new(connector), Purpose::Rows, SESSIONS);
        pool.with(|session| postgres::migrate(session, &migrations))?;
        let election = Election::new(LEADER);
        Ok(Self { pool, election })
    }

    pub(crate) fn read<T>(&self, work: &impl Work<T>) -> Result<T, StoreError> {
        self.pool
            .with(|session| session.snapshot(|session| work(&mut Connected(session))))
    }

    /// With an epoch: only while it is that of the leader.
    pub(crate) fn write<T>(&self, work: &impl Work<T>, epoch: Option<u64>) -> Result<T, StoreError> {
        let once = || match epoch {
            Some(epoch) => self
                .election
                .while_leading(&self.pool, epoch, |session| work(&mut Connected(session))),
            None => self
                .pool
                .with(|session| session.transaction("BEGIN", |session| work(&mut Connected(session)))),
        };
        let mut n_retries = 0;
        loop {
            match once() {
                Err(error) if was_in_the_way(&error) && n_retries < RETRIES => {
                    n_retries += 1;
                    std::thread::sleep(PAUSE * n_retries);
                }
                outcome => return outcome,
            }
        }
    }
}

impl Postgres {
    pub(crate) fn stand(&self) -> Result<Option<Leadership>, StoreError> {
        let standing = self.pool.with(|session| self.election.stand(session))?;
        Ok(match standing {
            Standing::Elected(leadership) => Some(leadership),
            Standing::HeldBy(_) => None,
        })
    }

    pub(crate) fn renew(&self, held: Leadership) -> Result<(), StoreError> {
        self.pool.with(|session| self.election.renew(held, session))
    }

    pub(crate) fn resign(&self, held: Leadership) -> Result<(), StoreError> {
        self.pool.with(|session| self.election.resign(held, session))
    }
}

/// Another transaction waited for this one, and this one for it.
fn was_in_the_way(error: &StoreError) -> bool {
    let StoreError::Unavailable(source) = error else {
        return false;
    };
    let code = source
        .downcast_ref::<tokio_postgres::Error>()
        .and_then(tokio_postgres::Error::code);
    code.is_some_and(|code| [SqlState::T_R_DEADLOCK_DETECTED, SqlState::T_R_SERIALIZATION_FAILURE].contains(code))
}

/// A session within a transaction.
struct Connected<'a>(&'a mut postgres::Session);

fn borrowed(values: &[Value]) -> Vec<&(dyn ToSql + Sync)> {
    values.iter().map(|value| value as &(dyn ToSql + Sync)).collect()
}

fn shared(arrays: &[Owned]) -> Vec<&(dyn ToSql + Sync)> {
    arrays.iter().map(|array| &**array as &(dyn ToSql + Sync)).collect()
}

impl Session for Connected<'_> {
    fn query(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        let rows = self.0.query(text, &borrowed(values))?;
        rows.iter().map(row).collect()
    }

    fn query_many(&mut self, text: &str, many: &[Vec<Value>]) -> Result<Vec<Row>, StoreError> {
        if let [values] = many {
            return self.query(text, values);
        }
        let statement = self.0.prepare(text)?;
        let mut rows = Vec::new();
        if many.len() >= BULK_MIN
            && let Some(bulk) = bulk::statement(text, statement.params())
        {
            for some in many.chunks(BULK_MAX) {
                let arrays = bulk::arrays(some, statement.params())?;
                rows.extend(self.0.query(&bulk, &shared(&arrays))?);
            }
        } else {
            for some in many.chunks(PIPELINE) {
                let client = self.0.client()?;
                let all = some.iter().map(|values| {
                    let (statement, values) = (&statement, borrowed(values));
                    async move { client.query(statement, &values).await }
                });
                rows.extend(wait(try_join_all(all), PATIENCE)??.into_iter().flatten());
            }
        }
        rows.iter().map(row).collect()
    }

    fn query_by_index(&mut self, text: &str, values: &[Value]) -> Result<Vec<Row>, StoreError> {
        for join in ["enable_hashjoin", "enable_mergejoin"] {
            self.0.execute_later(&format!("SET LOCAL {join} = off"), Vec::new())?;
        }
        let rows = self.query(text, values)?;
        for join in ["enable_hashjoin", "enable_mergejoin"] {
            self.0.execute_later(&format!("SET LOCAL {join} = on"), Vec::new())?;
        }
        Ok(rows)
    }

    fn execute(&mut self, text: &str, values: &[Value]) -> Result<u64, StoreError> {
        self.0.execute(text, &borrowed(values))
    }

    fn execute_many(&mut self, text: &str, many: &[Vec<Value>]) -> Result<u64, StoreError> {
        if let [values] = many {
            return self.execute(text, values);
        }
        let statement = self.0.prepare(text)?;
        if many.len() >= BULK_MIN
            && let Some(bulk) = bulk::statement(text, statement.params())
        {
            return self.in_bulk(&bulk, statement.params(), many);
        }
        let mut n_rows = 0;
        for some in many.chunks(PIPELINE) {
            let client = self.0.client()?;
            let all = some.iter().map(|values| {
                let (statement, values) = (&statement, borrowed(values));
                async move { client.execute(statement, &values).await }
            });
            n_rows += wait(try_join_all(all), PATIENCE)??.iter().sum::<u64>();
        }
        Ok(n_rows)
    }

    fn execute_later(&mut self, text: &str, many: Vec<Vec<Value>>) -> Result<(), StoreError> {
        let statement = self.0.prepare(text)?;
        if many.len() >= BULK_MIN
            && let Some(bulk) = bulk::statement(text, statement.params())
        {
            for some in many.chunks(BULK_MAX) {
                self.0.execute_later(&bulk, bulk::arrays(some, statement.params())?)?;
            }
            return Ok(());
        }
        for values in many {
            let values = values.into_iter().map(|value| Box::new(value) as Owned);
            self.0.execute_later(text, values.collect())?;
        }
        Ok(())
    }
}

impl Connected<'_> {
    fn in_bulk(&mut self, text: &str, types: &[Type], many: &[Vec<Value>]) -> Result<u64, StoreError> {
        let mut n_rows = 0;
        for some in many.chunks(BULK_MAX) {
            let arrays = bulk::arrays(some, types)?;
            n_rows += self.0.execute(text, &shared(&arrays))?;
        }
        Ok(n_rows)
    }
}

fn row(row: &tokio_postgres::Row) -> Result<Row, StoreError> {
    let unreadable = |error: tokio_postgres::Error| StoreError::Unreadable(error.to_string());
    let column = |(at, column): (usize, &tokio_postgres::Column)| {
        let value = match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(at).map(Value::from),
            Type::INT4 => row
                .try_get::<_, Option<i32>>(at)
                .map(|number| Value::from(number.map(i64::from))),
            Type::FLOAT8 => row.try_get::<_, Option<f64>>(at).map(Value::from),
            Type::BOOL => row.try_get::<_, Option<bool>>(at).map(Value::from),
            Type::BYTEA => row.try_get::<_, Option<Vec<u8>>>(at).map(Value::from),
            _ => row.try_get::<_, Option<String>>(at).map(Value::from),
        };
        value.map_err(unreadable)
    };
    let columns = row.columns().iter().enumerate().map(column);
    Ok(Row(columns.collect::<Result<_, _>>()?))
}

/// Tables as PostgreSQL has them: `ID` is the type of a column whose numbers the database gives.
fn schema(text: &str) -> String {
    text.replace("ID PRIMARY KEY", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
        .replace(POSTGRESQL_ONLY, "")
}
