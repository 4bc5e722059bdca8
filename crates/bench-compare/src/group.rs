//! Workloads that share a data set: load it into every engine, find each engine's best
//! configuration, then measure in alternating pairs.
//!
//! 1. *Calibration.* Each configuration of each engine loads the data, is warmed by a scan, and
//!    does each workload for a moment. The fastest configuration of a workload counts.
//! 2. *Pairs.* Slice for slice the engines take turns on the same keys, in one order and then in
//!    the other, all of them open and warm. A ratio is that of two slices of one pair.
//! 3. *Latency.* One more slice, in which each call is timed; it counts for nothing else.

use crate::data::{Arrival, Data};
use crate::engines::{BenchEngine, Entry, Result, Setup};
use crate::load;
use crate::measure::wait_until_quiet;
use crate::report::{Compared, Figures, Report, Tried};
use crate::slice::{Reads, Slice, Timing, run_reads};
use crate::workloads::{Basis, Work, Workload};
use bench_core::Spread;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a run is carried out.
pub(crate) struct Plan<'a> {
    /// The engines, in the order of the command line.
    pub(crate) engines: &'a [&'static Entry],
    /// Configurations to which engines that have any of them are held.
    pub(crate) configurations: &'a [String],
    /// Pairs of slices.
    pub(crate) pairs: usize,
    /// How long the slowest engine's slice should take.
    pub(crate) slice: Duration,
    /// Seed of data and draws.
    pub(crate) seed: u64,
    /// Where data is kept.
    pub(crate) dir: &'a Path,
}

impl Plan<'_> {
    /// Those of an engine's configurations that are wanted; all, if none of them was named.
    fn among(&self, all: Vec<&'static str>) -> Vec<&'static str> {
        let named = |name: &&str| self.configurations.iter().any(|wanted| wanted == name);
        let wanted: Vec<_> = all.iter().copied().filter(named).collect();
        if wanted.is_empty() { all } else { wanted }
    }
}

/// An engine with the configuration that is best for one workload.
struct Contender {
    entry: &'static Entry,
    configuration: &'static str,
    /// What a call costs: CPU time or time on the clock, whichever the workload compares.
    call: Duration,
    /// This and all other configurations of the engine.
    tried: Vec<Tried>,
}

/// An engine that is open.
struct Open {
    name: &'static str,
    configuration: &'static str,
    engine: Box<dyn BenchEngine>,
}

/// Workloads that share a data set and a setup.
pub(crate) struct Group<'a> {
    plan: &'a Plan<'a>,
    data: Data,
    setup: Setup,
    open: Vec<Open>,
}

/// The engine that ratios are for, and the one they are against.
const OURS: &str = "stele";
const THEIRS: &str = "rocksdb";

/// A calibrating slice takes at least this part of a measured one.
const PILOT_SHARE: f64 = 1.0 / 6.0;
/// Calls of the slice that times each of them.
const TIMED_CALLS_MAX: u64 = 200_000;

/// Runs `workloads`, which share data and memory, and reports each as it ends.
pub(crate) fn run(plan: &Plan<'_>, workloads: &[Workload], report: &mut Report) -> Result<()> {
    let Some(first) = workloads.first() else { return Ok(()) };
    crate::progress(&format!("preparing {} rows: {:?}", first.data.rows, first.data));
    let data = Data::new(first.data, plan.seed);
    let mut group = Group { plan, data, setup: first.setup(), open: Vec::new() };
    let reads = workloads.iter().any(|workload| matches!(workload.work, Work::Reads(_)));
    let done = group.calibrate_and_measure(workloads, reads, report);
    group.close_all()?;
    done
}

impl Group<'_> {
    fn calibrate_and_measure(
        &mut self,
        workloads: &[Workload],
        reads: bool,
        report: &mut Report,
    ) -> Result<()> {
        let mut contenders: Vec<Vec<Contender>> = workloads.iter().map(|_| Vec::new()).collect();
        for entry in self.plan.engines {
            let configurations = match (entry.configurations)(&self.setup) {
                Ok(configurations) => configurations,
                Err(why) => {
                    for workload in workloads {
                        report.skipped(&workload.name, entry.name, why)?;
                    }
                    continue;
                }
            };
            for configuration in self.plan.among(configurations) {
                if reads {
                    self.open(entry, configuration)?;
                }
                for (workload, contenders) in workloads.iter().zip(&mut contenders) {
                    keep_best(contenders, self.pilot(workload, entry, configuration)?);
                }
            }
        }
        for (workload, contenders) in workloads.iter().zip(&contenders) {
            self.measure(workload, contenders, report)?;
        }
        self.check_runs()?;
        Ok(())
    }

    fn dir_of(&self, entry: &Entry, configuration: &str) -> PathBuf {
        self.plan.dir.join(format!("{}-{configuration}", entry.name))
    }

    /// Opens an engine in a configuration, loaded and warm; closes another configuration of it.
    fn open(&mut self, entry: &'static Entry, configuration: &'static str) -> Result<()> {
        let is_open = |open: &Open| open.name == entry.name && open.configuration == configuration;
        if self.open.iter().any(is_open) {
            return Ok(());
        }
        if let Some(other) = self.open.iter().position(|open| open.name == entry.name) {
            self.open.swap_remove(other).engine.close()?;
        }
        let dir = self.dir_of(entry, configuration);
        let loaded = dir.exists();
        std::fs::create_dir_all(&dir)?;
        let engine = (entry.open)(&dir, &self.setup, configuration)?;
        let name = entry.name;
        if !loaded {
            crate::progress(&format!("  {name} {configuration}: loading"));
            load::prepare(&*engine, &self.data)
                .map_err(|error| format!("{name} {configuration}: {error}"))?;
        }
        crate::progress(&format!("  {name} {configuration}: warming"));
        crate::warm::warm(&*engine, &self.data, self.setup.disk_bound, self.plan.seed)?;
        self.open.push(Open { name, configuration, engine });
        Ok(())
    }

    fn opened(&self, entry: &Entry) -> &Open {
        let open = self.open.iter().find(|open| open.name == entry.name);
        open.expect("contenders of reading workloads are opened first")
    }

    /// That reads had as many runs to look at as the data set says, of engines that count theirs.
    fn check_runs(&self) -> Result<()> {
        let Arrival::Runs(want) = self.data.spec.arrival else { return Ok(()) };
        for open in &self.open {
            match open.engine.written() {
                Some(written) if written.runs != want => {
                    let (name, runs) = (open.name, written.runs);
                    return Err(
                        format!("{name} merged {want} runs into {runs} behind reads").into()
                    );
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn close_all(&mut self) -> Result<()> {
        let closed: Vec<Result<()>> = self.open.drain(..).map(|open| open.engine.close()).collect();
        for entry in self.plan.engines {
            for configuration in (entry.configurations)(&self.setup).unwrap_or_default() {
                let dir = self.dir_of(entry, configuration);
                if dir.exists() {
                    std::fs::remove_dir_all(dir)?;
                }
            }
        }
        closed.into_iter().collect()
    }

    /// How a configuration does; for a load, a call is the whole load.
    fn pilot(
        &self,
        workload: &Workload,
        entry: &'static Entry,
        configuration: &'static str,
    ) -> Result<Contender> {
        let enough = self.plan.slice.mul_f64(PILOT_SHARE);
        let mut calls = reads_of(workload).map_or(1, |reads| reads.in_flight() as u64);
        loop {
            let slice = self.slice(workload, entry, configuration, calls, 0, Timing::Whole)?;
            let is_load = reads_of(workload).is_none();
            if slice.spent.wall >= enough || is_load {
                crate::progress(&format!(
                    "  {} {configuration}: {} {:.0} ns CPU/op, {:.0} ops/s",
                    entry.name,
                    workload.name,
                    slice.cpu_ns(),
                    slice.per_second()
                ));
                let cost = match workload.basis() {
                    Basis::Cpu => slice.spent.cpu,
                    Basis::Wall => slice.spent.wall,
                };
                let call = cost.div_f64(slice.calls as f64);
                let tried = vec![Tried {
                    configuration: configuration.to_owned(),
                    ops_per_s: slice.per_second(),
                    cpu_ns_per_op: slice.cpu_ns(),
                }];
                return Ok(Contender { entry, configuration, call, tried });
            }
            calls *= 2;
        }
    }

    /// Measures `workload` in alternating pairs and reports it.
    fn measure(
        &mut self,
        workload: &Workload,
        contenders: &[Contender],
        report: &mut Report,
    ) -> Result<()> {
        let mut calls = 1;
        if let Some(reads) = reads_of(workload) {
            for contender in contenders {
                self.open(contender.entry, contender.configuration)?;
            }
            let slowest = contenders.iter().map(|contender| contender.call).max();
            let slowest = slowest.unwrap_or(Duration::from_millis(1)).as_secs_f64().max(1e-9);
            calls =
                ((self.plan.slice.as_secs_f64() / slowest) as u64).max(reads.in_flight() as u64);
        }
        let mut slices: Vec<Vec<Slice>> = contenders.iter().map(|_| Vec::new()).collect();
        for pair in 0..self.plan.pairs {
            crate::progress(&format!(
                "{}: pair {} of {}",
                workload.name,
                pair + 1,
                self.plan.pairs
            ));
            let mut order: Vec<usize> = (0..contenders.len()).collect();
            if pair % 2 == 1 {
                order.reverse();
            }
            for at in order {
                let Contender { entry, configuration, .. } = contenders[at];
                let seed = pair as u64 + 1;
                let slice =
                    self.slice(workload, entry, configuration, calls, seed, Timing::Whole)?;
                slices[at].push(slice);
            }
        }
        for (contender, slices) in contenders.iter().zip(&slices) {
            report.figures(self.figures(workload, contender, slices)?)?;
        }
        if let Some(compared) = compare(workload, contenders, &slices) {
            report.compared(compared)?;
        }
        Ok(())
    }

    /// One slice on an engine; a load opens the engine anew in an empty directory.
    fn slice(
        &self,
        workload: &Workload,
        entry: &'static Entry,
        configuration: &'static str,
        calls: u64,
        number: u64,
        timing: Timing,
    ) -> Result<Slice> {
        wait_until_quiet().ok_or("background work never came to rest")?;
        let seed = self.plan.seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let slice = match &workload.work {
            Work::Reads(reads) => {
                let engine = &*self.opened(entry).engine;
                run_reads(engine, &self.data, &**reads, calls, seed, timing)
            }
            Work::RandomLoad => self.fresh(entry, configuration, load::random),
            Work::BulkLoad => self.fresh(entry, configuration, load::bulk),
        };
        slice.map_err(|error| format!("{} on {}: {error}", workload.name, entry.name).into())
    }

    fn fresh(
        &self,
        entry: &'static Entry,
        configuration: &'static str,
        load: fn(&dyn BenchEngine, &Data) -> Result<load::Loaded>,
    ) -> Result<Slice> {
        let dir = self.dir_of(entry, configuration).join("fresh");
        std::fs::create_dir_all(&dir)?;
        let engine = (entry.open)(&dir, &self.setup, configuration)?;
        let system = crate::measure::SystemReads::now();
        let loaded = load(&*engine, &self.data)?;
        let system = crate::measure::SystemReads::now().since(system);
        crate::warm::check_all(&*engine, &self.data)?;
        engine.close()?;
        std::fs::remove_dir_all(&dir)?;
        let (operations, spent, each) = (loaded.cells, loaded.spent, loaded.each);
        Ok(Slice { operations, calls: 1, spent, each, system, engine: None })
    }

    fn figures(
        &self,
        workload: &Workload,
        contender: &Contender,
        slices: &[Slice],
    ) -> Result<Figures> {
        let Contender { entry, configuration, .. } = *contender;
        let timed;
        let last = slices.last().ok_or("there must be a pair at least")?;
        let each = if last.each.is_empty() {
            let calls = last.calls.min(TIMED_CALLS_MAX);
            timed = self.slice(workload, entry, configuration, calls, 1, Timing::EachCall)?;
            &timed.each
        } else {
            &last.each
        };
        let middle = |value: &dyn Fn(&Slice) -> f64| Spread::of(slices.iter().map(value)).median;
        let per_op = |count: u64, slice: &Slice| count as f64 / slice.operations.max(1) as f64;
        let by_engine = last.engine.is_some();
        let reads = |slice: &Slice| slice.engine.map_or(slice.system.calls, |reads| reads.reads);
        let bytes = |slice: &Slice| {
            slice.engine.and_then(|reads| reads.bytes).unwrap_or(slice.system.bytes)
        };
        Ok(Figures {
            workload: workload.name.clone(),
            engine: entry.name.to_owned(),
            ops_per_s: middle(&Slice::per_second),
            cpu_ns_per_op: middle(&Slice::cpu_ns),
            p50_us: each.value_at_quantile(0.5) as f64 / 1e3,
            p99_us: each.value_at_quantile(0.99) as f64 / 1e3,
            disk_reads_per_op: middle(&|slice| per_op(reads(slice), slice)),
            bytes_per_op: middle(&|slice| per_op(bytes(slice), slice)),
            disk_reads_by: if by_engine { "engine" } else { "system" },
            configuration: configuration.to_owned(),
            options: self.options_of(entry, configuration)?,
            tried: contender.tried.clone(),
        })
    }

    fn options_of(&self, entry: &'static Entry, configuration: &str) -> Result<String> {
        if let Some(open) = self.open.iter().find(|open| open.name == entry.name) {
            return Ok(open.engine.options());
        }
        let dir = self.dir_of(entry, configuration).join("options");
        std::fs::create_dir_all(&dir)?;
        let engine = (entry.open)(&dir, &self.setup, configuration)?;
        let options = engine.options();
        engine.close()?;
        std::fs::remove_dir_all(&dir)?;
        Ok(options)
    }
}

fn reads_of(workload: &Workload) -> Option<&dyn Reads> {
    match &workload.work {
        Work::Reads(reads) => Some(&**reads),
        Work::RandomLoad | Work::BulkLoad => None,
    }
}

/// Keeps, of each engine, the configuration with the cheapest call.
fn keep_best(contenders: &mut Vec<Contender>, mut new: Contender) {
    let Some(known) = contenders.iter_mut().find(|known| known.entry.name == new.entry.name) else {
        return contenders.push(new);
    };
    known.tried.append(&mut new.tried);
    if new.call < known.call {
        (known.configuration, known.call) = (new.configuration, new.call);
    }
}

fn compare(
    workload: &Workload,
    contenders: &[Contender],
    slices: &[Vec<Slice>],
) -> Option<Compared> {
    let of = |name: &str| {
        let at = contenders.iter().position(|contender| contender.entry.name == name)?;
        slices.get(at)
    };
    let pairs = || Some(of(OURS)?.iter().zip(of(THEIRS)?));
    let cpu: Vec<f64> = pairs()?.map(|(ours, theirs)| theirs.cpu_ns() / ours.cpu_ns()).collect();
    let wall: Vec<f64> =
        pairs()?.map(|(ours, theirs)| ours.per_second() / theirs.per_second()).collect();
    let (basis, pairs, other) = match workload.basis() {
        Basis::Cpu => ("cpu", cpu, wall),
        Basis::Wall => ("wall", wall, cpu),
    };
    (!pairs.is_empty()).then(|| Compared {
        workload: workload.name.clone(),
        ratio_vs_rocksdb: Spread::of(pairs.iter().copied()),
        basis,
        other_ratio: Spread::of(other),
        pairs,
    })
}
