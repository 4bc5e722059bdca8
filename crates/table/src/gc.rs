//! Garbage collection rules of a family: which cells may vanish. One function, [`GcRule::elides`],
//! is asked by reads (which hide) and by compaction (which removes), so that they agree.
//!
//! Invariants:
//! 1. A rule is monotonic down a column: what it lets vanish, it lets vanish with all older
//!    versions of that column. What stays of a column is therefore its newest cells.
//! 2. Cells of a family that was dropped may vanish. A family id that the rules have never heard
//!    of belongs to a family created after them: its cells stay. Tokens of changes vanish by age
//!    (`local/once.rs`).

use crate::error::{Error, Result};
use crate::limits;
use crate::schema::{TOKENS, TableSchema};
use engine::elision_policy::{ElisionPolicy, ElisionRules, Verdict};
use engine::{FamilyId, Timestamp};
use std::sync::Arc;
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

impl GcRule {
    /// Returns whether the cell that is version `version` of its column (0 is the newest) and carries
    /// `timestamp` may vanish at `now_micros`.
    pub fn elides(&self, version: u32, timestamp: Timestamp, now_micros: i64) -> bool {
        match self {
            Self::KeepAll => false,
            Self::MaxVersions(max) => version >= *max,
            Self::MaxAge(age) => {
                let age = i64::try_from(age.as_micros()).unwrap_or(i64::MAX);
                timestamp.0 < now_micros.saturating_sub(age)
            }
            Self::Union(rules) => rules.iter().any(|r| r.elides(version, timestamp, now_micros)),
            Self::Intersection(rules) => {
                rules.iter().all(|r| r.elides(version, timestamp, now_micros))
            }
        }
    }

    /// Returns the largest number of versions of a column that the rule keeps, whatever their age.
    pub fn versions_max(&self) -> Option<u32> {
        match self {
            Self::KeepAll | Self::MaxAge(_) => None,
            Self::MaxVersions(max) => Some(*max),
            Self::Union(rules) => rules.iter().filter_map(Self::versions_max).min(),
            Self::Intersection(rules) => {
                rules.iter().map(Self::versions_max).collect::<Option<Vec<_>>>()?.into_iter().max()
            }
        }
    }

    /// Returns whether the rule counts versions, so that newer cells decide about older ones.
    pub fn counts_versions(&self) -> bool {
        match self {
            Self::KeepAll | Self::MaxAge(_) => false,
            Self::MaxVersions(_) => true,
            Self::Union(rules) | Self::Intersection(rules) => {
                rules.iter().any(Self::counts_versions)
            }
        }
    }

    /// Checks every number and the nesting.
    pub fn validate(&self) -> Result<()> {
        self.validate_at(1)
    }

    fn validate_at(&self, depth: usize) -> Result<()> {
        let refuse = |message: String| Err(Error::invalid("gc_rule", message));
        if depth > limits::GC_DEPTH_MAX {
            return refuse(format!("rules nest deeper than {} levels", limits::GC_DEPTH_MAX));
        }
        match self {
            Self::KeepAll => Ok(()),
            Self::MaxVersions(0) => refuse("max_num_versions must be at least 1".into()),
            Self::MaxVersions(_) => Ok(()),
            Self::MaxAge(age) if *age < Duration::from_millis(1) => {
                refuse("max_age must be at least 1 millisecond".into())
            }
            Self::MaxAge(_) => Ok(()),
            Self::Union(rules) | Self::Intersection(rules) => {
                if rules.is_empty() || rules.len() > limits::GC_RULES_MAX {
                    let max = limits::GC_RULES_MAX;
                    return refuse(format!("a union or intersection needs 1 to {max} rules"));
                }
                rules.iter().try_for_each(|rule| rule.validate_at(depth + 1))
            }
        }
    }
}

/// The rules of one table, for the compactions of its trees.
pub(crate) struct TableRules {
    /// By family id; `None` for dropped families and for id 0.
    families: Arc<[Option<GcRule>]>,
}

impl TableRules {
    pub(crate) fn of(schema: &TableSchema) -> Self {
        let mut families = vec![None; usize::from(schema.next_family)];
        for family in schema.families.values() {
            families[usize::from(family.id.0)] = Some(family.gc.clone());
        }
        Self { families: families.into() }
    }
}

impl ElisionRules for TableRules {
    fn policy(&self, now_micros: i64) -> Box<dyn ElisionPolicy> {
        Box::new(TablePolicy { families: Arc::clone(&self.families), now_micros })
    }
}

struct TablePolicy {
    families: Arc<[Option<GcRule>]>,
    now_micros: i64,
}

impl ElisionPolicy for TablePolicy {
    fn verdict(&self, family: FamilyId, version: u32, timestamp: Timestamp) -> Verdict {
        let elide = match family {
            TOKENS => timestamp.0 < self.now_micros.saturating_sub(limits::TOKEN_KEPT_MICROS),
            _ => self.elides(family, version, timestamp),
        };
        if elide { Verdict::Elide } else { Verdict::Keep }
    }
}

impl TablePolicy {
    fn elides(&self, family: FamilyId, version: u32, timestamp: Timestamp) -> bool {
        match self.families.get(usize::from(family.0)) {
            None => false,
            Some(None) => true,
            Some(Some(rule)) => rule.elides(version, timestamp, self.now_micros),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule() -> impl Strategy<Value = GcRule> {
        let leaf = prop_oneof![
            Just(GcRule::KeepAll),
            (1u32..4).prop_map(GcRule::MaxVersions),
            (1u64..10).prop_map(|ms| GcRule::MaxAge(Duration::from_millis(ms))),
        ];
        leaf.prop_recursive(3, 12, 3, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 1..3).prop_map(GcRule::Union),
                proptest::collection::vec(inner, 1..3).prop_map(GcRule::Intersection),
            ]
        })
    }

    proptest! {
        #[test]
        fn a_rule_keeps_the_newest_cells_of_a_column(
            rule in rule(),
            mut ages in proptest::collection::vec(0i64..12, 1..8),
        ) {
            ages.sort_unstable();
            let now = 1_000_000;
            let kept: Vec<bool> = ages
                .iter()
                .enumerate()
                .map(|(version, age)| !rule.elides(version as u32, Timestamp(now - age * 1000), now))
                .collect();
            prop_assert!(kept.is_sorted_by(|newer, older| newer >= older));
            if let Some(max) = rule.versions_max() {
                prop_assert!(kept.iter().filter(|kept| **kept).count() <= max as usize);
                prop_assert!(rule.counts_versions());
            }
        }
    }

    #[test]
    fn bad_rules_are_refused_by_name() {
        let mut deep = GcRule::MaxVersions(1);
        for _ in 0..limits::GC_DEPTH_MAX {
            deep = GcRule::Union(vec![deep]);
        }
        for (rule, want) in [
            (GcRule::MaxVersions(0), "max_num_versions"),
            (GcRule::MaxAge(Duration::from_micros(999)), "max_age"),
            (GcRule::Union(vec![]), "1 to 64 rules"),
            (deep, "deeper than 10 levels"),
        ] {
            let error = rule.validate().unwrap_err().to_string();
            assert!(error.contains(want), "{error}");
        }
    }
}
