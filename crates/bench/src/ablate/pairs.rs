//! Slices in turns, and their ratios.

use super::data::Opened;
use super::workloads::Workload;
use super::{AblateArgs, AnyError};
use crate::measure::Phase;
use bench_core::Spread;
use serde::Serialize;

/// What a switch does to a workload.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Compared {
    /// CPU nanoseconds an operation with everything on.
    pub(super) on_ns: Spread,
    /// The same with the part off.
    pub(super) off_ns: Spread,
    /// CPU with the part off in CPUs with it on, within a pair: above 1 the part pays.
    pub(super) off_by_on: Spread,
    /// Blocks read from disk for an operation, with everything on.
    pub(super) on_disk_reads: f64,
    /// The same with the part off.
    pub(super) off_disk_reads: f64,
}

/// A slice: CPU nanoseconds and disk reads, each for an operation.
struct Slice {
    ns: f64,
    disk_reads: f64,
}

impl Compared {
    /// Measures the pairs.
    pub(super) fn measure(
        args: &AblateArgs,
        workload: &Workload,
        on: &Opened,
        off: &Opened,
    ) -> Result<Self, AnyError> {
        let (mut ons, mut offs) = (Vec::new(), Vec::new());
        for pair in 0..args.pairs {
            let slice = |opened: &Opened| slice(args, workload, opened, pair as u64);
            if pair % 2 == 0 {
                ons.push(slice(on)?);
                offs.push(slice(off)?);
            } else {
                offs.push(slice(off)?);
                ons.push(slice(on)?);
            }
        }
        let ns = |slices: &[Slice]| Spread::of(slices.iter().map(|slice| slice.ns));
        let disk_reads = |slices: &[Slice]| {
            slices.iter().map(|slice| slice.disk_reads).sum::<f64>() / slices.len() as f64
        };
        let ratios = offs.iter().zip(&ons).map(|(off, on)| off.ns / on.ns);
        Ok(Self {
            on_ns: ns(&ons),
            off_ns: ns(&offs),
            off_by_on: Spread::of(ratios),
            on_disk_reads: disk_reads(&ons),
            off_disk_reads: disk_reads(&offs),
        })
    }
}

fn slice(
    args: &AblateArgs,
    workload: &Workload,
    opened: &Opened,
    pair: u64,
) -> Result<Slice, AnyError> {
    let questions = workload.questions(args, opened, pair);
    let before = opened.counter("cache_misses_total")?;
    let phase = Phase::measure(workload.name, || (workload.run)(opened, &questions))?;
    let read = opened.counter("cache_misses_total")? - before;
    Ok(Slice { ns: phase.cpu_ns(), disk_reads: read as f64 / phase.operations as f64 })
}
