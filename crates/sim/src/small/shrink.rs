//! Makes a case that fails as small as it can be: fewer acts, fewer mutations of a batch, a shape and
//! options that are closer to the usual ones.

use super::{Act, Case, What};
use crate::workload::Step;
use engine::Options;
use engine::internals::Kind;
use engine::internals::Mutation;
use engine::internals::ReadPath;
use engine::internals::Shape;
use engine::merge_operator::AnyOperand;
use engine::{SequenceNumber, Timestamp};
use engine::{TimestampRange, WriteBatch};
use std::fmt::Write as _;

/// The smallest case found that `fails`, as `case` does, within about `tries` tries.
pub fn shrink(case: &Case, tries: usize, fails: &dyn Fn(&Case) -> bool) -> Case {
    let mut shrinking = Shrinking { best: case.clone(), left: tries, fails };
    while shrinking.acts() | shrinking.batches() | shrinking.options() {}
    shrinking.best
}

struct Shrinking<'a> {
    best: Case,
    left: usize,
    fails: &'a dyn Fn(&Case) -> bool,
}

impl Shrinking<'_> {
    /// Takes `case` if it still fails; whether it did.
    fn tried(&mut self, case: Case) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        let fails = (self.fails)(&case);
        if fails {
            self.best = case;
        }
        fails
    }

    /// Leaves out acts, many at a time and then fewer; whether any could be.
    fn acts(&mut self) -> bool {
        let mut any = false;
        let mut size = self.best.acts.len().div_ceil(2);
        while size > 0 {
            let mut at = 0;
            while at < self.best.acts.len() {
                let mut case = self.best.clone();
                case.acts.drain(at..(at + size).min(case.acts.len()));
                if self.tried(case) { any = true } else { at += size }
            }
            size /= 2;
        }
        any
    }

    /// Leaves out mutations of batches; whether any could be.
    fn batches(&mut self) -> bool {
        let mut any = false;
        for at in 0..self.best.acts.len() {
            let mut mutation = 0;
            while let Some(batch) = batch_of(&mut self.best.clone().acts[at])
                && batch.len() > 1
                && mutation < batch.len()
            {
                let mut case = self.best.clone();
                let whole = batch_of(&mut case.acts[at]).expect("it was there");
                *whole = without(whole, mutation);
                if self.tried(case) { any = true } else { mutation += 1 }
            }
        }
        any
    }

    /// Makes options usual, one at a time; whether any could be.
    fn options(&mut self) -> bool {
        let mut any = false;
        for which in 0..=self.best.acts.len() {
            let Some(unusual) = options_of(&mut self.best.clone(), which).cloned() else {
                continue;
            };
            for simpler in simpler(&unusual) {
                let mut case = self.best.clone();
                let options = options_of(&mut case, which).expect("they were there");
                let before = options.clone();
                simpler(options);
                any |= *options != before && self.tried(case);
            }
        }
        any
    }
}

fn batch_of(act: &mut Act) -> Option<&mut WriteBatch> {
    match &mut act.what {
        What::Step(Step::Write(_, batch) | Step::Ingest(_, batch, _) | Step::Sort(_, batch, _)) => {
            Some(batch)
        }
        _ => None,
    }
}

/// The options of the case: those of its beginning, then those of its acts.
fn options_of(case: &mut Case, which: usize) -> Option<&mut Options> {
    match which.checked_sub(1) {
        None => Some(&mut case.options),
        Some(at) => match &mut case.acts[at].what {
            What::Reopen(options) => Some(options),
            _ => None,
        },
    }
}

/// A change of options.
pub type Simpler = Box<dyn Fn(&mut Options)>;

/// What brings `unusual` closer to the usual options.
pub fn simpler(unusual: &Options) -> Vec<Simpler> {
    let usual = Options::default();
    let mut all: Vec<Simpler> = vec![
        Box::new(|options| options.shape = minimal(&options.shape)),
        Box::new(|options| options.read_path = ReadPath::default()),
    ];
    for field in Shape::FIELDS {
        if (field.get)(&unusual.shape) != (field.get)(&usual.shape) {
            all.push(Box::new(move |options| {
                (field.set)(&mut options.shape, (field.get)(&Shape::DEFAULT));
                // What no longer fits the shape is usual, too.
                if options.validate().is_err() {
                    (field.set)(&mut options.shape, *field.range.start());
                }
            }));
        }
    }
    all.push(Box::new(|options| options.direct_reads = false));
    all.push(Box::new(|options| options.open_files_max = None));
    all.push(Box::new(|options| options.subcompactions_max = None));
    all.push(Box::new(|options| options.cache_bytes_max = None));
    all.push(Box::new(|options| options.memory_bytes_max = 64 << 20));
    all.push(Box::new(|options| options.memtable_bytes_max = 64 << 20));
    all.push(Box::new(|options| options.log_segment_bytes = 64 << 10));
    all.push(Box::new(|options| options.sst_bytes_max = 128 << 20));
    all.push(Box::new(|options| options.l1_bytes_max = 512 << 20));
    all
}

/// The usual shape, but for what lets options be small.
fn minimal(shape: &Shape) -> Shape {
    Shape {
        memory_bytes_min: shape.memory_bytes_min,
        memtable_bytes_min: shape.memtable_bytes_min,
        log_segment_bytes_min: shape.log_segment_bytes_min,
        sst_bytes_min: shape.sst_bytes_min,
        l1_bytes_min: shape.l1_bytes_min,
        sort_memory_bytes_min: shape.sort_memory_bytes_min,
        ..Shape::DEFAULT
    }
}

/// The batch without one of its mutations.
fn without(batch: &WriteBatch, mutation: usize) -> WriteBatch {
    let mut rest = WriteBatch::new();
    for (at, one) in batch.mutations(SequenceNumber(1)).enumerate() {
        if at != mutation {
            push(&mut rest, &one);
        }
    }
    rest
}

fn push(batch: &mut WriteBatch, mutation: &Mutation<'_>) {
    let (row, entry) = match mutation {
        Mutation::Entry { row, entry } => (row, entry),
        Mutation::DropRange(range) => {
            return batch.drop_row_range(&range.start, range.end.as_deref());
        }
    };
    match entry.kind {
        Kind::Put => batch.put(row, entry.column, entry.timestamp, entry.value),
        Kind::Merge => {
            let operand = AnyOperand::decode(entry.value).expect("the batch was checked");
            batch.merge(row, entry.column, entry.timestamp, operand);
        }
        Kind::Tombstone => {
            let start = entry.tombstone_oldest().expect("the batch was checked");
            let end = entry.timestamp.0.checked_add(1).map(Timestamp);
            batch.delete(row, entry.column, TimestampRange { start, end });
        }
    }
}

/// The case as text: an act a line, a mutation a line.
pub fn show(case: &Case) -> String {
    let mut text = format!("options {:?}\nexpired {:?}\n", case.options, case.expired);
    for (at, act) in case.acts.iter().enumerate() {
        let shown = match &act.what {
            What::Step(Step::Write(tree, batch)) => {
                format!("write to {}{}", tree.0, mutations(batch))
            }
            What::Step(Step::Ingest(tree, batch, options)) => {
                format!("ingest into {} {options:?}{}", tree.0, mutations(batch))
            }
            What::Step(Step::Sort(tree, batch, memory)) => {
                format!("sort within {memory} bytes for {}{}", tree.0, mutations(batch))
            }
            What::Step(step) => format!("{step:?}"),
            other => format!("{other:?}"),
        };
        let _ = writeln!(text, "{at:3} {shown}");
    }
    text
}

fn mutations(batch: &WriteBatch) -> String {
    let mut text = String::new();
    for mutation in batch.mutations(SequenceNumber(1)) {
        let _ = match mutation {
            Mutation::DropRange(range) => write!(text, "\n      drop {range:?}"),
            Mutation::Entry { row, entry } => {
                let column = &entry.column;
                let (row, qualifier) = (row.escape_ascii(), column.qualifier.escape_ascii());
                let (len, kind, time) = (entry.value.len(), entry.kind, entry.timestamp.0);
                let (scope, family) = (column.scope, column.family.0);
                let place = format!("\"{row}\" {scope:?} {family}:\"{qualifier}\"");
                match entry.tombstone_oldest().filter(|_| kind == Kind::Tombstone) {
                    Some(oldest) => {
                        write!(text, "\n      delete {place} from {} to {time}", oldest.0)
                    }
                    None => write!(text, "\n      {kind:?} {place} at {time}, {len} bytes"),
                }
            }
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::small;

    #[test]
    fn a_case_shrinks_to_what_fails_and_says_so() {
        let case = small::case(3);
        let writes = |case: &Case| {
            let write = |act: &&Act| matches!(act.what, What::Step(Step::Write(..)));
            case.acts.iter().filter(write).count()
        };
        let small = shrink(&case, 10_000, &|case: &Case| {
            writes(case) >= 2 && case.options.shape.partition_blocks_max < 256
                || case.options.shape.partition_blocks_max == 256 && writes(case) >= 2
        });
        assert_eq!((small.acts.len(), writes(&small)), (2, 2));
        for act in &mut small.clone().acts {
            assert_eq!(batch_of(act).map(|batch| batch.len()), Some(1));
        }
        assert_eq!(small.options.shape.slice_factor, Shape::DEFAULT.slice_factor);
        assert_eq!(show(&small).matches("write to").count(), 2, "{}", show(&small));
    }
}
