//! Options as Python gives them: by name, or as a number.

use crate::errors::invalid;
use engine::{Compression, Durability, FilterGranularity};
use pyo3::prelude::*;
use std::time::Duration;

/// When an acknowledged write is on disk: a name, or seconds between syncs.
#[derive(FromPyObject)]
pub(crate) enum DurabilityArgument {
    Named(String),
    Seconds(f64),
}

impl DurabilityArgument {
    pub(crate) fn value(self) -> PyResult<Durability> {
        match self {
            Self::Named(name) if name == "sync" => Ok(Durability::Sync),
            Self::Named(name) if name == "none" => Ok(Durability::None),
            Self::Named(name) => Err(invalid(format!(
                "invalid durability {name:?}; use sync, none or a number of seconds"
            ))),
            Self::Seconds(seconds) => {
                Duration::try_from_secs_f64(seconds).map(Durability::Interval).map_err(|error| {
                    invalid(format!("invalid durability of {seconds} seconds: {error}"))
                })
            }
        }
    }
}

pub(crate) fn compression(name: &str) -> PyResult<Compression> {
    match name {
        "none" => Ok(Compression::None),
        "lz4" => Ok(Compression::Lz4),
        "zstd" => Ok(Compression::Zstd),
        other => Err(invalid(format!("invalid compression {other:?}; use none, lz4 or zstd"))),
    }
}

pub(crate) fn granularity(name: &str) -> PyResult<FilterGranularity> {
    match name {
        "row" => Ok(FilterGranularity::Row),
        "family" => Ok(FilterGranularity::Family),
        "column" => Ok(FilterGranularity::Column),
        other => {
            Err(invalid(format!("invalid filter granularity {other:?}; use row, family or column")))
        }
    }
}
