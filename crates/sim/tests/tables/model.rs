//! The plainest table: cells in a map, the server's times, GC rules as a filter of what is shown.
//!
//! What a rule lets vanish is hidden from then on for good: histories never relax a rule, nor delete
//! newer versions alone where versions are counted.

use crate::ask::reference::{RefCell, filter_row};
use crate::case::{AGE, FAMILIES};
use bytes::Bytes;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use table::mutate::{Modify, WriteTime};
use table::*;

const MILLI: i64 = 1_000;

/// A family; its index is its id, less one.
#[derive(Debug, Clone)]
pub(crate) struct Family {
    pub(crate) name: &'static str,
    pub(crate) gc: GcRule,
    /// True if it was dropped.
    pub(crate) gone: bool,
}

/// Family, qualifier, and time, newest first.
type Place = (usize, Bytes, Reverse<i64>);

/// See the file header.
#[derive(Debug, Clone)]
pub(crate) struct Model {
    pub(crate) families: Vec<Family>,
    rows: BTreeMap<Bytes, BTreeMap<Place, Bytes>>,
    /// The latest time that each row was given.
    given: BTreeMap<Bytes, i64>,
    /// The latest time given before the store was opened.
    floor: i64,
    /// The clock.
    pub(crate) now: i64,
}

/// The rule of a family as it is created.
pub(crate) fn rule(name: &str) -> GcRule {
    match name {
        "two" => GcRule::MaxVersions(2),
        "old" => GcRule::MaxAge(AGE),
        _ => GcRule::KeepAll,
    }
}

/// Visible cells, by row.
pub(crate) type Shown = BTreeMap<Bytes, Vec<RefCell>>;

impl Model {
    pub(crate) fn new(now: i64) -> Self {
        let family = |name: &&'static str| Family { name, gc: rule(name), gone: false };
        let families = FAMILIES.iter().map(family).collect();
        Self { families, rows: BTreeMap::new(), given: BTreeMap::new(), floor: -MILLI, now }
    }

    /// A store was opened whose newest commit time is `micros`, 0 if it has none.
    pub(crate) fn open_after(&mut self, micros: u64) {
        self.floor = if micros == 0 { -MILLI } else { micros as i64 / MILLI * MILLI };
        self.given.clear();
    }

    /// The id of a family, less one; `None` if there is none of that name.
    pub(crate) fn family(&self, name: &str) -> Option<usize> {
        self.families.iter().rposition(|family| family.name == name && !family.gone)
    }

    pub(crate) fn drop_family(&mut self, id: usize) {
        self.families[id].gone = true;
        self.rows.values_mut().for_each(|cells| cells.retain(|(family, ..), _| *family != id));
    }

    /// The time of the row's next write: the clock's, or one `above` the latest of the row. All of a
    /// process are above those of the processes before.
    fn time(&mut self, row: &Bytes, above: i64) -> i64 {
        let latest = self.given.get(row).map_or(self.floor + MILLI, |latest| latest + above);
        let time = (self.now / MILLI * MILLI).max(latest);
        self.given.insert(row.clone(), time);
        time
    }

    /// Returns whether all families of the mutations exist.
    pub(crate) fn knows(&self, mutations: &[RowMutation]) -> bool {
        let known = |mutation: &RowMutation| match mutation {
            RowMutation::SetCell { family, .. }
            | RowMutation::AddToCell { family, .. }
            | RowMutation::MergeToCell { family, .. }
            | RowMutation::DeleteFromColumn { family, .. }
            | RowMutation::DeleteFromFamily { family } => self.family(family).is_some(),
            RowMutation::DeleteFromRow => true,
        };
        mutations.iter().all(known)
    }

    /// Changes a row, whose families exist.
    pub(crate) fn mutate(&mut self, row: &Bytes, mutations: &[RowMutation]) {
        let server = mutations.iter().any(is_timed).then(|| self.time(row, MILLI));
        for mutation in mutations {
            self.apply(row, mutation, server.unwrap_or_default());
        }
    }

    /// Changes a row as a load does that begins now: what comes later is above it.
    pub(crate) fn load(&mut self, row: &Bytes, mutations: &[RowMutation]) {
        self.mutate(row, mutations);
        let timed = mutations.iter().any(is_timed);
        self.given.entry(row.clone()).and_modify(|latest| *latest += i64::from(timed) * MILLI);
    }

    fn apply(&mut self, row: &Bytes, mutation: &RowMutation, server: i64) {
        let id = |name: &str| self.family(name).unwrap();
        let at = |time: &WriteTime| match time {
            WriteTime::Server => Reverse(server),
            WriteTime::At(time) | WriteTime::Truncated(time) => Reverse(time.0),
        };
        let cells = |rows| -> &mut BTreeMap<Place, Bytes> {
            BTreeMap::entry(rows, row.clone()).or_default()
        };
        match mutation {
            RowMutation::SetCell { family, qualifier, timestamp, value } => {
                let place = (id(family), qualifier.clone(), at(timestamp));
                cells(&mut self.rows).insert(place, value.clone());
            }
            RowMutation::AddToCell { family, qualifier, timestamp, input } => {
                let place = (id(family), qualifier.clone(), at(timestamp));
                let sum = cells(&mut self.rows).entry(place).or_insert_with(|| vec![0; 8].into());
                let AddInput::Int64(input) = input else { panic!("only integers are added") };
                *sum = Bytes::copy_from_slice(&(number(sum) + input).to_be_bytes());
            }
            RowMutation::DeleteFromColumn { family, qualifier, range } => {
                let id = id(family);
                let hit = |place: &Place| {
                    place.0 == id && place.1 == *qualifier && range.contains(Timestamp(place.2.0))
                };
                cells(&mut self.rows).retain(|place, _| !hit(place));
            }
            RowMutation::DeleteFromFamily { family } => {
                let id = id(family);
                cells(&mut self.rows).retain(|place, _| place.0 != id);
            }
            RowMutation::DeleteFromRow => cells(&mut self.rows).clear(),
            RowMutation::MergeToCell { .. } => unreachable!("no history has it"),
        }
    }

    pub(crate) fn drop_rows(&mut self, rows: &DropRows) {
        self.rows.retain(|row, _| match rows {
            DropRows::All => false,
            DropRows::Prefix(prefix) => !row.starts_with(prefix),
        });
    }

    /// The cells that a read-modify-write makes, by family and qualifier; `None` if it is refused.
    pub(crate) fn modify(
        &mut self,
        row: &Bytes,
        rules: &[ReadModifyWriteRule],
    ) -> Option<BTreeMap<(usize, Bytes), (i64, Bytes)>> {
        let families: Vec<usize> =
            rules.iter().map(|rule| self.family(&rule.family)).collect::<Option<_>>()?;
        let server = self.time(row, 0);
        let shown = self.shown().remove(row).unwrap_or_default();
        let mut made: BTreeMap<(usize, Bytes), (i64, Bytes)> = BTreeMap::new();
        for (rule, family) in rules.iter().zip(families) {
            let column = (family, rule.qualifier.clone());
            let newest = |cell: &&RefCell| {
                cell.family == self.families[family].name && cell.qualifier == rule.qualifier
            };
            let old = made.get(&column).cloned().or_else(|| {
                let cell = shown.iter().find(newest)?;
                Some((cell.timestamp, cell.value.clone()))
            });
            let value = match (&rule.modify, old.as_ref().map(|(_, value)| value)) {
                (Modify::Append(text), old) => {
                    [old.map_or(&[][..], |old| old), text].concat().into()
                }
                (Modify::Increment(_), Some(old)) if old.len() != 8 => return None,
                (Modify::Increment(more), old) => {
                    let sum = old.map_or(0, number).wrapping_add(*more);
                    Bytes::copy_from_slice(&sum.to_be_bytes())
                }
            };
            let time = old.map_or(server, |(time, _)| server.max(time));
            made.insert(column, (time, value));
        }
        let cells = self.rows.entry(row.clone()).or_default();
        for ((family, qualifier), (time, value)) in &made {
            cells.insert((*family, qualifier.clone(), Reverse(*time)), value.clone());
        }
        Some(made)
    }

    /// What reads show, before any filter.
    pub(crate) fn shown(&self) -> Shown {
        let mut shown = Shown::new();
        for (row, cells) in &self.rows {
            let (mut column, mut version) = (None, 0);
            for ((family, qualifier, Reverse(time)), value) in cells {
                let this = Some((family, qualifier));
                version = if column == this { version + 1 } else { 0 };
                column = this;
                let Family { name, gc, .. } = &self.families[*family];
                if gc.elides(version, Timestamp(*time), self.now) {
                    continue;
                }
                let cells = shown.entry(row.clone()).or_default();
                cells.push(RefCell {
                    at: cells.len(),
                    family: (*name).to_owned(),
                    qualifier: qualifier.clone(),
                    timestamp: *time,
                    value: value.clone(),
                    label: None,
                });
            }
        }
        shown
    }

    /// Returns whether the predicate of a check-and-mutate holds.
    pub(crate) fn holds(&self, row: &Bytes, predicate: Option<&RowFilter>) -> bool {
        let Some(cells) = self.shown().remove(row) else { return false };
        predicate.is_none_or(|filter| !filter_row(filter, row, cells).is_empty())
    }
}

/// Returns whether the server gives the time of the mutation's cell.
fn is_timed(mutation: &RowMutation) -> bool {
    matches!(mutation, RowMutation::SetCell { timestamp: WriteTime::Server, .. })
}

fn number(value: &Bytes) -> i64 {
    i64::from_be_bytes(value.as_ref().try_into().unwrap())
}
