//! What a writer does: its batches, each drawn from the seed, the writer and the batch's number
//! alone, so that the expected state needs to remember numbers only.

use crate::ledger::CellState;
use crate::names::{
    self, GROUP, Place, QUALIFIERS, SUMS, Spot, TIMESTAMPS, WIDE_QUALIFIERS, key, qualifier,
};
use base::env::Rng;
use engine::merge_operator::{Operand, Operator};
use engine::{Column, FamilyId, Timestamp};
use engine::{IngestFiles, SstWriter};
use engine::{TimestampRange, WriteBatch};

/// What batches are drawn for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Field {
    pub(crate) seed: u64,
    /// Trees.
    pub(crate) slots: u8,
    /// Rows of a writer in each tree.
    pub(crate) rows: u16,
}

/// A batch of one writer.
#[derive(Debug, Clone)]
pub(crate) struct Batch {
    pub(crate) slot: u8,
    pub(crate) writer: u8,
    pub(crate) number: u64,
    /// True if its cells, which are in order then, go past the log.
    pub(crate) ingested: bool,
    changes: Vec<Change>,
}

/// A half-open range of timestamps; `None` is all.
type Times = Option<(u8, u8)>;

#[derive(Debug, Clone)]
enum Change {
    Put {
        row: u16,
        place: Place,
        version: u64,
    },
    Add {
        row: u16,
        place: Place,
        amount: i64,
    },
    DeleteColumn {
        row: u16,
        family: u8,
        qualifier: u8,
        times: Times,
    },
    DeleteFamily {
        row: u16,
        family: u8,
        times: Times,
    },
    DeleteRow {
        row: u16,
        times: Times,
    },
    /// Of rows of one group.
    DropRows {
        start: u16,
        end: u16,
    },
}

impl Batch {
    /// Batch `number` of `writer`.
    pub(crate) fn draw(field: Field, writer: u8, number: u64) -> Self {
        let mut rng = Rng::new(field.seed ^ (u64::from(writer) << 56) ^ number.rotate_left(8));
        // The first tree gets most, so that it grows deep.
        let slot = if rng.chance(50) { 0 } else { rng.below(field.slots.into()) as u8 };
        let mut author = Author { rng, field, number, writer, slot, changes: Vec::new() };
        let ingested = author.rng.below(200) == 0;
        match author.rng.below(100) {
            _ if ingested => author.sorted(),
            0 => author.drop_rows(),
            1..4 => author.widen(),
            4..10 => author.many_rows(),
            _ => (0..=author.rng.index(5)).for_each(|_| author.any()),
        }
        Self { slot, writer, number, ingested, changes: author.changes }
    }

    /// The batch as the engine takes it.
    pub(crate) fn encode(&self) -> WriteBatch {
        let mut batch = WriteBatch::new();
        let family = |family: u8| FamilyId(family.into());
        for change in &self.changes {
            match *change {
                Change::Put { row, place, version } => {
                    let value = names::value(self.spot(row), place, version);
                    let name = qualifier(place.qualifier);
                    let column = Column::of(family(place.family), &name);
                    let timestamp = Timestamp(place.timestamp.into());
                    batch.put(&self.key(row), column, timestamp, &value);
                }
                Change::Add { row, place, amount } => {
                    let name = qualifier(place.qualifier);
                    let column = Column::of(family(place.family), &name);
                    let operand = Operand { operator: Operator::SumInt64, value: amount };
                    let timestamp = Timestamp(place.timestamp.into());
                    batch.merge(&self.key(row), column, timestamp, operand);
                }
                Change::DeleteColumn { row, family: of, qualifier: number, times } => {
                    let name = qualifier(number);
                    batch.delete(&self.key(row), Column::of(family(of), &name), range(times));
                }
                Change::DeleteFamily { row, family: of, times } => {
                    batch.delete(&self.key(row), Column::family(family(of)), range(times));
                }
                Change::DeleteRow { row, times } => {
                    batch.delete(&self.key(row), Column::ROW, range(times));
                }
                Change::DropRows { start, end } => {
                    // Up to what follows the last of them: the row after it may be another's.
                    let mut after = self.key(end - 1);
                    after.push(0);
                    batch.drop_row_range(&self.key(start), Some(&after));
                }
            }
        }
        batch
    }

    /// Writes the cells of a batch that is ingested.
    pub(crate) fn write_sorted(&self, mut writer: SstWriter) -> engine::Result<IngestFiles> {
        for change in &self.changes {
            let Change::Put { row, place, version } = *change else { continue };
            let value = names::value(self.spot(row), place, version);
            let name = qualifier(place.qualifier);
            let column = Column::of(FamilyId(place.family.into()), &name);
            writer.put(&self.key(row), column, Timestamp(place.timestamp.into()), &value)?;
        }
        writer.finish()
    }

    /// The rows it changes, ascending.
    pub(crate) fn rows(&self) -> Vec<u16> {
        let mut rows: Vec<u16> = self.changes.iter().flat_map(Change::rows).collect();
        rows.sort_unstable();
        rows.dedup();
        rows
    }

    /// Does to the cells of `row` what it does.
    pub(crate) fn apply(&self, row: u16, cells: &mut Vec<CellState>) {
        self.changes
            .iter()
            .filter(|change| change.rows().contains(&row))
            .for_each(|change| change.apply(cells));
    }

    fn spot(&self, row: u16) -> Spot {
        Spot { slot: self.slot, writer: self.writer, row }
    }

    fn key(&self, row: u16) -> Vec<u8> {
        key(self.writer, row)
    }
}

fn range(times: Times) -> TimestampRange {
    times.map_or(TimestampRange::ALL, |(start, end)| TimestampRange {
        start: Timestamp(start.into()),
        end: Some(Timestamp(end.into())),
    })
}

fn covers(times: Times, timestamp: u8) -> bool {
    times.is_none_or(|(start, end)| (start..end).contains(&timestamp))
}

impl Change {
    fn rows(&self) -> std::ops::Range<u16> {
        match *self {
            Self::DropRows { start, end } => start..end,
            Self::Put { row, .. }
            | Self::Add { row, .. }
            | Self::DeleteColumn { row, .. }
            | Self::DeleteFamily { row, .. }
            | Self::DeleteRow { row, .. } => row..row + 1,
        }
    }

    fn apply(&self, cells: &mut Vec<CellState>) {
        match *self {
            Self::Put { place, version, .. } => set(cells, place, |_| version),
            Self::Add { place, amount, .. } => {
                set(cells, place, |sum| sum.unwrap_or(0).wrapping_add(amount as u64));
            }
            Self::DeleteColumn { family, qualifier, times, .. } => cells.retain(|cell| {
                let at = cell.place;
                let names = at.family == family && at.qualifier == qualifier;
                !(names && covers(times, at.timestamp))
            }),
            Self::DeleteFamily { family, times, .. } => cells.retain(|cell| {
                !(cell.place.family == family && covers(times, cell.place.timestamp))
            }),
            Self::DeleteRow { times, .. } => {
                cells.retain(|cell| !covers(times, cell.place.timestamp));
            }
            Self::DropRows { .. } => cells.clear(),
        }
    }
}

/// Makes the content of the cell at `place` what `content` says for what it was.
fn set(cells: &mut Vec<CellState>, place: Place, content: impl FnOnce(Option<u64>) -> u64) {
    match cells.binary_search_by_key(&place.order(), |cell| cell.place.order()) {
        Ok(at) => cells[at].content = content(Some(cells[at].content)),
        Err(at) => cells.insert(at, CellState { place, content: content(None) }),
    }
}

struct Author {
    rng: Rng,
    field: Field,
    number: u64,
    writer: u8,
    slot: u8,
    changes: Vec<Change>,
}

impl Author {
    fn row(&mut self) -> u16 {
        self.rng.below(self.field.rows.into()) as u16
    }

    /// Of a cell that holds a value.
    fn place(&mut self, row: u16) -> Place {
        let wide = Spot { slot: self.slot, writer: self.writer, row }.is_wide();
        let qualifiers = if wide { WIDE_QUALIFIERS } else { QUALIFIERS };
        Place {
            family: 1 + self.rng.below(2) as u8,
            qualifier: self.rng.below(qualifiers.into()) as u8,
            timestamp: self.rng.below(TIMESTAMPS.into()) as u8,
        }
    }

    fn times(&mut self) -> Times {
        if self.rng.chance(50) {
            return None;
        }
        let start = self.rng.below(u64::from(TIMESTAMPS) - 1) as u8;
        Some((start, start + 1 + self.rng.below(3) as u8))
    }

    fn put(&mut self, row: u16, place: Place) {
        let version = self.number << 8 | self.changes.len() as u64 & 0xff;
        self.changes.push(Change::Put { row, place, version });
    }

    /// One change of any kind, to any row.
    fn any(&mut self) {
        let row = self.row();
        let place = self.place(row);
        let family = 1 + self.rng.below(SUMS.into()) as u8;
        match self.rng.below(100) {
            0..12 => {
                let amount = self.rng.next_u64() as i64 >> self.rng.below(60);
                let place = Place { family: SUMS, qualifier: place.qualifier % 3, ..place };
                self.changes.push(Change::Add { row, place, amount });
            }
            12..22 => {
                let times = self.times();
                let qualifier = place.qualifier;
                self.changes.push(Change::DeleteColumn { row, family, qualifier, times });
            }
            22..27 => {
                let times = self.times();
                self.changes.push(Change::DeleteFamily { row, family, times });
            }
            27..32 => {
                let times = self.times();
                self.changes.push(Change::DeleteRow { row, times });
            }
            _ => self.put(row, place),
        }
    }

    /// Some rows of one group vanish; the last may be written again by the same batch.
    fn drop_rows(&mut self) {
        let start = self.row();
        let group_end = ((start / GROUP + 1) * GROUP).min(self.field.rows);
        let end = start + 1 + self.rng.below(u64::from(group_end - start)) as u16;
        self.changes.push(Change::DropRows { start, end });
        if self.rng.chance(50) {
            let place = self.place(end - 1);
            self.put(end - 1, place);
        }
    }

    /// A row becomes wider than a block.
    fn widen(&mut self) {
        let row = (self.row() / GROUP * GROUP + GROUP - 1).min(self.field.rows - 1);
        for _ in 0..20 + self.rng.below(60) {
            let place = self.place(row);
            self.put(row, place);
        }
    }

    /// Many rows take a change together.
    fn many_rows(&mut self) {
        for _ in 0..10 + self.rng.below(50) {
            self.any();
        }
    }

    /// Cells for an ingest: of a few rows anywhere, or of neighbouring ones.
    fn sorted(&mut self) {
        let near = self.rng.chance(50).then(|| self.row());
        let mut cells: Vec<(u16, Place)> = (0..1 + self.rng.below(80))
            .map(|_| {
                let any = self.row();
                let row = near.map_or(any, |near| (near + any % 40) % self.field.rows);
                (row, self.place(row))
            })
            .collect();
        cells.sort_by_key(|(row, place)| (*row, place.order()));
        cells.dedup();
        cells.into_iter().for_each(|(row, place)| self.put(row, place));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::SequenceNumber;
    use engine::internals::{Model, OwnedEntry};
    use engine::{RowRange, ScanRequest};

    const FIELD: Field = Field { seed: 7, slots: 1, rows: 100 };

    /// The plain states of this file mean what the engine's model means.
    #[test]
    fn states_are_those_of_the_model() {
        let mut model = Model::default();
        let mut states = vec![Vec::new(); FIELD.rows.into()];
        let mut sequence = 1;
        let mut ingests = 0;
        for number in 1..1500 {
            let batch = Batch::draw(FIELD, 3, number);
            batch.rows().into_iter().for_each(|row| batch.apply(row, &mut states[row as usize]));
            let encoded = batch.encode();
            if batch.ingested {
                ingests += 1;
                for mutation in encoded.mutations(SequenceNumber(sequence)) {
                    let engine::internals::Mutation::Entry { row, entry } = mutation else {
                        panic!()
                    };
                    model.add(row, OwnedEntry::copy_of(&entry));
                }
            } else {
                model.apply(&encoded, SequenceNumber(sequence));
            }
            sequence += encoded.len() as u64;
        }
        let rows = model.scan(&ScanRequest::rows(RowRange::ALL), SequenceNumber::MAX);
        let mut found = vec![Vec::new(); FIELD.rows.into()];
        for (key, cells) in rows {
            let spot = Spot::of(0, &key).unwrap();
            let state = |cell: engine::OwnedCell| {
                CellState::of(spot, cell.family, &cell.qualifier, cell.timestamp, &cell.value)
            };
            found[spot.row as usize] = cells.into_iter().map(|c| state(c).unwrap()).collect();
        }
        assert!(found == states, "a row differs");
        assert!(ingests > 2 && states.iter().any(|cells| cells.len() > 50), "{ingests}");
    }
}
