//! Damage of bytes that break a format, before their file is known.

use base::codec::DecodeError;
use std::borrow::Cow;

/// Damage found in a block, at `at` bytes from its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// Offset from the start of the checked bytes.
    pub at: usize,
    /// Description of the damage.
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
