//! Choice of the encoding of a page.
//!
//! Candidates encode a sample of the page, and the shortest one encodes all of it. A sample does not tell
//! how many different values there are, nor how far apart: if the page came out longer than
//! another candidate was expected to be, that one is tried too.

use super::{Choice, Compression, PageOptions};
use crate::EncodingKind;
use crate::encoding::{Output, encode_as};
use crate::values::Values;
use std::ops::Range;

/// Runs of a sample, and values of a run.
const SAMPLE_RUNS: usize = 8;
const SAMPLE_RUN_ROWS: usize = 128;
/// Cost of a compressed byte, compared with one that needs no decompression.
const COMPRESSED_COST: f64 = 1.15;
/// Candidates that may encode a whole page.
const TRIED_MAX: usize = 2;

/// A candidate, as its sample promises.
struct Candidate {
    kind: EncodingKind,
    /// Length of the encoded sample.
    sample_len: usize,
    /// Length of its page after compression, [`COMPRESSED_COST`] included.
    cost: f64,
    /// The same, for each byte before compression.
    byte_cost: f64,
}

/// Returns values encoded as the options say. What is compressed is for the caller to do.
pub(super) fn encode(values: &Values<'_>, options: &PageOptions) -> Output {
    match options.choice {
        Choice::Forced(kind) => first_that_suits(&[kind], values),
        Choice::Deferred => {
            first_that_suits(&[EncodingKind::Constant, EncodingKind::Frame], values)
        }
        Choice::Sampled => sampled(values, options.compression),
    }
}

/// Returns the first of some encodings that suits and is no longer than plain, else plain.
fn first_that_suits(kinds: &[EncodingKind], values: &Values<'_>) -> Output {
    for &kind in kinds {
        let mut out = Output::default();
        if encode_as(kind, values, &mut out).is_some() && out.len() <= values.plain_bytes() {
            return out;
        }
    }
    plain(values)
}

fn plain(values: &Values<'_>) -> Output {
    let mut out = Output::default();
    encode_as(EncodingKind::Plain, values, &mut out);
    out
}

fn sampled(values: &Values<'_>, compression: Compression) -> Output {
    let mut constant = Output::default();
    if encode_as(EncodingKind::Constant, values, &mut constant).is_some() {
        return constant;
    }
    let candidates = candidates(values, compression);
    let mut best: Option<(f64, Output)> = None;
    for candidate in candidates.iter().take(TRIED_MAX) {
        if best.as_ref().is_some_and(|(cost, _)| *cost <= candidate.cost) {
            break;
        }
        let mut out = Output::default();
        if encode_as(candidate.kind, values, &mut out).is_none() || out.len() > values.plain_bytes()
        {
            continue;
        }
        let cost = out.len() as f64 * candidate.byte_cost;
        if best.as_ref().is_none_or(|(best, _)| cost < *best) {
            best = Some((cost, out));
        }
    }
    best.map_or_else(|| plain(values), |(_, out)| out)
}

/// Returns the encodings that suit a sample, from the one that promises the shortest page on.
fn candidates(values: &Values<'_>, compression: Compression) -> Vec<Candidate> {
    use EncodingKind::{Delta, Dictionary, Frame, Fsst, Plain, RunLength};
    let kinds: &[EncodingKind] = match values {
        Values::Bits(_) => &[Plain, RunLength],
        Values::Text(_) => &[Dictionary, Fsst, RunLength, Plain],
        _ => &[Frame, Delta, Dictionary, RunLength, Plain],
    };
    let sample = sample(values);
    let grown = values.len() as f64 / sample.len() as f64;
    let mut candidates: Vec<Candidate> = Vec::with_capacity(kinds.len());
    for &kind in kinds {
        let mut out = Output::default();
        if encode_as(kind, &sample, &mut out).is_some() {
            let byte_cost = byte_cost(&out, compression);
            let cost = grown_len(&out, grown) * byte_cost;
            candidates.push(Candidate { kind, sample_len: out.len(), cost, byte_cost });
        }
    }
    drop_dictionary_of_runs(&mut candidates);
    candidates.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    candidates
}

/// Removes the dictionary if runs make the sample as short. Its estimate takes the distinct values of
/// the sample for all there are, which is seldom true of runs.
fn drop_dictionary_of_runs(candidates: &mut Vec<Candidate>) {
    let len = |kind| {
        let candidate = candidates.iter().find(|candidate| candidate.kind == kind);
        candidate.map(|candidate| candidate.sample_len)
    };
    let (runs, dictionary) = (len(EncodingKind::RunLength), len(EncodingKind::Dictionary));
    if runs.is_some_and(|runs| dictionary.is_some_and(|dictionary| runs <= dictionary)) {
        candidates.retain(|candidate| candidate.kind != EncodingKind::Dictionary);
    }
}

/// Returns the length that an output would have with `grown` times as many values.
fn grown_len(out: &Output, grown: f64) -> f64 {
    let fixed = out.fixed.min(out.len());
    fixed as f64 + (out.len() - fixed) as f64 * grown
}

/// Returns what a byte of an output costs after compression.
fn byte_cost(out: &Output, compression: Compression) -> f64 {
    match compression.compress(&out.bytes) {
        Some(compressed) => compressed.len() as f64 / out.len() as f64 * COMPRESSED_COST,
        None => 1.0,
    }
}

/// Returns runs of values from all over the page, or all values if they are few.
fn sample<'a>(values: &Values<'a>) -> Values<'a> {
    let rows = values.len();
    if rows <= 2 * SAMPLE_RUNS * SAMPLE_RUN_ROWS {
        return values.clone();
    }
    let last = rows - SAMPLE_RUN_ROWS;
    let run = |index| {
        let start = last * index / (SAMPLE_RUNS - 1);
        start..start + SAMPLE_RUN_ROWS
    };
    let runs: Vec<Range<usize>> = (0..SAMPLE_RUNS).map(run).collect();
    values.pick(&runs)
}
