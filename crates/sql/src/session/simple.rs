//! The simple protocol: one text with any number of statements.
//!
//! The statements share one transaction, unless one of them opens or ends a block.

use super::{Session, Stop};
use crate::door::Kind;
use crate::statement::{Parsed, parse};
use crate::threads::aside_if_long;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use std::sync::Arc;

impl Session {
    /// Executes the statements of `text`, and tells the client when all are done or one failed.
    pub(super) async fn simple(&mut self, text: Arc<str>) -> Result<(), Stop> {
        // The protocol has this close what a pipeline without a sync left.
        self.settle_uncommitted().await?;
        self.is_skipping = false;
        match self.execute_all(&text).await {
            Ok(()) => {}
            Err(Stop::Sql(error)) => self.fail(&error).await?,
            Err(broken) => return Err(broken),
        }
        Ok(self.ready().await?)
    }

    async fn execute_all(&mut self, text: &Arc<str>) -> Result<(), Stop> {
        let statements = aside_if_long(text.len(), || parse(text))?;
        if statements.is_empty() {
            self.wire.put(&PgWireBackendMessage::EmptyQueryResponse(EmptyQueryResponse::new()))?;
        }
        let count = statements.len();
        for (number, parsed) in statements.into_iter().enumerate() {
            let work = self.begin_statement(Kind::of(&parsed), text);
            let tag = work.on(self.execute_one(text, parsed, number + 1 == count)).await?;
            self.complete(tag)?;
            self.wire.drain().await?;
        }
        Ok(())
    }

    async fn execute_one(
        &mut self,
        text: &Arc<str>,
        parsed: Parsed,
        is_last: bool,
    ) -> Result<String, Stop> {
        let watch = self.watch();
        let prepared = Arc::new(self.prepare(Arc::clone(text), parsed, Vec::new())?);
        let tag = self.run_to_end(prepared, Arc::from([]), watch).await?;
        if is_last {
            self.commit_implicit().await?;
        }
        Ok(tag)
    }

    /// Tells the client that a statement is complete.
    pub(super) fn complete(&mut self, tag: String) -> Result<(), Stop> {
        self.end_statement(Ok(Some(&tag)));
        self.put_notices()?;
        Ok(self.wire.put(&PgWireBackendMessage::CommandComplete(CommandComplete::new(tag)))?)
    }
}
