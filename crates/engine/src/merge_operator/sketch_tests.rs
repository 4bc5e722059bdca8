//! Sketches: the bytes that other programs read, merging, bounds and the error of estimates.

use super::sketch::{SKETCH_BYTES_MAX, Sketch, SketchError, SketchInput};
use super::{AnyOperand, Fold, Operand, Operator};
use proptest::prelude::*;

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// The sketch of the decimal numbers in `range`.
fn users(range: std::ops::Range<u32>) -> Sketch {
    let mut sketch = Sketch::empty(SketchInput::Bytes);
    range.for_each(|user| sketch.merge(Sketch::of_bytes(format!("user-{user}").as_bytes())));
    sketch
}

/// The 32,768 ranks of a sketch, read from its encoding as the page of the format says.
fn ranks(sketch: &Sketch) -> Vec<u8> {
    // A normal sketch of one value, merged in, makes a sparse one normal.
    let mut normal = vec![0; 1 << 15];
    normal[0] = 1;
    let state = [&[0x18, 15, 0x20, 20, 0x2a, 0x80, 0x80, 0x02][..], &normal].concat();
    let head = [8, 112, 16, 0, 24, 2, 32, sketch.input() as u8, 0x82, 0x07];
    let len = [
        0x80 | (state.len() & 0x7f) as u8,
        0x80 | (state.len() >> 7 & 0x7f) as u8,
        (state.len() >> 14) as u8,
    ];
    let mut marked = Sketch::decode(&[&head[..], &len, &state].concat()).unwrap();
    marked.merge(sketch.clone());
    let bytes = marked.encode();
    bytes[bytes.len() - (1 << 15)..].to_vec()
}

/// Estimate of how many values a sketch has seen, by the improved estimator of Ertl
/// (arXiv 1702.01284, section 4).
fn estimate(sketch: &Sketch) -> f64 {
    const Q: usize = 64 - 15;
    let (ranks, m) = (ranks(sketch), f64::from(1 << 15));
    let mut counts = [0.0; Q + 2];
    ranks.iter().for_each(|rank| counts[usize::from(*rank)] += 1.0);
    let tau = |mut x: f64| {
        if x == 0.0 || x == 1.0 {
            return 0.0;
        }
        let (mut y, mut z) = (1.0, 1.0 - x);
        loop {
            (x, y) = (x.sqrt(), y * 0.5);
            let before = z;
            z -= (1.0 - x).powi(2) * y;
            if z == before {
                return z / 3.0;
            }
        }
    };
    let sigma = |mut x: f64| {
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
    };
    let mut z = m * tau(1.0 - counts[Q + 1] / m);
    for rank in (1..=Q).rev() {
        z = 0.5 * (z + counts[rank]);
    }
    z += m * sigma(counts[0] / m);
    m * m / (2.0 * 2.0_f64.ln() * z)
}

#[test]
fn estimates_are_within_the_error_of_the_precision() {
    // One standard error is 1.04 / sqrt(32768) = 0.57 %.
    for count in [1_000, 10_000, 100_000, 300_000] {
        let found = estimate(&users(0..count));
        let error = (found - f64::from(count)).abs() / f64::from(count);
        assert!(error < 0.02, "{found} of {count}");
    }
    assert!(estimate(&users(0..1)) < 3.0, "the register that marks a sketch, and one more");
}

#[test]
fn values_added_again_change_nothing_but_the_count_of_additions() {
    let once = users(0..500);
    let mut twice = once.clone();
    twice.merge(users(0..500));
    assert_eq!(ranks(&twice), ranks(&once));
    assert_ne!(twice, once, "num_values is a sum");
}

#[test]
fn few_values_are_sparse_and_many_are_bounded() {
    let few = users(0..100).encode();
    assert!(few.len() < 450, "{}", few.len());
    let mut last = 0;
    for count in [5_000, 10_000, 20_000, 40_000] {
        let sketch = users(0..count);
        let bytes = sketch.encode();
        assert!(bytes.len() <= SKETCH_BYTES_MAX && bytes.len() >= last, "{count}: {}", bytes.len());
        assert_eq!(Sketch::decode(&bytes), Ok(sketch));
        last = bytes.len();
    }
}

#[test]
fn the_encoding_is_frozen() {
    let mut sketch = Sketch::empty(SketchInput::Bytes);
    for word in ["", "a", "b", "c", "foo", "bar"] {
        sketch.merge(Sketch::of_bytes(word.as_bytes()));
    }
    sketch.merge(Sketch::of_bytes(&[b'l'; 70]));
    let golden =
        unhex("087010071802200b82071c1007180f20143214abdc07ac9901cc8b02f1840e80890ccafc0eed0b");
    assert_eq!(sketch.encode(), golden);
    assert_eq!(Sketch::decode(&golden), Ok(sketch));
}

#[test]
fn what_is_no_sketch_is_refused_by_name() {
    let good = users(0..3).encode();
    let with = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    for (bytes, want) in [
        (Vec::new(), "no HyperLogLog++ sketch"),
        (vec![0; SKETCH_BYTES_MAX + 1], "longer"),
        (with(1, 100), "no HyperLogLog++ sketch"),
        (with(5, 1), "encoding version"),
        (with(7, 9), "value_type"),
        (good[..good.len() - 1].to_vec(), "malformed"),
        ([&good[..], &[0x28, 1]].concat(), "unknown field"),
        (with(12, 9), "sparse_size"),
        (with(14, 14), "precision"),
        (with(16, 21), "precision"),
    ] {
        let SketchError(found) = Sketch::decode(&bytes).unwrap_err();
        assert!(found.contains(want), "{found}, not {want}");
    }
}

#[test]
fn operands_fold_as_their_sketches_merge() {
    let operand = |range| AnyOperand::from(users(range));
    let mut newer = operand(2..5);
    assert_eq!(operand(0..3).fold_into(&mut newer), None);
    let mut whole = users(2..5);
    whole.merge(users(0..3));
    assert_eq!(newer, AnyOperand::from(whole.clone()));
    assert_eq!(AnyOperand::decode(&newer.encode()), Some(newer.clone()));

    let sum = AnyOperand::from(Operand { operator: Operator::SumInt64, value: 1 });
    assert_eq!(sum.clone().fold_into(&mut newer), Some(sum.clone()), "of another operator");
    let value = |operands: Vec<AnyOperand>| {
        let mut fold = Fold::from_put(&7_i64.to_be_bytes());
        operands.into_iter().for_each(|operand| fold.push(operand));
        let mut value = Vec::new();
        fold.finish(&mut value);
        value
    };
    assert_eq!(value(vec![operand(0..3), operand(2..5)]), {
        let mut sketch = users(0..3);
        sketch.merge(users(2..5));
        sketch.encode()
    });
    assert_eq!(value(vec![operand(0..3), sum.clone()]), 1_i64.to_be_bytes(), "afresh");
    assert_eq!(value(vec![sum, operand(0..3)]), users(0..3).encode(), "afresh");
}

/// Sketches of some of few values, so that they overlap, sparse and normal.
fn sketches() -> impl Strategy<Value = Sketch> {
    (0..400_u32, 1..200_u32, any::<bool>()).prop_map(|(from, count, normal)| {
        let mut sketch = users(from..from + count);
        if normal {
            sketch.merge(many().clone());
        }
        sketch
    })
}

/// A sketch that is normal.
fn many() -> &'static Sketch {
    static MANY: std::sync::OnceLock<Sketch> = std::sync::OnceLock::new();
    MANY.get_or_init(|| users(1_000..30_000))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn merging_is_commutative_and_associative(a in sketches(), b in sketches(), c in sketches()) {
        let merged = |first: &Sketch, second: &Sketch| {
            let mut both = first.clone();
            both.merge(second.clone());
            both
        };
        prop_assert_eq!(merged(&a, &b), merged(&b, &a));
        prop_assert_eq!(merged(&merged(&a, &b), &c), merged(&a, &merged(&b, &c)));
        prop_assert_eq!(ranks(&merged(&a, &a)), ranks(&a));
    }

    #[test]
    fn encodings_round_trip(sketch in sketches()) {
        prop_assert_eq!(Sketch::decode(&sketch.encode()), Ok(sketch));
    }

    #[test]
    fn any_bytes_are_refused_or_a_bounded_sketch(
        sketch in sketches(),
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let mut bytes = sketch.encode();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        super::sketch::fuzz(&bytes);
        super::sketch::fuzz(&bytes[at..]);
    }
}
