//! Changes of a row, and their way into the engine's batches.

use crate::error::{Error, Result};
use crate::filter::RowFilter;
use crate::limits::{self, Granularity};
use crate::row::Cell;
use crate::schema::{AddInput, FamilySchema, TableSchema, ValueType};
use bytes::Bytes;
use engine::{AnyOperand, Column, Timestamp, TimestampRange, WriteBatch};

/// The version a written cell gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum WriteTime {
    /// The server's clock in the table's granularity, above every time that the server gave the
    /// row before.
    Server,
    /// This timestamp: not negative, of the table's granularity.
    At(Timestamp),
    /// This timestamp, which is not negative, truncated to the table's granularity.
    Truncated(Timestamp),
}

impl WriteTime {
    /// The wire's form: -1 is the server's time, anything else a timestamp.
    pub fn from_micros(micros: i64) -> Self {
        if micros == -1 { Self::Server } else { Self::At(Timestamp(micros)) }
    }
}

/// One change of a row. Families are named; unknown ones are `NotFound`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RowMutation {
    /// Writes a cell, replacing one of the same column and timestamp. Not in aggregate families.
    SetCell {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Version.
        timestamp: WriteTime,
        /// Value; may be empty.
        value: Bytes,
    },
    /// Adds an input to the cell of an aggregate family.
    AddToCell {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Version.
        timestamp: WriteTime,
        /// The value that is added.
        input: AddInput,
    },
    /// Merges an accumulated state, the value of another cell of the same aggregate, into the cell of an
    /// aggregate family.
    MergeToCell {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Version.
        timestamp: WriteTime,
        state: Bytes,
    },
    /// Deletes the cells of a column in a range of timestamps ([`TimestampRange::ALL`]: all).
    DeleteFromColumn {
        /// Name of the family.
        family: String,
        /// Qualifier; may be empty.
        qualifier: Bytes,
        /// Versions to delete; bounds are of the table's granularity.
        range: TimestampRange,
    },
    /// Deletes a family of the row.
    DeleteFromFamily {
        /// Name of the family.
        family: String,
    },
    DeleteFromRow,
}

/// A token that all attempts of one change of a row share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Once {
    /// Chosen by the client; all attempts have the same. 8 to 256 bytes.
    pub token: Bytes,
    /// When the client sent the first attempt, microseconds since the Unix epoch.
    pub start_micros: Option<i64>,
}

impl Once {
    /// Refuses a token that is too short or too long.
    pub(crate) fn check(&self) -> Result<()> {
        let (len, min, max) = (self.token.len(), limits::TOKEN_BYTES_MIN, limits::TOKEN_BYTES_MAX);
        if len < min || len > max {
            let message = format!("{len} bytes, but a token has {min} to {max}");
            return Err(Error::invalid("idempotency.token", message));
        }
        Ok(())
    }
}

/// A change of a row that may have come before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnceRow {
    pub change: RowMutations,
    /// `None` if the change takes effect whenever it comes.
    pub once: Option<Once>,
}

/// Changes of one row, which take effect together, in their order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowMutations {
    pub row: Bytes,
    /// The changes; at least one.
    pub mutations: Vec<RowMutation>,
}

impl RowMutations {
    /// Returns the bytes that the changes take in a batch, roughly.
    pub(crate) fn batch_bytes(&self) -> usize {
        batch_bytes(&self.row, &self.mutations)
    }
}

/// Returns the bytes that `cells` of `row` take in a batch, roughly.
pub(crate) fn cells_bytes(row: &[u8], cells: &[Cell]) -> usize {
    let each = |cell: &Cell| MUTATION_BYTES + row.len() + cell.qualifier.len() + cell.value.len();
    cells.iter().map(each).sum()
}

/// Returns the bytes that changes of `row` take in a batch, roughly.
pub(crate) fn batch_bytes(row: &[u8], mutations: &[RowMutation]) -> usize {
    let each = |mutation: &RowMutation| MUTATION_BYTES + row.len() + mutation.bytes();
    mutations.iter().map(each).sum()
}

/// Bytes of a mutation in a batch beside its row, qualifier and value.
const MUTATION_BYTES: usize = 24;

/// A change that depends on what the row holds.
#[derive(Debug, Clone, PartialEq)]
pub struct CheckAndMutate {
    pub row: Bytes,
    /// Holds if it yields any cell of the row. `None`: if the row has any cell.
    pub predicate: Option<RowFilter>,
    /// Applied if the predicate holds.
    pub on_true: Vec<RowMutation>,
    /// Applied if it does not. At least one of the two lists is not empty.
    pub on_false: Vec<RowMutation>,
}

/// Change that makes a new cell from the newest cell of its column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Modify {
    /// These bytes after its value; an absent cell counts as empty.
    Append(Bytes),
    /// This much more, wrapping. Its value is eight bytes, an `i64` big-endian; an absent cell
    /// counts as 0.
    Increment(i64),
}

/// One rule of a read-modify-write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadModifyWriteRule {
    /// Name of the family; not an aggregate one.
    pub family: String,
    /// Qualifier; may be empty.
    pub qualifier: Bytes,
    /// The change.
    pub modify: Modify,
}

impl ReadModifyWriteRule {
    /// Returns the bytes that the rule adds to its cell, and its column's.
    pub(crate) fn bytes(&self) -> usize {
        let added = match &self.modify {
            Modify::Append(suffix) => suffix.len(),
            Modify::Increment(_) => size_of::<i64>(),
        };
        self.qualifier.len() + added
    }
}

/// Adds the changes of a row to a batch, or nothing if any of them breaks a rule. The server's time
/// is left open in the batch.
pub(crate) fn append(
    batch: &mut WriteBatch,
    schema: &TableSchema,
    row: &[u8],
    mutations: &[RowMutation],
) -> Result<()> {
    limits::check_row_key("row_key", row)?;
    limits::check_mutation_count("mutations", mutations.len())?;
    let mut families = Vec::with_capacity(mutations.len());
    let mut bytes = 0;
    for (at, mutation) in mutations.iter().enumerate() {
        let family = mutation.check(schema);
        families.push(family.map_err(|error| error.within(&format!("mutations[{at}]")))?);
        bytes += mutation.bytes();
    }
    limits::check_len("mutations", bytes, limits::ROW_BYTES_MAX)?;
    for (mutation, family) in mutations.iter().zip(families) {
        mutation.push(batch, row, family, schema.granularity);
    }
    Ok(())
}

impl WriteTime {
    fn check(self, field: &str, granularity: Granularity) -> Result<()> {
        match self {
            Self::Server => Ok(()),
            Self::At(_) | Self::Truncated(_) => {
                let timestamp = self.given(granularity).unwrap_or(Timestamp::MIN);
                limits::check_timestamp(field, timestamp, granularity)
            }
        }
    }

    /// Returns the timestamp that the writer gave, in a table of `granularity`; `None` if the server
    /// gives it.
    pub(crate) fn given(self, granularity: Granularity) -> Option<Timestamp> {
        match self {
            Self::Server => None,
            Self::At(timestamp) => Some(timestamp),
            Self::Truncated(timestamp) => Some(granularity.truncate(timestamp)),
        }
    }
}

impl RowMutation {
    /// Checks every rule; returns the family that the mutation names, if it names one.
    pub(crate) fn check<'s>(&self, schema: &'s TableSchema) -> Result<Option<&'s FamilySchema>> {
        let (kind, family) = match self {
            Self::SetCell { family, .. } => ("set_cell", family),
            Self::AddToCell { family, .. } => ("add_to_cell", family),
            Self::MergeToCell { family, .. } => ("merge_to_cell", family),
            Self::DeleteFromColumn { family, .. } => ("delete_from_column", family),
            Self::DeleteFromFamily { family } => ("delete_from_family", family),
            Self::DeleteFromRow => return Ok(None),
        };
        let family = schema.family(family)?;
        self.check_in(family, schema.granularity).map_err(|error| error.within(kind))?;
        Ok(Some(family))
    }

    fn check_in(&self, family: &FamilySchema, granularity: Granularity) -> Result<()> {
        let qualifier_len = |qualifier: &Bytes| {
            limits::check_len("column_qualifier", qualifier.len(), limits::QUALIFIER_BYTES_MAX)
        };
        let needs = |aggregate: bool, what: &str| match family.value_type {
            ValueType::Raw | ValueType::Scalar(_) if aggregate => {
                let message =
                    format!("{what} needs an aggregate family, but '{}' is not one", family.name);
                Err(Error::invalid("family_name", message))
            }
            ValueType::Aggregate(_) if !aggregate => {
                let message = format!("{what} cannot write aggregate family '{}'", family.name);
                Err(Error::invalid("family_name", message))
            }
            _ => Ok(()),
        };
        match self {
            Self::SetCell { qualifier, timestamp, value, .. } => {
                needs(false, "SetCell")?;
                qualifier_len(qualifier)?;
                limits::check_len("value", value.len(), limits::VALUE_BYTES_MAX)?;
                timestamp.check("timestamp_micros", granularity)
            }
            Self::AddToCell { qualifier, timestamp, input, .. } => {
                needs(true, "AddToCell")?;
                qualifier_len(qualifier)?;
                limits::check_len("input", input.bytes(), limits::VALUE_BYTES_MAX)?;
                if let ValueType::Aggregate(aggregate) = family.value_type {
                    aggregate.operand(input).map_err(|rule| Error::invalid("input", rule))?;
                }
                timestamp.check("timestamp", granularity)
            }
            Self::MergeToCell { qualifier, timestamp, state, .. } => {
                needs(true, "MergeToCell")?;
                qualifier_len(qualifier)?;
                if let ValueType::Aggregate(aggregate) = family.value_type {
                    aggregate.state(state).map_err(|rule| Error::invalid("input", rule))?;
                }
                timestamp.check("timestamp", granularity)
            }
            Self::DeleteFromColumn { qualifier, range, .. } => {
                qualifier_len(qualifier)?;
                limits::check_timestamp_range("time_range", *range, granularity)
            }
            Self::DeleteFromFamily { .. } | Self::DeleteFromRow => Ok(()),
        }
    }

    /// Returns the bytes that the mutation adds to its row.
    fn bytes(&self) -> usize {
        match self {
            Self::SetCell { qualifier, value, .. } => qualifier.len() + value.len(),
            Self::AddToCell { qualifier, input, .. } => qualifier.len() + input.bytes(),
            Self::MergeToCell { qualifier, state, .. } => qualifier.len() + state.len(),
            _ => 0,
        }
    }

    fn push(
        &self,
        batch: &mut WriteBatch,
        row: &[u8],
        family: Option<&FamilySchema>,
        granularity: Granularity,
    ) {
        let Some(family) = family else { return batch.delete_row(row) };
        let merge =
            |batch: &mut WriteBatch, qualifier: &[u8], time: WriteTime, operand: AnyOperand| {
                let column = Column::of(family.id, qualifier);
                match time.given(granularity) {
                    Some(time) => batch.merge(row, column, time, operand),
                    None => batch.merge_timed(row, column, operand),
                }
            };
        let aggregate = match family.value_type {
            ValueType::Aggregate(aggregate) => Some(aggregate),
            ValueType::Raw | ValueType::Scalar(_) => None,
        };
        match self {
            Self::SetCell { qualifier, timestamp, value, .. } => {
                let column = Column::of(family.id, qualifier);
                match timestamp.given(granularity) {
                    Some(time) => batch.put(row, column, time, value),
                    None => batch.put_timed(row, column, value),
                }
            }
            Self::AddToCell { qualifier, timestamp, input, .. } => {
                let operand = aggregate.and_then(|aggregate| aggregate.operand(input).ok());
                merge(batch, qualifier, *timestamp, operand.expect("the mutation was checked"));
            }
            Self::MergeToCell { qualifier, timestamp, state, .. } => {
                let operand = aggregate.and_then(|aggregate| aggregate.state(state).ok());
                merge(batch, qualifier, *timestamp, operand.expect("the mutation was checked"));
            }
            Self::DeleteFromColumn { qualifier, range, .. } => {
                batch.delete(row, Column::of(family.id, qualifier), *range);
            }
            Self::DeleteFromFamily { .. } => batch.delete_family(row, family.id),
            Self::DeleteFromRow => batch.delete_row(row),
        }
    }
}

/// The newest cell of a column, if it has any, or what the rules so far made of it.
pub(crate) type Latest = Option<(Timestamp, Bytes)>;

/// Applies one rule to the newest cell of its column. The new cell is never older than the one it
/// was made from, even when that one is from the future.
pub(crate) fn modify(
    latest: &mut Latest,
    rule: &ReadModifyWriteRule,
    now: Timestamp,
) -> Result<()> {
    let old = latest.as_ref().map(|(_, value)| value.as_ref());
    let value = match &rule.modify {
        Modify::Append(suffix) => {
            let old = old.unwrap_or_default();
            let len = old.len() + suffix.len();
            limits::check_len("append_value", len, limits::VALUE_BYTES_MAX)?;
            Bytes::from([old, suffix].concat())
        }
        Modify::Increment(amount) => {
            let old = old.map_or(Ok(0), |old| {
                old.try_into().map(i64::from_be_bytes).map_err(|_| {
                    Error::FailedPrecondition(format!(
                        "cannot increment a value of {} bytes (family {}, qualifier '{}'): \
                         increments need 8 bytes, a 64-bit integer",
                        old.len(),
                        rule.family,
                        rule.qualifier.escape_ascii()
                    ))
                })
            })?;
            Bytes::copy_from_slice(&old.wrapping_add(*amount).to_be_bytes())
        }
    };
    let timestamp = latest.as_ref().map_or(now, |(timestamp, _)| now.max(*timestamp));
    *latest = Some((timestamp, value));
    Ok(())
}

/// Checks the rules of a read-modify-write; returns their families, in order.
pub(crate) fn check_rules<'s>(
    schema: &'s TableSchema,
    row: &[u8],
    rules: &[ReadModifyWriteRule],
) -> Result<Vec<&'s FamilySchema>> {
    limits::check_row_key("row_key", row)?;
    limits::check_mutation_count("rules", rules.len())?;
    let check = |rule: &ReadModifyWriteRule| {
        let family = schema.family(&rule.family)?;
        if matches!(family.value_type, ValueType::Aggregate(_)) {
            let message = format!("aggregate family '{}' does not support this rule", family.name);
            return Err(Error::invalid("family_name", message));
        }
        limits::check_len("column_qualifier", rule.qualifier.len(), limits::QUALIFIER_BYTES_MAX)?;
        Ok(family)
    };
    let rules = rules.iter().enumerate();
    rules.map(|(at, rule)| check(rule).map_err(|e| e.within(&format!("rules[{at}]")))).collect()
}
