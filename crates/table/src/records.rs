//! Records that a front keeps beside the schema: instances, app profiles, operations and the like.
//!
//! The store knows a record's name and its bytes, nothing else. Changes are durable when the call
//! returns, whatever the durability mode.

use crate::error::{Error, Result};
use crate::limits;
use async_trait::async_trait;
use bytes::Bytes;

/// A change of one record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordChange {
    /// Full name of the record, such as `projects/p/instances/i`.
    pub name: String,
    /// New bytes of the record; `None` removes it.
    pub value: Option<Bytes>,
}

impl RecordChange {
    /// Returns the change that writes a record.
    pub fn put(name: impl Into<String>, value: impl Into<Bytes>) -> Self {
        Self { name: name.into(), value: Some(value.into()) }
    }

    /// Returns the change that removes a record, if it is there.
    pub fn remove(name: impl Into<String>) -> Self {
        Self { name: name.into(), value: None }
    }

    /// Refuses a record that is too large.
    pub(crate) fn check(&self) -> Result<()> {
        limits::check_len("name", self.name.len(), limits::RECORD_NAME_BYTES_MAX)?;
        match &self.value {
            Some(value) => limits::check_len("", value.len(), limits::RECORD_BYTES_MAX),
            None => Ok(()),
        }
        .map_err(|error| match error {
            Error::InvalidArgument { field, message } => {
                let message = format!("the record of {}: {message}", self.name);
                Error::InvalidArgument { field, message }
            }
            other => other,
        })
    }
}

/// Keeps records of a front by name.
#[async_trait]
pub trait Records: Send + Sync + 'static {
    /// Returns the bytes of a record. Takes a look-up in memory.
    fn record(&self, name: &str) -> Option<Bytes>;

    /// Returns the records whose name starts with `prefix`, in order of name.
    fn records(&self, prefix: &str) -> Vec<(String, Bytes)>;

    /// Applies all changes, or none of them after an error. `ResourceExhausted` if the records would
    /// take more than [`limits::RECORDS_BYTES_MAX`].
    async fn change_records(&self, changes: Vec<RecordChange>) -> Result<()>;
}
