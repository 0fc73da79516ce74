//! One connection to the database.
//!
//! Statements have no names and no life beyond their call, so a pooler that hands each transaction another server is
//! welcome. Calls that are polled together go out together, in the order of their polling.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::types::{FromSql, ToSql, Type};
use tokio_postgres::{Client, Row};

use super::fault::Fault;
use super::texts::Texts;

/// How long an answer may take.
pub(super) const ANSWERS_WITHIN: Duration = Duration::from_secs(15);

/// A value with its type, so that the database need not be asked for it.
pub(super) type Arg<'a> = (&'a (dyn ToSql + Sync), Type);

/// Rust's types as the database calls them.
pub(super) trait Typed: ToSql + Sync + Sized {
    const TYPE: Type;

    fn arg(&self) -> Arg<'_> {
        (self, Self::TYPE)
    }
}

macro_rules! typed {
    ($($rust:ty => $name:ident),* $(,)?) => { $(impl Typed for $rust { const TYPE: Type = Type::$name; })* };
}

typed! {
    bool => BOOL, i64 => INT8, Option<i64> => INT8, &str => TEXT, String => TEXT, Option<&str> => TEXT,
    Option<String> => TEXT, &[u8] => BYTEA, Vec<u8> => BYTEA,
    Vec<i64> => INT8_ARRAY, &[i64] => INT8_ARRAY, Vec<Option<i64>> => INT8_ARRAY, Vec<bool> => BOOL_ARRAY,
    Vec<String> => TEXT_ARRAY, &[String] => TEXT_ARRAY, Vec<&str> => TEXT_ARRAY, Vec<Option<String>> => TEXT_ARRAY,
    Option<Vec<String>> => TEXT_ARRAY, Vec<Vec<u8>> => BYTEA_ARRAY, Vec<&[u8]> => BYTEA_ARRAY,
    Option<Vec<u8>> => BYTEA, Vec<Option<Vec<u8>>> => BYTEA_ARRAY,
}

/// The values of a query.
macro_rules! args {
    ($($value:expr),* $(,)?) => { &[$($crate::postgres::line::Typed::arg(&$value)),*] };
}
pub(super) use args;

/// A connection and the task that drives it.
#[derive(Debug)]
pub(super) struct Line {
    client: Client,
    driver: JoinHandle<()>,
    texts: Rc<Texts>,
    answers_within: Cell<Duration>,
}

impl Line {
    pub(super) fn new(client: Client, driver: JoinHandle<()>, texts: Rc<Texts>) -> Line {
        Line { client, driver, texts, answers_within: Cell::new(ANSWERS_WITHIN) }
    }

    /// How long an answer may take from here on, for work that is known to be long.
    pub(super) fn allow(&self, long: Duration) {
        self.answers_within.set(long);
    }

    /// A server that takes what we say and never answers counts as lost. Whether it has done it all the same is asked for.
    async fn answered<T>(
        &self,
        asked: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T, Fault> {
        let within = self.answers_within.get();
        match tokio::time::timeout(within, asked).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Fault::Lost(format!("no answer for {} s", within.as_secs()))),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    pub(super) fn texts(&self) -> &Rc<Texts> {
        &self.texts
    }

    /// All rows of one of our queries.
    pub(super) async fn all(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<Vec<Row>, Fault> {
        self.all_of(&self.texts.of(sql), args).await
    }

    /// All rows of a query that was put together.
    pub(super) async fn all_of(&self, text: &str, args: &[Arg<'_>]) -> Result<Vec<Row>, Fault> {
        self.answered(self.client.query_typed(text, args)).await
    }

    /// The first row, if there is one.
    pub(super) async fn first(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<Option<Row>, Fault> {
        Ok(self.all(sql, args).await?.into_iter().next())
    }

    /// Does something; answers how many rows it was done to.
    pub(super) async fn run(&self, sql: &'static str, args: &[Arg<'_>]) -> Result<u64, Fault> {
        self.answered(self.client.execute_typed(&self.texts.of(sql), args)).await
    }

    /// A word to the server, such as `COMMIT`.
    pub(super) async fn say(&self, words: &str) -> Result<(), Fault> {
        self.answered(self.client.batch_execute(words)).await
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

/// A column of a row. What cannot be read is not what we wrote.
pub(super) fn column<'a, T: FromSql<'a>>(row: &'a Row, at: usize) -> Result<T, Fault> {
    row.try_get(at).map_err(Fault::corrupt)
}
