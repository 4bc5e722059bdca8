//! The kinds of operation that are measured apart.

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Operation {
    /// Reads a row, or columns of it.
    Read,
    /// Reads a row that was never written.
    ReadMissing,
    /// Writes a row that did not exist.
    Insert,
    /// Writes cells of a row that exists.
    Update,
    /// Reads a row, then writes it.
    ReadModifyWrite,
    Scan,
    /// Reads the newest points of a time series.
    ReadSeries,
}

impl Operation {
    /// Returns the name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::ReadMissing => "read-missing",
            Self::Insert => "insert",
            Self::Update => "update",
            Self::ReadModifyWrite => "read-modify-write",
            Self::Scan => "scan",
            Self::ReadSeries => "read-series",
        }
    }
}
