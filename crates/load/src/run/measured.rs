//! The measured part of a run: workers, the drain of each second, and the report.

use super::worker::{Shared, Streak, work};
use super::{Control, Progress};
use crate::Error;
use crate::args::{Part, RunArgs};
use crate::client::Api;
use crate::data::Identity;
use crate::measure::{
    Coarse, CpuMeter, CpuUse, Distribution, Machine, Operation, Recorder, Tally, Watch,
};
use crate::pace::{Arrivals, Backlog, BacklogState, Pacer};
use crate::report::{
    Fill, Limits, OpenLoop, Point, Process, Report, Results, SCHEMA, Summary, Timeline,
    Verification,
};
use crate::workload::{Findings, Lane, Workload};
use base::env::{Clock, SystemClock};
use bench_core::{SplitMix64, mix};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicI64;
use std::time::Duration;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::task::{JoinHandle, JoinSet};

const INTERVAL: Duration = Duration::from_secs(1);
/// Duration and warm-up of a run without limits.
const DURATION: Duration = Duration::from_secs(60);
const WARM_UP: Duration = Duration::from_secs(5);

/// A workload whose data is written.
pub(super) struct Measured<'a> {
    pub(super) name: String,
    pub(super) workload: Arc<Workload>,
    pub(super) lanes: Vec<Lane>,
    pub(super) identity: Identity,
    pub(super) seed: u64,
    pub(super) findings: Arc<Findings>,
    pub(super) settings: Vec<(&'static str, String)>,
    pub(super) args: &'a RunArgs,
    pub(super) filled: Option<Fill>,
}

/// A run whose workers work.
struct Running {
    watch: Watch,
    warm_up: Duration,
    started_ms: i64,
    recorder: Arc<Recorder>,
    streak: Arc<Streak>,
    /// Due operations of an open loop, with the number of their lane.
    backlogs: Vec<(usize, Arc<Backlog>)>,
    /// Each returns whether its lane has a limit of operations.
    workers: JoinSet<bool>,
    /// Workers of lanes with a limit that still work.
    limited: usize,
    pacer: Option<JoinHandle<Distribution>>,
}

struct Collected {
    tallies: BTreeMap<Operation, Tally>,
    timeline: Timeline,
    /// Since the end of the last interval, and since the end of the warm-up.
    lap: CpuMeter,
    meter: CpuMeter,
    warm: bool,
    machine: Machine,
    last: Duration,
}

impl Measured<'_> {
    /// Runs to the end and returns the report.
    pub(super) async fn run(
        self,
        clients: &[impl Api],
        control: &Arc<Control>,
        progress: &Progress,
    ) -> Result<Report, Error> {
        let counted = self.lanes.iter().any(|lane| lane.limit.is_some());
        let load = &self.args.load;
        let limit = load.duration.or((!counted).then_some(DURATION));
        let warm_up = load.warm_up.unwrap_or(if counted { Duration::ZERO } else { WARM_UP });
        let machine = Machine::read();
        let mut running = self.start(clients, control, warm_up);
        let mut collected = Collected::new(machine, warm_up);
        let ended = self.collect(&mut running, &mut collected, limit, control, progress).await;
        let ended = ended.inspect_err(|_| control.stop())?;
        // The measured time ends here: operations in flight may still end, and count.
        let end = running.watch.elapsed();
        let seconds = end.saturating_sub(warm_up);
        let cpu = collected.meter.total();
        control.stop();
        running.backlogs.iter().for_each(|(_, backlog)| backlog.close(end));
        let grace = tokio::time::sleep(load.timeout);
        tokio::select! {
            ended = async {
                while let Some(done) = running.workers.join_next().await {
                    done.map_err(|error| Error::Program(error.to_string()))?;
                }
                Ok::<(), Error>(())
            } => ended?,
            () = grace => {}
        }
        running.workers.shutdown().await;
        collected.drain(&running, progress);
        // The pacer adds the operations that were due before the end and that it had not released.
        let pacer = match running.pacer.take() {
            None => None,
            Some(pacer) => Some(pacer.await.map_err(|error| Error::Program(error.to_string()))?),
        };
        collected.add_unanswered(&running, &self.workload, end);
        Ok(self.report(&running, collected, pacer, ended, seconds.as_secs_f64(), cpu))
    }

    /// Starts the workers and, in an open loop, the pacer.
    fn start(&self, clients: &[impl Api], control: &Arc<Control>, warm_up: Duration) -> Running {
        let part = self.part();
        let watch = Watch::start();
        let mut running = Running {
            watch,
            warm_up,
            started_ms: SystemClock.now_micros() / 1000 + warm_up.as_millis() as i64,
            recorder: Arc::new(Recorder::new()),
            streak: Arc::new(Streak::default()),
            backlogs: Vec::new(),
            workers: JoinSet::new(),
            limited: 0,
            pacer: None,
        };
        let all: usize = self.lanes.iter().map(|lane| lane.workers).sum();
        let seed = mix(self.seed ^ mix(part.index + 1));
        let mut paced = Vec::new();
        let mut client = 0;
        for (number, lane) in self.lanes.iter().enumerate().filter(|(_, lane)| lane.workers > 0) {
            let lane_seed = mix(seed ^ (number as u64 + 1) << 32);
            let backlog = self.args.load.rate.map(|rate| {
                let rate = rate / part.of as f64 * lane.workers as f64 / all as f64;
                let bound = self.args.load.backlog as usize;
                let backlog = Arc::new(Backlog::new(bound, lane.limit, warm_up));
                let arrivals = Arrivals::new(self.args.load.arrivals, rate, lane_seed);
                paced.push((arrivals, Arc::clone(&backlog)));
                backlog
            });
            running.backlogs.extend(backlog.clone().map(|backlog| (number, backlog)));
            let shared = Arc::new(Shared {
                workload: Arc::clone(&self.workload),
                recorder: Arc::clone(&running.recorder),
                control: Arc::clone(control),
                watch,
                warm_up,
                lane: number,
                left: lane.limit.map(|limit| AtomicI64::new(limit.min(1 << 62).cast_signed())),
                backlog,
                streak: Arc::clone(&running.streak),
                findings: Arc::clone(&self.findings),
            });
            for worker in 0..lane.workers {
                let random = SplitMix64(mix(lane_seed ^ (worker as u64 + 1)));
                let connection = clients[client % clients.len()].clone();
                let (shared, limited) = (Arc::clone(&shared), lane.limit.is_some());
                running.workers.spawn(async move {
                    work(shared, worker, connection, random).await;
                    limited
                });
                running.limited += usize::from(limited);
                client += 1;
            }
        }
        if !paced.is_empty() {
            let control = Arc::clone(control);
            let pacer = Pacer::new(paced);
            running.pacer =
                Some(tokio::task::spawn_blocking(move || pacer.run(&watch, control.flag())));
        }
        running
    }

    /// Collects results each second until the run ends. Returns the reason of the end.
    async fn collect(
        &self,
        running: &mut Running,
        collected: &mut Collected,
        limit: Option<Duration>,
        control: &Control,
        progress: &Progress,
    ) -> Result<&'static str, Error> {
        let failed = |error: tokio::task::JoinError| Error::Program(error.to_string());
        let end = limit.map(|limit| running.warm_up.saturating_add(limit));
        let give_up = self.args.load.give_up_after;
        loop {
            let now = running.watch.elapsed();
            if end.is_some_and(|end| now >= end) {
                return Ok("time");
            }
            if running.streak.length(now) > give_up {
                progress.say("every operation failed for --give-up-after: the run ends");
                return Ok("no success");
            }
            // Until the end of the interval, of the warm-up, or of the run.
            let next = collected.last.saturating_add(INTERVAL);
            let next = if collected.warm { next.min(running.warm_up) } else { next };
            let next = end.map_or(next, |end| next.min(end));
            let tick = tokio::time::sleep(next.saturating_sub(now));
            tokio::select! {
                biased;
                () = control.stopped() => return Ok("interrupt"),
                done = running.workers.join_next() => {
                    let Some(limited) = done.transpose().map_err(failed)? else {
                        return Ok("count");
                    };
                    running.limited = running.limited.saturating_sub(usize::from(limited));
                    if limited && running.limited == 0 {
                        return Ok("count");
                    }
                    continue;
                },
                () = tick => {}
            }
            if running.watch.elapsed() >= next {
                collected.drain(running, progress);
            }
        }
    }

    fn part(&self) -> Part {
        self.args.data.process.unwrap_or(Part { index: 0, of: 1 })
    }

    fn report(
        self,
        running: &Running,
        collected: Collected,
        pacer: Option<Distribution>,
        ended: &str,
        seconds: f64,
        cpu: CpuUse,
    ) -> Report {
        let open_loop = pacer.and_then(|pacer| self.open_loop(running, &collected.tallies, pacer));
        let workers: usize = self.lanes.iter().map(|lane| lane.workers).sum();
        let missed = open_loop.as_ref().map(|open| {
            // When a run ends, each worker may have one operation that it was about to begin.
            let late = open.not_begun.saturating_sub(workers as u64);
            (&open.pacer_histogram, open.due, open.left_out.saturating_add(late))
        });
        let machine = collected.machine;
        let limits = Limits { machine: &machine, cpu, seconds, open_loop: missed };
        let (limit, statement) = limits.verdict();
        let cpu_share = limits.cpu_share();
        let process = Process {
            part: self.part(),
            machine,
            cpu,
            cpu_share,
            limit: limit.to_owned(),
            statement,
        };
        let (values, wrong, examples) = self.findings.summary();
        let tallies = collected
            .tallies
            .into_iter()
            .map(|(operation, tally)| (operation.name().to_owned(), Results::of(tally, seconds)));
        let moment = OffsetDateTime::from_unix_timestamp(running.started_ms / 1000);
        let started = moment.ok().and_then(|moment| moment.format(&Rfc3339).ok());
        Report {
            schema: SCHEMA,
            program: format!("stele load {}", env!("CARGO_PKG_VERSION")),
            title: self.args.output.title.clone(),
            settings: self.settings(),
            workload: self.name,
            data: self.identity.prefix().to_owned(),
            seed: self.seed,
            started: started.unwrap_or_default(),
            started_ms: running.started_ms,
            warm_up_seconds: running.warm_up.as_secs_f64(),
            seconds,
            ended: ended.to_owned(),
            fill: self.filled,
            operations: tallies.collect(),
            open_loop,
            messages: self.findings.messages(),
            verification: Verification { values, wrong, examples },
            processes: vec![process],
            timeline: collected.timeline,
        }
    }

    /// Returns the account of an open loop.
    fn open_loop(
        &self,
        running: &Running,
        tallies: &BTreeMap<Operation, Tally>,
        pacer: Distribution,
    ) -> Option<OpenLoop> {
        let rate = self.args.load.rate?;
        let mut delays = Distribution::new();
        tallies.values().for_each(|tally| delays.add(&tally.delay));
        let states: Vec<BacklogState> =
            running.backlogs.iter().map(|(_, backlog)| backlog.state()).collect();
        let sum = |of: fn(&BacklogState) -> u64| states.iter().map(of).sum();
        Some(OpenLoop {
            rate: rate / self.part().of as f64,
            due: sum(|state| state.arrived),
            left_out: sum(|state| state.left_out),
            not_begun: sum(|state| state.waiting),
            backlog_max: sum(|state| state.longest),
            delay_us: Summary::of(&delays),
            delay_histogram: delays,
            pacer_us: Summary::of(&pacer),
            pacer_histogram: pacer,
        })
    }

    /// Returns the flags for the report. Files of keys and tokens are not among them.
    fn settings(&self) -> BTreeMap<String, String> {
        let args = self.args;
        let seconds = |time: Option<Duration>| {
            time.map_or_else(|| "default".to_owned(), |time| format!("{} s", time.as_secs_f64()))
        };
        let common = [
            ("endpoint", args.target.endpoint.clone()),
            ("project", args.target.project.clone()),
            ("instance", args.target.instance.clone()),
            ("table", args.target.table.clone()),
            ("family", args.target.family.clone()),
            ("connections", args.load.connections.to_string()),
            ("rate", args.load.rate.map_or("none".to_owned(), |rate| rate.to_string())),
            ("duration", seconds(args.load.duration)),
            ("warm-up", seconds(args.load.warm_up)),
            ("timeout", seconds(Some(args.load.timeout))),
            ("tracked-cells", args.data.tracked_cells.to_string()),
            ("process", self.part().to_string()),
        ];
        let own = self.settings.iter().map(|(name, value)| (*name, value.clone()));
        let all = common.into_iter().chain(own);
        let mut settings: BTreeMap<String, String> =
            all.map(|(name, value)| (name.to_owned(), value)).collect();
        if args.load.rate.is_some() {
            let spacing = format!("{:?}", args.load.arrivals).to_lowercase();
            settings.insert("arrivals".to_owned(), spacing);
            settings.insert("backlog".to_owned(), args.load.backlog.to_string());
        }
        settings
    }
}

impl Collected {
    fn new(machine: Machine, warm_up: Duration) -> Self {
        Self {
            tallies: BTreeMap::new(),
            timeline: Timeline::new(INTERVAL.as_secs_f64()),
            lap: CpuMeter::start(),
            meter: CpuMeter::start(),
            warm: !warm_up.is_zero(),
            machine,
            last: Duration::ZERO,
        }
    }

    /// Adds the operations that were due in an open loop and never begun until its `end`. They get the
    /// kinds of their lane, by weight.
    fn add_unanswered(&mut self, running: &Running, workload: &Workload, end: Duration) {
        for (lane, backlog) in &running.backlogs {
            let (kinds, weights): (Vec<Operation>, Vec<f64>) =
                workload.kinds(*lane).into_iter().unzip();
            let parts = backlog.unanswered(end).split(&weights);
            for (operation, part) in kinds.into_iter().zip(parts) {
                if part.count() > 0 {
                    let tally = self.tallies.entry(operation).or_insert_with(Tally::new);
                    tally.unanswered.add(&part);
                }
            }
        }
    }

    /// Takes the results since the last call as one interval.
    fn drain(&mut self, running: &Running, progress: &Progress) {
        let now = running.watch.elapsed();
        let seconds = now.saturating_sub(self.last).as_secs_f64();
        let drained = running.recorder.drain();
        let cpu = self.lap.lap();
        let (mut operations, mut errors) = (BTreeMap::new(), BTreeMap::<String, u64>::new());
        for (operation, tally) in &drained.all {
            if tally.latency.count() > 0 {
                operations.insert(operation.name().to_owned(), Coarse::of(&tally.latency));
            }
            for (class, count) in &tally.errors {
                *errors.entry((*class).to_owned()).or_default() += count;
            }
        }
        for (operation, tally) in &drained.measured {
            self.tallies.entry(*operation).or_insert_with(Tally::new).add(tally);
        }
        let available = (seconds * self.machine.cores.max(1) as f64).max(1e-9);
        let point = Point {
            seconds,
            warm_up: self.warm,
            operations,
            errors,
            backlog: running.backlogs.iter().map(|(_, backlog)| backlog.state().waiting).sum(),
            cpu_share: (cpu.client_seconds / available).min(1.0),
        };
        progress.tick(now, &drained.all, &point);
        self.timeline.push(point);
        self.last = now;
        if self.warm && now >= running.warm_up {
            self.warm = false;
            self.meter = CpuMeter::start();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Command;
    use crate::workload::plan;
    use clap::Parser;
    use parking_lot::Mutex;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(subcommand)]
        command: Command,
    }

    #[tokio::test(start_paused = true)]
    async fn operations_that_never_began_count_by_the_kinds_of_their_lane() {
        let findings = Arc::new(Findings::new(Arc::new(Mutex::new(std::io::sink()))));
        let line = Line::try_parse_from(["load", "ycsb", "b"]).unwrap();
        let workload = plan(&line.command, 0, 1, findings).unwrap().workload;
        let (at, warm_up) = (Duration::from_secs, Duration::from_secs(5));
        let backlog = Arc::new(Backlog::new(10, None, warm_up));
        // Ten wait, of which five are due in the warm-up; a thousand are left out.
        (0..10).for_each(|seconds| assert!(backlog.push(at(seconds))));
        (0..1000).for_each(|_| assert!(backlog.push(at(20))));
        let running = Running {
            watch: Watch::start(),
            warm_up,
            started_ms: 0,
            recorder: Arc::new(Recorder::new()),
            streak: Arc::new(Streak::default()),
            backlogs: vec![(0, backlog)],
            workers: JoinSet::new(),
            limited: 0,
            pacer: None,
        };
        let mut collected = Collected::new(Machine::read(), warm_up);
        collected.add_unanswered(&running, &workload, at(30));
        let count = |operation| collected.tallies[&operation].unanswered.count();
        assert_eq!(count(Operation::Read) + count(Operation::Update), 1005);
        assert!(count(Operation::Read).abs_diff(955) <= 2, "{}", count(Operation::Read));
        let read = &collected.tallies[&Operation::Read].unanswered;
        assert!(read.quantile(0.5).abs_diff(10_000_000) < 20_000, "{read:?}");
        assert!(read.max() > 20_000_000, "{read:?}");
    }
}
