//! What of a row's entries a compaction writes: the pure core.
//!
//! Entries of one row come in the order of `crate::cell`, from all inputs merged. Each is judged
//! by its key alone (`admit`), and if it may stay its value is read and taken (`take`). Nothing is
//! buffered but the tombstones that can still hide something, one folded merge operand, and the
//! qualifier of the current column, so rows and values may be of any size.
//!
//! Why each entry that vanishes may (stripes and views are those of `compaction`):
//! 1. *Shadowed.* A put hides the older entries of its cell. In the same stripe no view sees the
//!    older one without the put; and a tombstone that hides the put hides the older one too.
//! 2. *Covered.* A tombstone of the same stripe hides the entry in every view that sees it. What
//!    the entry itself was hiding is older, at the same timestamp, hence covered as well.
//! 3. *Tombstones.* One that a newer and wider one of the same stripe covers hides nothing of its
//!    own. One that every view sees (stripe 0) has, at the bottom, nothing left to hide: what it
//!    covers in the inputs is of stripe 0 and vanishes by rule 2, and there is nothing below.
//! 4. *Operands.* Neighbours of one operator and one stripe fold into one operand that carries
//!    the newer number: every view sees both or none, no tombstone of their stripe lies between
//!    them (the older would be covered), and `crate::merge_operator` makes early folding exact. At the
//!    bottom, in stripe 0, an operand also absorbs the put below it. The result stays an
//!    *operand*: as a put it would forget its operator, and a later operand of another operator,
//!    which must start afresh, would fold into it. Above the bottom the put stays, since it hides
//!    what lies below.
//! 5. *Garbage.* The policy of the family is asked only at the bottom, so that nothing older can
//!    come to light, and only for cells whose entries are all of stripe 0. The version number it
//!    is told counts the newer cells of the column that **every** view sees (of stripe 0 and
//!    covered by no tombstone of any stripe). No view counts fewer, and verdicts are monotonic,
//!    so every view that applies the policy itself already hides the cell. Tombstones above the
//!    inputs could make views count fewer: where newer versions decide, the cell stays if there
//!    may be one of its row (`DeletesAbove`). A delete that comes later, of newer versions only,
//!    does not bring a cell back that was garbage before it; a snapshot that sees the delete, and
//!    was taken before the outputs are installed, keeps the view that has the cell (`crate::tree`).
//! 6. *Numbers.* A put of stripe 0 at the bottom is the oldest entry of its cell and every view
//!    sees it; its number becomes 0. It stays unique, as nothing else of its cell is in stripe 0
//!    (an operand absorbs it, rule 4); it stays the oldest, as all other numbers are greater; and
//!    every tombstone that could meet it, and is older than it was, vanishes in this compaction.

use crate::cell::{Entry, EntryKey, FamilyId, Kind, Scope, SequenceNumber, Timestamp};
use crate::error::Result;
use crate::merge_operator::AnyOperand;
use crate::semantics::elision_policy::{ElisionPolicy, Verdict};
use crate::semantics::row_cursor::RowCursor;
use crate::semantics::stripes::Stripes;

/// Whether older data of a row may exist outside a compaction's inputs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// An older run that is not an input may hold the row.
    Above,
    /// Nothing older exists.
    Bottom,
}

/// What lies above the inputs of a compaction: memtables, and SSTables that are none of them.
/// Whether those may have a tombstone of a row, of any scope, or a dropped range over it that is newer
/// than the given one. `false` is certain of all that was committed before the question.
pub(crate) type DeletesAbove<'a> = dyn Fn(&[u8], SequenceNumber) -> Result<bool> + Send + Sync + 'a;

/// How many entries were seen, and why those that vanished did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ElisionCounts {
    /// Entries judged.
    pub seen: u64,
    /// Shadowed by a newer put (rule 1).
    pub shadowed: u64,
    /// Covered by a tombstone (rule 2), and tombstones by wider ones (rule 3).
    pub covered: u64,
    /// Tombstones with nothing left to hide (rule 3).
    pub tombstones: u64,
    /// Operands and puts folded into a neighbour (rule 4).
    pub folded: u64,
    /// Garbage by the family's rules (rule 5).
    pub garbage: u64,
    /// Cells that are garbage for the sake of newer versions alone, so that a delete of those that
    /// nobody knew of may bring them back.
    pub outnumbered: u64,
}

impl std::ops::AddAssign for ElisionCounts {
    fn add_assign(&mut self, more: Self) {
        self.seen += more.seen;
        self.shadowed += more.shadowed;
        self.covered += more.covered;
        self.tombstones += more.tombstones;
        self.folded += more.folded;
        self.garbage += more.garbage;
        self.outnumbered += more.outnumbered;
    }
}

/// A tombstone that can still hide entries of the row.
#[derive(Debug, Clone, Copy)]
struct Active {
    newest: Timestamp,
    oldest: Timestamp,
    sequence: SequenceNumber,
    stripe: usize,
}

impl Active {
    fn covers(&self, key: &EntryKey<'_>) -> bool {
        self.sequence > key.sequence && self.oldest <= key.timestamp && key.timestamp <= self.newest
    }

    /// Whether `other`, of the same or a narrower scope, hides nothing that this one does not.
    fn outdoes(&self, other: &Self) -> bool {
        self.stripe == other.stripe
            && self.sequence > other.sequence
            && self.oldest <= other.oldest
            && other.newest <= self.newest
    }
}

/// The column the entries are in.
#[derive(Debug)]
struct CurrentColumn {
    family: FamilyId,
    scope: Scope,
    qualifier: Vec<u8>,
    /// Cells so far that every view sees.
    versions: u32,
}

/// The cell (column and timestamp) the entries are in.
#[derive(Debug, Clone, Copy)]
struct CurrentCell {
    timestamp: Timestamp,
    /// Stripe of the last put: older entries of this stripe are shadowed.
    put: Option<usize>,
    /// True if an entry above stripe 0 stays.
    newer_stays: bool,
    /// What the policy said, once it was asked.
    verdict: Option<Verdict>,
}

impl CurrentCell {
    fn at(timestamp: Timestamp) -> Self {
        Self { timestamp, put: None, newer_stays: false, verdict: None }
    }
}

/// A merge operand that may yet fold with the next older entry of its cell.
#[derive(Debug)]
struct Pending {
    operand: AnyOperand,
    sequence: SequenceNumber,
    stripe: usize,
}

/// Where the entries go that stay.
pub(crate) trait EntrySink {
    /// Takes the next entry of the current row.
    fn entry(&mut self, entry: Entry<'_>) -> Result<()>;
}

/// Decides, entry by entry, what of the rows of one compaction is written.
pub(crate) struct Elider<'a> {
    stripes: &'a Stripes,
    policy: &'a dyn ElisionPolicy,
    above: &'a DeletesAbove<'a>,
    /// What was said of the row, once it was asked.
    deleted_above: Option<bool>,
    depth: Depth,
    /// Of the range tombstones over the row, the newest of each stripe.
    ranges: Vec<SequenceNumber>,
    row_tombstones: Vec<Active>,
    family_tombstones: Vec<Active>,
    column_tombstones: Vec<Active>,
    column: CurrentColumn,
    cell: CurrentCell,
    pending: Option<Pending>,
    counts: ElisionCounts,
}

impl<'a> Elider<'a> {
    /// A core for one compaction, below `above`.
    pub(crate) fn new(
        stripes: &'a Stripes,
        policy: &'a dyn ElisionPolicy,
        above: &'a DeletesAbove<'a>,
    ) -> Self {
        Self {
            stripes,
            policy,
            above,
            deleted_above: None,
            depth: Depth::Above,
            ranges: Vec::new(),
            row_tombstones: Vec::new(),
            family_tombstones: Vec::new(),
            column_tombstones: Vec::new(),
            column: CurrentColumn {
                family: FamilyId::ROW,
                scope: Scope::Row,
                qualifier: Vec::new(),
                versions: 0,
            },
            cell: CurrentCell::at(Timestamp::MAX),
            pending: None,
            counts: ElisionCounts::default(),
        }
    }

    /// Sums over all rows so far.
    pub(crate) fn counts(&self) -> ElisionCounts {
        self.counts
    }

    /// Passes what stays of the row on which `cursor` stands to `sink`, and leaves the cursor past
    /// the row's last entry. `ranges` are the range tombstones over the row, the newest of each
    /// stripe (`Dropped::covering`).
    pub(crate) fn row(
        &mut self,
        cursor: &mut dyn RowCursor,
        ranges: &[SequenceNumber],
        depth: Depth,
        sink: &mut dyn EntrySink,
    ) -> Result<()> {
        self.start_row(ranges, depth);
        while let Some(key) = cursor.entry() {
            let row = cursor.row().unwrap_or_default();
            if self.admit(row, &key, sink)? {
                self.take(cursor.entry_with_value()?, sink)?;
            }
            cursor.next_entry()?;
        }
        self.emit_pending(sink)
    }

    fn start_row(&mut self, ranges: &[SequenceNumber], depth: Depth) {
        self.pending = None;
        self.deleted_above = None;
        self.depth = depth;
        self.ranges.clear();
        self.ranges.extend_from_slice(ranges);
        self.row_tombstones.clear();
        self.family_tombstones.clear();
        self.column_tombstones.clear();
        self.column.family = FamilyId::ROW;
        self.column.scope = Scope::Row;
        self.column.qualifier.clear();
        self.column.versions = 0;
        self.cell = CurrentCell::at(Timestamp::MAX);
    }

    /// Returns whether the entry may stay, as far as its key tells.
    fn admit(&mut self, row: &[u8], key: &EntryKey<'_>, sink: &mut dyn EntrySink) -> Result<bool> {
        self.counts.seen += 1;
        self.move_to(key, sink)?;
        if key.kind == Kind::Tombstone {
            return Ok(true);
        }
        let stripe = self.stripes.of(key.sequence);
        if self.cell.put == Some(stripe) {
            self.counts.shadowed += 1;
            return Ok(false);
        }
        if self.covered(key, Some(stripe)) {
            self.counts.covered += 1;
            return Ok(false);
        }
        if self.is_garbage(row, key, stripe)? {
            self.counts.garbage += 1;
            return Ok(false);
        }
        if key.kind == Kind::Put {
            self.cell.put = Some(stripe);
        }
        self.cell.newer_stays |= stripe > 0;
        Ok(true)
    }

    /// Follows the entries into another column or cell; what was pending there is complete.
    fn move_to(&mut self, key: &EntryKey<'_>, sink: &mut dyn EntrySink) -> Result<()> {
        let column = &self.column;
        let same_column = column.family == key.column.family
            && column.scope == key.column.scope
            && column.qualifier == key.column.qualifier;
        if same_column && self.cell.timestamp == key.timestamp {
            return Ok(());
        }
        self.emit_pending(sink)?;
        self.cell = CurrentCell::at(key.timestamp);
        if same_column {
            self.column_tombstones.retain(|tombstone| tombstone.oldest <= key.timestamp);
            return Ok(());
        }
        if self.column.family != key.column.family {
            self.family_tombstones.clear();
        }
        self.column_tombstones.clear();
        self.column.family = key.column.family;
        self.column.scope = key.column.scope;
        self.column.qualifier.clear();
        self.column.qualifier.extend_from_slice(key.column.qualifier);
        self.column.versions = 0;
        Ok(())
    }

    /// Returns whether a tombstone of `stripe` (`None`: of any) hides the entry of `key`.
    fn covered(&self, key: &EntryKey<'_>, stripe: Option<usize>) -> bool {
        let right = |of| stripe.is_none_or(|stripe| of == stripe);
        let all = [&self.column_tombstones, &self.family_tombstones, &self.row_tombstones];
        all.into_iter().flatten().any(|t| right(t.stripe) && t.covers(key))
            || self.ranges.iter().any(|q| *q > key.sequence && right(self.stripes.of(*q)))
    }

    /// Counts the cell as a version, and asks the policy about it, once.
    fn is_garbage(&mut self, row: &[u8], key: &EntryKey<'_>, stripe: usize) -> Result<bool> {
        if stripe > 0 {
            return Ok(false);
        }
        if let Some(verdict) = self.cell.verdict {
            return Ok(verdict == Verdict::Elide);
        }
        let version = self.column.versions;
        if !self.covered(key, None) {
            self.column.versions = version.saturating_add(1);
        }
        let verdict = match self.depth {
            Depth::Bottom if !self.cell.newer_stays => self.verdict(row, key, version)?,
            _ => Verdict::Keep,
        };
        self.cell.verdict = Some(verdict);
        Ok(verdict == Verdict::Elide)
    }

    /// What the policy says of a cell that is version `version` unless something above the inputs
    /// deletes newer ones.
    fn verdict(&mut self, row: &[u8], key: &EntryKey<'_>, version: u32) -> Result<Verdict> {
        let said = |version| self.policy.verdict(key.column.family, version, key.timestamp);
        if version == 0 || said(version) == Verdict::Keep || said(0) == Verdict::Elide {
            return Ok(said(version));
        }
        let deleted = match self.deleted_above {
            Some(deleted) => deleted,
            None => (self.above)(row, self.ranges.first().copied().unwrap_or_default())?,
        };
        self.deleted_above = Some(deleted);
        self.counts.outnumbered += u64::from(!deleted);
        Ok(if deleted { Verdict::Keep } else { Verdict::Elide })
    }

    fn take(&mut self, entry: Entry<'_>, sink: &mut dyn EntrySink) -> Result<()> {
        match entry.kind {
            Kind::Tombstone => self.take_tombstone(entry, sink),
            Kind::Put => self.take_put(entry, sink),
            Kind::Merge => self.take_operand(entry, sink),
        }
    }

    fn take_tombstone(&mut self, entry: Entry<'_>, sink: &mut dyn EntrySink) -> Result<()> {
        self.emit_pending(sink)?;
        let Some(oldest) = entry.tombstone_oldest() else { return sink.entry(entry) };
        let stripe = self.stripes.of(entry.sequence);
        let this = Active { newest: entry.timestamp, oldest, sequence: entry.sequence, stripe };
        let all = [&self.column_tombstones, &self.family_tombstones, &self.row_tombstones];
        let dropped = |q: &SequenceNumber| *q > this.sequence && self.stripes.of(*q) == stripe;
        if all.into_iter().flatten().any(|t| t.outdoes(&this)) || self.ranges.iter().any(dropped) {
            self.counts.covered += 1;
            return Ok(());
        }
        match entry.column.scope {
            Scope::Row => self.row_tombstones.push(this),
            Scope::Family => self.family_tombstones.push(this),
            Scope::Column => {
                // All that is still to come in this column is at or below this timestamp.
                let still = Active { newest: Timestamp::MAX, ..this };
                self.column_tombstones.retain(|t| !still.outdoes(t));
                self.column_tombstones.push(this);
            }
        }
        if self.at_rest(stripe) {
            self.counts.tombstones += 1;
            return Ok(());
        }
        sink.entry(entry)
    }

    fn take_put(&mut self, entry: Entry<'_>, sink: &mut dyn EntrySink) -> Result<()> {
        let stripe = self.stripes.of(entry.sequence);
        if !self.at_rest(stripe) {
            self.emit_pending(sink)?;
            return sink.entry(entry);
        }
        match &mut self.pending {
            Some(pending) if pending.stripe == stripe => {
                pending.operand.fold_put(entry.value);
                self.counts.folded += 1;
                self.emit_pending(sink)
            }
            _ => {
                self.emit_pending(sink)?;
                sink.entry(Entry { sequence: SequenceNumber(0), ..entry })
            }
        }
    }

    fn take_operand(&mut self, entry: Entry<'_>, sink: &mut dyn EntrySink) -> Result<()> {
        let Some(mut operand) = AnyOperand::decode(entry.value) else {
            self.emit_pending(sink)?;
            return sink.entry(entry);
        };
        let (sequence, stripe) = (entry.sequence, self.stripes.of(entry.sequence));
        if let Some(newer) = self.pending.as_mut().filter(|newer| newer.stripe == stripe) {
            match operand.fold_into(&mut newer.operand) {
                Some(apart) => operand = apart,
                None => {
                    self.counts.folded += 1;
                    return Ok(());
                }
            }
        }
        self.emit_pending(sink)?;
        self.pending = Some(Pending { operand, sequence, stripe });
        Ok(())
    }

    /// Whether an entry of `stripe` is the last word: every view sees it, nothing lies below.
    fn at_rest(&self, stripe: usize) -> bool {
        stripe == 0 && self.depth == Depth::Bottom
    }

    fn emit_pending(&mut self, sink: &mut dyn EntrySink) -> Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let column = crate::cell::Column {
            family: self.column.family,
            scope: self.column.scope,
            qualifier: &self.column.qualifier,
        };
        sink.entry(Entry {
            column,
            timestamp: self.cell.timestamp,
            sequence: pending.sequence,
            kind: Kind::Merge,
            value: &pending.operand.encode(),
        })
    }
}

#[cfg(test)]
mod tests;
