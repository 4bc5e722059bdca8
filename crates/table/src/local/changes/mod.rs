//! Change streams over the engine's change logs.
//!
//! 1. A table keeps its changes if the tree of its first tablet does; all of its trees do, or none,
//!    by one edit of the manifest.
//! 2. A stream reads while it is polled, one part at a time on a blocking thread, and waits for
//!    commits without one.
//! 3. Its rows may be any range. It is in parts only until it has caught up with the furthest of the
//!    tokens that it began with.

mod row_changes;
mod streaming;

use super::{Core, Local, Table};
use crate::change_token::{ChangeToken, TokenPart};
use crate::changes::{ChangeStream, ChangeStreams, ChangesFrom, ReadChanges};
use crate::error::{Error, Result};
use crate::limits;
use crate::schema::{TableName, TableSchema};
use async_trait::async_trait;
use engine::{ChangeLog, ChangePosition, RowRange, TreeId};
use futures::StreamExt;
use std::sync::Arc;
use std::time::Duration;
use streaming::Streaming;

#[async_trait]
impl ChangeStreams for Local {
    fn change_retention(&self, table: &TableName) -> Result<Option<Duration>> {
        let table = self.core.table(table)?;
        let log = self.core.change_log(&table);
        Ok(log.map(|(_, log)| Duration::from_micros(log.retention_micros)))
    }

    async fn keep_changes(&self, table: &TableName, retention: Option<Duration>) -> Result<()> {
        if retention.is_some() {
            self.core.check_alone("change streams")?;
        } else if self.core.replicated().is_some() {
            return Ok(());
        }
        let table = table.clone();
        self.change(move |core| core.keep_changes(&table, retention)).await
    }

    async fn read_changes(&self, table: &TableName, request: ReadChanges) -> Result<ChangeStream> {
        self.core.check_alone("change streams")?;
        let (core, name) = (Arc::clone(&self.core), table.clone());
        let pool = self.changes.clone();
        let begin = move || core.begin_changes(&name, request, pool);
        let streaming = self.changes.run(begin).await?;
        let next = |mut streaming: Streaming| async move {
            let records = streaming.next().await?;
            Some((records, streaming))
        };
        Ok(futures::stream::unfold(streaming, next).boxed())
    }
}

impl Local {
    /// Ends all change streams with `Unavailable`, now and from now on: the server shuts down.
    pub fn end_change_streams(&self) {
        self.core.streams_end.send_replace(true);
    }
}

impl Core {
    /// Returns the first tree of the table, and its change log.
    fn change_log(&self, table: &Table) -> Option<(TreeId, ChangeLog)> {
        let tree = table.schema.tablets.first()?.tree;
        Some((tree, self.engine.change_log(tree)?))
    }

    fn keep_changes(&self, name: &TableName, retention: Option<Duration>) -> Result<()> {
        let _changing = self.schema_change.lock();
        self.keep_changes_of(&self.table(name)?.schema, retention)
    }

    /// Keeps the changes of a table, or no longer, while the schema does not change.
    pub(super) fn keep_changes_of(
        &self,
        schema: &TableSchema,
        retention: Option<Duration>,
    ) -> Result<()> {
        let trees: Vec<TreeId> = schema.tablets.iter().map(|tablet| tablet.tree).collect();
        match retention {
            Some(retention) => drop(self.engine.keep_changes(&trees, retention)?),
            None => self.engine.forget_changes(&trees)?,
        }
        Ok(())
    }

    /// Checks a request, and finds where its stream begins. May wait for a commit.
    fn begin_changes(
        self: &Arc<Self>,
        name: &TableName,
        request: ReadChanges,
        pool: super::Pool,
    ) -> Result<Streaming> {
        let table = self.table(name)?;
        let Some((tree, log)) = self.change_log(&table) else {
            let text = format!("table {name} has no change stream: set its retention period");
            return Err(Error::FailedPrecondition(text));
        };
        check_rows("partition", &request.rows)?;
        let rows = request.rows.clone();
        let parts = match &request.from {
            ChangesFrom::Now => vec![TokenPart { rows, position: self.engine.change_position()? }],
            ChangesFrom::Time(micros) => {
                let position = ChangePosition::at(self.check_start(*micros, &log)?);
                vec![TokenPart { rows, position }]
            }
            ChangesFrom::Tokens(tokens) => {
                let parts = parts_of(tokens, &rows, tree, &log)?;
                let oldest = parts.iter().map(|part| part.position.micros).min();
                self.check_kept("the continuation token", oldest.unwrap_or(0), &log)?;
                parts
            }
        };
        let token = ChangeToken { tree, since_micros: log.since_micros, parts };
        Streaming::new(Arc::clone(self), pool, table, token, &request)
    }

    fn check_start(&self, micros: i64, log: &ChangeLog) -> Result<u64> {
        if micros > self.clock.now_micros() {
            return Err(Error::invalid("start_time", "must not be in the future"));
        }
        let micros = u64::try_from(micros).unwrap_or(0);
        self.check_kept("start_time", micros, log)?;
        Ok(micros)
    }

    /// Checks that all that was committed from `micros` on is kept.
    fn check_kept(&self, what: &str, micros: u64, log: &ChangeLog) -> Result<()> {
        let now = u64::try_from(self.clock.now_micros()).unwrap_or(0);
        let oldest = now.saturating_sub(log.retention_micros).max(log.since_micros);
        if micros >= oldest {
            return Ok(());
        }
        let text = format!(
            "{what} is at {micros} microseconds, but the change stream is kept from {oldest} on"
        );
        Err(Error::OutOfRange(text))
    }
}

fn check_rows(field: &str, rows: &RowRange) -> Result<()> {
    let keys = [Some(&rows.start), rows.end.as_ref()];
    for key in keys.into_iter().flatten() {
        limits::check_len(field, key.len(), limits::ROW_KEY_BYTES_MAX)?;
    }
    if rows.is_empty() {
        return Err(Error::invalid(field, "its rows are an empty range"));
    }
    Ok(())
}

/// Returns the parts of all tokens, which cover `rows` exactly.
fn parts_of(
    tokens: &[(RowRange, String)],
    rows: &RowRange,
    tree: TreeId,
    log: &ChangeLog,
) -> Result<Vec<TokenPart>> {
    let field = "continuation_tokens";
    let mut parts = Vec::new();
    for (of, text) in tokens {
        let Some(token) = ChangeToken::decode(text) else {
            return Err(Error::invalid(field, "it is no token of this server"));
        };
        if token.tree != tree {
            return Err(Error::invalid(field, "the token is of another table"));
        }
        if token.rows() != *of {
            return Err(Error::invalid(field, "the token is of another partition"));
        }
        if token.since_micros != log.since_micros {
            let text = "the change stream was switched off after the continuation token was given";
            return Err(Error::OutOfRange(text.to_owned()));
        }
        parts.extend(token.parts);
    }
    parts.sort_by(|a, b| a.rows.start.cmp(&b.rows.start));
    let joined = parts.windows(2).all(|two| two[0].rows.end.as_ref() == Some(&two[1].rows.start));
    let first = parts.first().is_some_and(|part| part.rows.start == rows.start);
    if !joined || !first || parts.last().is_none_or(|part| part.rows.end != rows.end) {
        let message = "the partitions of the tokens do not exactly cover the partition asked for";
        return Err(Error::invalid(field, message));
    }
    Ok(parts)
}
