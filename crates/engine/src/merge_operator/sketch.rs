//! HyperLogLog++ sketches: an estimate of how many different values were added, in bounded memory.
//! docs/format/hll.md has the bytes.
//!
//! 1. A sketch is a set of registers with the largest rank seen, so that merging is commutative,
//!    associative and idempotent but for the number of additions, which is a sum.
//! 2. Few values are kept sparsely, with more bits of each hash. A sketch with more than [`SPARSE_MAX`] of
//!    them becomes a normal one, and stays so.
//! 3. Bytes come from clients and from disk: [`Sketch::decode`] accepts only what keeps every bound, and
//!    the encoding of a sketch is at most [`SKETCH_BYTES_MAX`].

use super::fingerprint::fingerprint;
use base::codec::{ByteReader, DecodeError, PutBytes};
use std::collections::BTreeMap;

/// Bits of a hash that choose a register.
const PRECISION: u32 = 15;
/// Bits of a hash that choose a sparse register.
const SPARSE_PRECISION: u32 = 20;
const REGISTERS: usize = 1 << PRECISION;
/// Bits of a sparse register's number that are not of the register's.
const EXTRA: u32 = SPARSE_PRECISION - PRECISION;
const EXTRA_MASK: u32 = (1 << EXTRA) - 1;
/// Bits of a rank in a sparse value.
const RANK_BITS: u32 = 6;
/// Marks a sparse value that has a rank.
const RANKED: u32 = 1 << (PRECISION + RANK_BITS);
/// Most sparse registers. Values are below 2^22, so that fewer than 2^22 / 2^7 of the distances between
/// them have a second byte, and 2^22 / 2^14 a third: the sparse form is shorter than the normal one.
const SPARSE_MAX: usize = 12_288;
const _: () = assert!(2 * SPARSE_MAX + (1 << 22 >> 14) + (1 << 22 >> 21) < REGISTERS);
/// Longest encoding: the registers and what is around them.
pub const SKETCH_BYTES_MAX: usize = REGISTERS + 64;

/// `AggregatorType.HYPERLOGLOG_PLUS_UNIQUE`, also the field with the sketch itself.
const AGGREGATOR: u64 = 112;
const ENCODING_VERSION: u64 = 2;

/// Values that a sketch counts. The number on disk is frozen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SketchInput {
    /// 64-bit integers. Each is hashed as eight bytes, little-endian.
    Int64 = 4,
    /// Bytes, or text in UTF-8.
    Bytes = 11,
}

/// A HyperLogLog++ sketch, sparse or normal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sketch {
    input: SketchInput,
    /// Number of additions, of the same value or others. Ends at `i64::MAX`.
    additions: u64,
    registers: Registers,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Registers {
    /// By sparse register: the rank of the rest of the hash, or 0 where the register tells it.
    Sparse(BTreeMap<u32, u8>),
    Normal(Vec<u8>),
}

/// Returns the place of the first one among the last `bits` bits of `word`, from 1; `bits + 1` for zeros.
fn rank(word: u64, bits: u32) -> u8 {
    let shifted = word << (64 - bits);
    (if shifted == 0 { bits + 1 } else { shifted.leading_zeros() + 1 }) as u8
}

/// Register and rank that a sparse register tells.
fn widened((&sparse, &rest): (&u32, &u8)) -> (usize, u8) {
    let extra = sparse & EXTRA_MASK;
    let rank = if extra == 0 { rest + EXTRA as u8 } else { rank(u64::from(extra), EXTRA) };
    ((sparse >> EXTRA) as usize, rank)
}

/// The sparse value of a sparse register.
fn sparse_value((&sparse, &rest): (&u32, &u8)) -> u32 {
    if sparse & EXTRA_MASK != 0 {
        return sparse;
    }
    RANKED | sparse >> EXTRA << RANK_BITS | u32::from(rest)
}

impl Sketch {
    /// The sketch of no value.
    pub fn empty(input: SketchInput) -> Self {
        Self { input, additions: 0, registers: Registers::Sparse(BTreeMap::new()) }
    }

    /// The sketch of one value.
    pub fn of_bytes(value: &[u8]) -> Self {
        Self::of_hash(SketchInput::Bytes, fingerprint(value))
    }

    /// The sketch of one integer.
    pub fn of_int64(value: i64) -> Self {
        Self::of_hash(SketchInput::Int64, fingerprint(&value.to_le_bytes()))
    }

    fn of_hash(input: SketchInput, hash: u64) -> Self {
        let sparse = (hash >> (64 - SPARSE_PRECISION)) as u32;
        let rest = match sparse & EXTRA_MASK {
            0 => rank(hash, 64 - SPARSE_PRECISION),
            _ => 0,
        };
        let registers = Registers::Sparse(BTreeMap::from([(sparse, rest)]));
        Self { input, additions: 1, registers }
    }

    /// Returns the kind of values that it counts.
    pub fn input(&self) -> SketchInput {
        self.input
    }

    /// Adds what `other` counted. A sketch of other values takes the place of this one.
    pub fn merge(&mut self, other: Self) {
        if self.input != other.input {
            *self = other;
            return;
        }
        let sum = self.additions.saturating_add(other.additions);
        self.additions = sum.min(i64::MAX as u64);
        match (&mut self.registers, other.registers) {
            (Registers::Sparse(mine), Registers::Sparse(theirs)) => {
                for (sparse, rest) in theirs {
                    let kept = mine.entry(sparse).or_default();
                    *kept = rest.max(*kept);
                }
            }
            (Registers::Normal(mine), theirs) => raise(mine, &theirs),
            (mine, Registers::Normal(mut theirs)) => {
                raise(&mut theirs, mine);
                *mine = Registers::Normal(theirs);
            }
        }
        self.bound();
    }

    /// Makes a sketch normal that has too many sparse registers.
    fn bound(&mut self) {
        let Registers::Sparse(sparse) = &self.registers else { return };
        if sparse.len() > SPARSE_MAX {
            let mut normal = vec![0; REGISTERS];
            raise(&mut normal, &self.registers);
            self.registers = Registers::Normal(normal);
        }
    }

    /// The sketch in the encoding that other programs read.
    pub fn encode(&self) -> Vec<u8> {
        let mut registers = Vec::new();
        let precisions = |out: &mut Vec<u8>| {
            put_varint_field(out, 3, u64::from(PRECISION));
            put_varint_field(out, 4, u64::from(SPARSE_PRECISION));
        };
        match &self.registers {
            Registers::Sparse(sparse) => {
                if !sparse.is_empty() {
                    put_varint_field(&mut registers, 2, sparse.len() as u64);
                }
                precisions(&mut registers);
                if !sparse.is_empty() {
                    put_bytes_field(&mut registers, 6, &sparse_bytes(sparse));
                }
            }
            Registers::Normal(normal) => {
                precisions(&mut registers);
                put_bytes_field(&mut registers, 5, normal);
            }
        }
        let mut out = Vec::with_capacity(registers.len() + 24);
        put_varint_field(&mut out, 1, AGGREGATOR);
        put_varint_field(&mut out, 2, self.additions);
        put_varint_field(&mut out, 3, ENCODING_VERSION);
        put_varint_field(&mut out, 4, self.input as u64);
        put_bytes_field(&mut out, AGGREGATOR, &registers);
        out
    }

    /// The sketch in `bytes`; an error names what is wrong with them.
    pub fn decode(bytes: &[u8]) -> Result<Self, SketchError> {
        if bytes.len() > SKETCH_BYTES_MAX {
            return Err(SketchError("it is longer than a sketch can be"));
        }
        let (mut kind, mut additions, mut version, mut input, mut state) = (0, 0, 1, 0, None);
        let mut reader = ByteReader::new(bytes);
        while let Some(field) = Field::next(&mut reader)? {
            match field {
                Field::Varint(1, value) => kind = value,
                Field::Varint(2, value) => additions = value,
                Field::Varint(3, value) => version = value,
                Field::Varint(4, value) => input = value,
                Field::Bytes(AGGREGATOR, value) => state = Some(value),
                _ => return Err(SketchError("it has an unknown field")),
            }
        }
        if (kind, version) != (AGGREGATOR, ENCODING_VERSION) {
            return Err(SketchError("it is no HyperLogLog++ sketch of encoding version 2"));
        }
        let input = match input {
            4 => SketchInput::Int64,
            11 => SketchInput::Bytes,
            _ => {
                return Err(SketchError(
                    "its value_type is neither INT64 nor BYTES_OR_UTF8_STRING",
                ));
            }
        };
        let additions =
            i64::try_from(additions).map_err(|_| SketchError("its num_values is negative"))? as u64;
        let state = state.ok_or(SketchError("it has no hyperloglogplus_unique_state"))?;
        let mut sketch = Self { input, additions, registers: decode_registers(state)? };
        sketch.bound();
        Ok(sketch)
    }
}

fn decode_registers(state: &[u8]) -> Result<Registers, SketchError> {
    let (mut size, mut precision, mut sparse_precision) = (0, 0, 0);
    let (mut normal, mut sparse) = (None, None);
    let mut reader = ByteReader::new(state);
    while let Some(field) = Field::next(&mut reader)? {
        match field {
            Field::Varint(2, value) => size = value,
            Field::Varint(3, value) => precision = value,
            Field::Varint(4, value) => sparse_precision = value,
            Field::Bytes(5, value) => normal = Some(value),
            Field::Bytes(6, value) => sparse = Some(value),
            _ => return Err(SketchError("it has an unknown field")),
        }
    }
    let precisions = (precision, sparse_precision);
    if precisions != (u64::from(PRECISION), u64::from(SPARSE_PRECISION)) {
        return Err(SketchError("its precision is not 15 with a sparse precision of 20"));
    }
    match (normal, sparse) {
        (Some(_), Some(_)) => Err(SketchError("it has both forms")),
        (Some(normal), None) => {
            let rank_max = rank(0, 64 - PRECISION);
            if normal.len() != REGISTERS || normal.iter().any(|rank| *rank > rank_max) {
                return Err(SketchError("its data is not 32768 ranks"));
            }
            Ok(Registers::Normal(normal.to_vec()))
        }
        (None, sparse) => {
            let sparse = decode_sparse(sparse.unwrap_or_default())?;
            if sparse.len() as u64 != size {
                return Err(SketchError("its sparse_size is not that of its sparse_data"));
            }
            Ok(Registers::Sparse(sparse))
        }
    }
}

fn decode_sparse(bytes: &[u8]) -> Result<BTreeMap<u32, u8>, SketchError> {
    let (mut sparse, mut value) = (BTreeMap::new(), 0_u32);
    let mut reader = ByteReader::new(bytes);
    while !reader.is_empty() {
        let step = reader.varint("sparse value")?;
        let next = u32::try_from(step).ok().and_then(|step| value.checked_add(step));
        let next = next.filter(|next| sparse.is_empty() || *next > value);
        value = next.ok_or(SketchError("its sparse_data does not ascend"))?;
        let (register, rest) = match value & RANKED {
            0 => (value, 0),
            _ => ((value ^ RANKED) >> RANK_BITS << EXTRA, (value & ((1 << RANK_BITS) - 1)) as u8),
        };
        let is_ranked = register & EXTRA_MASK == 0;
        let ranks = if is_ranked { 1..=rank(0, 64 - SPARSE_PRECISION) } else { 0..=0 };
        if register >> SPARSE_PRECISION != 0 || !ranks.contains(&rest) {
            return Err(SketchError("its sparse_data has a value that no hash gives"));
        }
        if sparse.insert(register, rest).is_some() {
            return Err(SketchError("its sparse_data has a register twice"));
        }
    }
    Ok(sparse)
}

/// The sparse values in ascending order, each as its distance from the one before.
fn sparse_bytes(sparse: &BTreeMap<u32, u8>) -> Vec<u8> {
    let mut values: Vec<u32> = sparse.iter().map(sparse_value).collect();
    values.sort_unstable();
    let (mut out, mut before) = (Vec::with_capacity(values.len() * 2), 0);
    for value in values {
        out.put_varint(u64::from(value - before));
        before = value;
    }
    out
}

/// Raises registers to the ranks in `other`.
fn raise(normal: &mut [u8], other: &Registers) {
    match other {
        Registers::Normal(other) => {
            normal.iter_mut().zip(other).for_each(|(mine, theirs)| *mine = (*mine).max(*theirs));
        }
        Registers::Sparse(other) => {
            for (register, rank) in other.iter().map(widened) {
                normal[register] = normal[register].max(rank);
            }
        }
    }
}

/// Why bytes are no sketch that is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SketchError(pub &'static str);

impl From<DecodeError> for SketchError {
    fn from(_: DecodeError) -> Self {
        Self("its bytes are malformed")
    }
}

/// A field of a protobuf message.
enum Field<'a> {
    Varint(u64, u64),
    Bytes(u64, &'a [u8]),
}

impl<'a> Field<'a> {
    /// The next field of `reader`; `None` at the end.
    fn next(reader: &mut ByteReader<'a>) -> Result<Option<Self>, SketchError> {
        if reader.is_empty() {
            return Ok(None);
        }
        let key = reader.varint("key")?;
        match key & 7 {
            0 => Ok(Some(Self::Varint(key >> 3, reader.varint("value")?))),
            2 => Ok(Some(Self::Bytes(key >> 3, reader.string("value")?))),
            _ => Err(SketchError("it has an unknown field")),
        }
    }
}

fn put_varint_field(out: &mut Vec<u8>, number: u64, value: u64) {
    out.put_varint(number << 3);
    out.put_varint(value);
}

fn put_bytes_field(out: &mut Vec<u8>, number: u64, value: &[u8]) {
    out.put_varint(number << 3 | 2);
    out.put_string(value);
}

/// Body of the fuzz target for sketches: any bytes are refused without a panic, or are a bounded sketch
/// that encodes to itself and merges with itself. The target is in `/fuzz`.
pub fn fuzz(data: &[u8]) {
    let Ok(mut sketch) = Sketch::decode(data) else { return };
    let encoded = sketch.encode();
    assert!(encoded.len() <= SKETCH_BYTES_MAX);
    assert_eq!(Sketch::decode(&encoded).as_ref(), Ok(&sketch));
    sketch.merge(sketch.clone());
    assert!(Sketch::decode(&sketch.encode()).is_ok());
}
