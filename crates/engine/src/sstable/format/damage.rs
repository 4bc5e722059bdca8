//! What is wrong with bytes that break a format, before it is known in which file they lie.

use base::codec::DecodeError;
use std::borrow::Cow;

/// Damage found in a block, at `at` bytes from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Where, from the start of the bytes that were being checked.
    pub at: usize,
    /// What was wrong.
    pub what: Cow<'static, str>,
}

impl Damage {
    /// Damage at `at`.
    pub fn new(at: usize, what: impl Into<Cow<'static, str>>) -> Self {
        Self { at, what: what.into() }
    }

    /// A decoding error at `at`.
    pub(crate) fn decode(at: usize, error: DecodeError) -> Self {
        Self::new(at, error.to_string())
    }
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Damage {}

/// `Err` with the damage unless `ok` holds.
pub(crate) fn ensure(ok: bool, at: usize, what: &'static str) -> Result<(), Damage> {
    if ok { Ok(()) } else { Err(Damage::new(at, what)) }
}
