//! Estimate of how many different values a column has: HyperLogLog with 1,024 registers.
//!
//! Flajolet, Fusy, Gandouet, Meunier, "HyperLogLog: the analysis of a near-optimal cardinality estimation
//! algorithm" (2007), with the estimator of Ertl, "New cardinality estimation algorithms for HyperLogLog
//! sketches" (2017), algorithm 6, which needs no correction of small counts.
//!
//! The sketch of aggregate families has 32,768 registers and is made for single cells; this one is for
//! each column of each segment. Hashes are frozen: sketches of different segments merge.

use crate::ColumnType;
use crate::encoding::{BLOCK, pack, packed_bytes, unpack};
use crate::values::{Lane, Prepared, Values};
use base::checksum::xxh3;
use base::codec::PutBytes;

/// Bits of a hash that choose a register.
const PRECISION: u32 = 10;
const REGISTERS: usize = 1 << PRECISION;
const RANK_BITS: u32 = 6;
/// Largest rank: that of a hash whose other bits are all zero.
const RANK_MAX: u8 = (u64::BITS - PRECISION + 1) as u8;
/// Most registers that are listed; more take longer than all ranks.
const LISTED_MAX: usize = 383;
const LISTED: u8 = 0;
const DENSE: u8 = 1;
const _: () = assert!(2 * LISTED_MAX < REGISTERS * RANK_BITS as usize / 8);
const _: () = assert!(REGISTERS.is_multiple_of(BLOCK));

/// An estimate of how many different values were added. One standard error is 3.3 %.
#[derive(Clone, PartialEq, Eq)]
pub struct DistinctSketch {
    ranks: [u8; REGISTERS],
}

impl std::fmt::Debug for DistinctSketch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DistinctSketch(about {})", self.estimate())
    }
}

impl Default for DistinctSketch {
    fn default() -> Self {
        Self { ranks: [0; REGISTERS] }
    }
}

impl DistinctSketch {
    /// Returns about how many different values were added, NULL not counted.
    pub fn estimate(&self) -> u64 {
        const M: f64 = REGISTERS as f64;
        let mut counts = [0u32; RANK_MAX as usize + 1];
        self.ranks.iter().for_each(|rank| counts[usize::from(*rank)] += 1);
        let (zeros, largest) = (f64::from(counts[0]), f64::from(counts[usize::from(RANK_MAX)]));
        let mut z = M * tau(1.0 - largest / M);
        for count in counts[1..usize::from(RANK_MAX)].iter().rev() {
            z = 0.5 * (z + f64::from(*count));
        }
        z += M * sigma(zeros / M);
        (M * M / (2.0 * std::f64::consts::LN_2) / z).round() as u64
    }

    /// Adds all values of another sketch.
    pub fn merge(&mut self, other: &Self) {
        for (rank, other) in self.ranks.iter_mut().zip(other.ranks) {
            *rank = (*rank).max(other);
        }
    }

    /// Adds the values of a page.
    pub(crate) fn add(&mut self, prepared: &Prepared<'_>) {
        if prepared.null_count() == prepared.values.len() {
            return;
        }
        match (&prepared.values, prepared.column_type) {
            (Values::Bits(bits), _) => {
                let ones = bits.count_set_bits();
                (ones > 0).then(|| self.put(mix(1)));
                (ones < bits.len()).then(|| self.put(mix(0)));
            }
            (Values::Four(bits), ColumnType::Float32) => {
                self.put_lanes(bits, |bits| float(f32::from_bits(bits.cast_unsigned()).into()))
            }
            (Values::Eight(bits), ColumnType::Float64) => {
                self.put_lanes(bits, |bits| float(f64::from_bits(bits.cast_unsigned())));
            }
            (Values::Two(lanes), _) => self.put_lanes(lanes, |lane| mix(lane.low())),
            (Values::Four(lanes), _) => self.put_lanes(lanes, |lane| mix(lane.low())),
            (Values::Eight(lanes), _) => self.put_lanes(lanes, |lane| mix(lane.low())),
            (Values::Sixteen(lanes), _) => self.put_lanes(lanes, |lane| {
                let high = (lane.cast_unsigned() >> 64) as u64;
                mix(lane.low() ^ mix(high))
            }),
            (Values::Text(texts), _) => match &prepared.nulls {
                None => self.put_texts(texts.iter().copied()),
                Some(nulls) => self.put_texts(nulls.valid_indices().map(|row| texts[row])),
            },
        }
    }

    /// Adds hashes of values; of equal neighbours only one.
    fn put_lanes<T: Lane>(&mut self, lanes: &[T], hash: impl Fn(T) -> u64) {
        let mut last = None;
        for lane in lanes {
            if last != Some(*lane) {
                self.put(hash(*lane));
            }
            last = Some(*lane);
        }
    }

    fn put_texts<'a>(&mut self, texts: impl Iterator<Item = &'a [u8]>) {
        let mut last = None;
        for text in texts {
            if last != Some(text) {
                self.put(xxh3(text));
            }
            last = Some(text);
        }
    }

    fn put(&mut self, hash: u64) {
        let register = (hash >> (u64::BITS - PRECISION)) as usize;
        // The one behind the other bits bounds the rank.
        let rank = (hash << PRECISION | 1 << (PRECISION - 1)).leading_zeros() + 1;
        let kept = &mut self.ranks[register];
        *kept = (*kept).max(rank as u8);
    }

    /// Returns how many registers a list of them would have.
    fn listed(&self) -> usize {
        self.ranks.iter().filter(|rank| **rank != 0).count()
    }

    /// Appends the sketch, as docs/format/column_segment.md says.
    pub(super) fn encode(&self, to: &mut Vec<u8>) {
        if self.listed() > LISTED_MAX {
            to.push(DENSE);
            pack(self.ranks.iter().map(|rank| u64::from(*rank)), RANK_BITS, to);
            return;
        }
        to.push(LISTED);
        for (register, rank) in (0u16..).zip(self.ranks).filter(|(_, rank)| *rank != 0) {
            to.put_u16(register << RANK_BITS | u16::from(rank));
        }
    }

    /// Returns the sketch that some bytes are, or what is wrong with them.
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, &'static str> {
        let mut sketch = Self::default();
        let (form, bytes) = bytes.split_first().ok_or("sketch without bytes")?;
        match *form {
            LISTED => {
                let (entries, rest) = bytes.as_chunks::<2>();
                if entries.len() > LISTED_MAX || !rest.is_empty() {
                    return Err("length of a sketch");
                }
                let mut next = 0;
                for entry in entries.iter().map(|entry| u16::from_le_bytes(*entry)) {
                    let (register, rank) = (usize::from(entry >> RANK_BITS), entry & 63);
                    if register < next || rank == 0 {
                        return Err("register of a sketch");
                    }
                    sketch.ranks[register] = rank as u8;
                    next = register + 1;
                }
            }
            DENSE if bytes.len() == packed_bytes(REGISTERS, RANK_BITS) => {
                let mut ranks = sketch.ranks.iter_mut();
                unpack(bytes, RANK_BITS, REGISTERS, |block| {
                    for (from, to) in block.iter().zip(ranks.by_ref()) {
                        *to = *from as u8;
                    }
                });
                if sketch.listed() <= LISTED_MAX {
                    return Err("form of a sketch");
                }
            }
            _ => return Err("form of a sketch"),
        }
        match sketch.ranks.iter().all(|rank| *rank <= RANK_MAX) {
            true => Ok(sketch),
            false => Err("rank of a sketch"),
        }
    }
}

/// Returns the hash of a float: the same for floats that are equal in SQL.
fn float(value: f64) -> u64 {
    mix(if value.is_nan() { f64::NAN } else { value + 0.0 }.to_bits())
}

/// Mixes bits as SplitMix64 finishes.
fn mix(mut x: u64) -> u64 {
    x ^= x >> 30;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    x = x.wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if z == before {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if z == before {
            return z / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: impl Iterator<Item = u64>) -> DistinctSketch {
        let mut sketch = DistinctSketch::default();
        values.for_each(|value| sketch.put(mix(value)));
        sketch
    }

    #[test]
    fn estimates_are_near_the_truth() {
        for count in [0u64, 1, 2, 10, 100, 500, 2_000, 3_000, 5_000, 65_536, 1_000_000] {
            let estimate = of(0..count).estimate();
            let error = estimate.abs_diff(count) as f64 / count.max(1) as f64;
            assert!(error < 0.1, "{count} values are estimated as {estimate}");
            assert!(count > 100 || error < 0.03, "{count} values are estimated as {estimate}");
        }
    }

    #[test]
    fn sketches_merge_and_read_back() {
        let (low, high) = (of(0..300), of(200..5_000));
        let mut both = low.clone();
        both.merge(&high);
        assert_eq!(both, of(0..5_000));
        for sketch in [DistinctSketch::default(), low, high, both] {
            let mut bytes = Vec::new();
            sketch.encode(&mut bytes);
            assert!(bytes.len() <= 1 + REGISTERS * 6 / 8);
            assert_eq!(DistinctSketch::decode(&bytes), Ok(sketch));
        }
    }

    #[test]
    fn ranks_reach_their_limit() {
        let mut sketch = DistinctSketch::default();
        sketch.put(0);
        sketch.put(u64::MAX);
        assert_eq!((sketch.ranks[0], sketch.ranks[REGISTERS - 1]), (RANK_MAX, 1));
    }

    #[test]
    fn damaged_sketches_are_refused() {
        for (case, bytes) in [
            ("nothing", vec![]),
            ("form", vec![2]),
            ("half an entry", vec![0, 1]),
            ("rank 0", vec![0, 0x40, 0]),
            ("rank above 55", vec![0, 56, 0]),
            ("descending", vec![0, 0x81, 0, 0x41, 0]),
            ("too short", vec![1; 768]),
            ("dense rank above 55", vec![255; 769]),
        ] {
            let mut bytes = bytes;
            if case.starts_with("dense") {
                bytes[0] = 1;
            }
            assert!(DistinctSketch::decode(&bytes).is_err(), "{case}");
        }
    }
}
