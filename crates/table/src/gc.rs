//! Garbage collection rules of a family: which cells may vanish.

use std::time::Duration;

/// Which cells of a family may vanish. What a rule lets vanish, reads no longer show; compaction
/// removes it some time later.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum GcRule {
    /// None.
    #[default]
    KeepAll,
    /// All but this many newest cells of each column. At least 1.
    MaxVersions(u32),
    /// Cells whose timestamp is older than this. At least one millisecond; whole microseconds.
    MaxAge(Duration),
    /// Cells that any of these rules lets vanish.
    Union(Vec<GcRule>),
    /// Cells that each of these rules lets vanish.
    Intersection(Vec<GcRule>),
}
