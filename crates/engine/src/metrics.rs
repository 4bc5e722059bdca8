//! Counters that make each claim of the engine checkable.

/// A reading of the engine's counters and gauges, over all trees since open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Name (snake case, unit last, counters end in `_total`), help text, value.
    pub values: Vec<(&'static str, &'static str, u64)>,
}
