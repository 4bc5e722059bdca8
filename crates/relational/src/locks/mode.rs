//! Modes of locks, and which of them exclude each other.

/// Strength of a lock on a row, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LockMode {
    /// `FOR KEY SHARE`: the key of the row stays.
    KeyShare,
    /// `FOR SHARE`: the row stays as it is.
    Share,
    /// `FOR NO KEY UPDATE`: for changes that leave the key as it is.
    NoKeyUpdate,
    /// `FOR UPDATE`: for deletes and changes of the key.
    Update,
}

/// Locks on a table. Reads take none: they see a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableLock {
    /// For changes of rows. Several transactions have it together.
    Write,
    /// Keeps writers away, and lets others do the same.
    Share,
    /// For changes of the table itself.
    Exclusive,
}

/// A mode of any lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    KeyShare,
    Share,
    NoKeyUpdate,
    Update,
    TableWrite,
    TableShare,
    TableExclusive,
}

impl Mode {
    /// Returns the bit of the mode in a set of modes.
    pub(super) fn bit(self) -> u8 {
        1 << self as u8
    }

    /// Returns the modes that others cannot have beside this one.
    pub(super) fn conflicts(self) -> u8 {
        use Mode::*;
        let of = |modes: &[Mode]| modes.iter().fold(0, |bits, mode| bits | mode.bit());
        match self {
            KeyShare => of(&[Update]),
            Share => of(&[NoKeyUpdate, Update]),
            NoKeyUpdate => of(&[Share, NoKeyUpdate, Update]),
            Update => of(&[KeyShare, Share, NoKeyUpdate, Update]),
            TableWrite => of(&[TableShare, TableExclusive]),
            TableShare => of(&[TableWrite, TableExclusive]),
            TableExclusive => of(&[TableWrite, TableShare, TableExclusive]),
        }
    }

    /// Returns true if a holder of `held` has all that this mode gives.
    pub(super) fn is_covered_by(self, held: u8) -> bool {
        use Mode::*;
        let stronger: &[Mode] = match self {
            KeyShare => &[KeyShare, Share, NoKeyUpdate, Update],
            Share => &[Share, Update],
            NoKeyUpdate => &[NoKeyUpdate, Update],
            Update => &[Update],
            TableWrite => &[TableWrite, TableExclusive],
            TableShare => &[TableShare, TableExclusive],
            TableExclusive => &[TableExclusive],
        };
        stronger.iter().any(|mode| held & mode.bit() != 0)
    }
}

impl From<LockMode> for Mode {
    fn from(mode: LockMode) -> Self {
        match mode {
            LockMode::KeyShare => Self::KeyShare,
            LockMode::Share => Self::Share,
            LockMode::NoKeyUpdate => Self::NoKeyUpdate,
            LockMode::Update => Self::Update,
        }
    }
}

impl From<TableLock> for Mode {
    fn from(lock: TableLock) -> Self {
        match lock {
            TableLock::Write => Self::TableWrite,
            TableLock::Share => Self::TableShare,
            TableLock::Exclusive => Self::TableExclusive,
        }
    }
}
