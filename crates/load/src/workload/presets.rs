//! Workloads from their flags.

use super::Workload;
use super::findings::Findings;
use super::keys::{Action, Keys, Mix, Shape};
use super::lane::{Lane, Share};
use super::series::Series;
use crate::Error;
use crate::args::{
    Command, HotKeysArgs, KeyOrder, KeyValueArgs, LanesArgs, MissingKeysArgs, Part, RunArgs,
    ScansArgs, SizeArgs, TimeSeriesArgs, WideRowsArgs, YcsbArgs, YcsbWorkload,
};
use crate::choose::Choice;
use crate::data::{Frontier, Identity, RowKeys, Versions};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes of values in one request of the fill, about.
const BATCH_BYTES: u64 = 2 << 20;
/// Rows and cells in one request of the fill.
const BATCH_ROWS_MAX: u64 = 100;
const BATCH_CELLS_MAX: u64 = 50_000;
/// Most bytes of values in a row, and in the answer of a scan.
const ANSWER_BYTES_MAX: u64 = 64 << 20;
/// Most bytes of values in the points of a read, which the fill writes by one request.
const POINTS_BYTES_MAX: u64 = 8 << 20;
/// Rows beyond those at the begin of a run whose versions are remembered.
const RECENT_ROWS: u64 = 100_000;
/// Keys that a run may add to those it began with.
const INSERTS_MAX: u64 = 1 << 40;

/// A workload with its workers.
pub(crate) struct Plan {
    pub(crate) name: String,
    pub(crate) workload: Workload,
    pub(crate) lanes: Vec<Lane>,
    pub(crate) identity: Identity,
    pub(crate) seed: u64,
    pub(crate) findings: Arc<Findings>,
    /// Flags of the workload with their values, for the report.
    pub(crate) settings: Vec<(&'static str, String)>,
}

/// Values that all workloads take from the flags of every run.
struct Basis<'a> {
    run: &'a RunArgs,
    identity: Identity,
    seed: u64,
    share: Share,
    /// The data may be there from an earlier run.
    reused: bool,
    now_ms: i64,
    findings: Arc<Findings>,
}

/// Returns the plan of a workload's flags; `now_ms` is the time since 1970, `random` a random seed.
pub(crate) fn plan(
    command: &Command,
    now_ms: i64,
    random: u64,
    findings: Arc<Findings>,
) -> Result<Plan, Error> {
    let basis = |run| Basis::of(run, &form(command), now_ms, random, Arc::clone(&findings));
    match command {
        Command::KeyValue(args) => key_value(basis(&args.run)?, args),
        Command::Ycsb(args) => ycsb(basis(&args.run)?, args),
        Command::TimeSeries(args) => time_series(basis(&args.run)?, args),
        Command::WideRows(args) => wide_rows(basis(&args.run)?, args),
        Command::HotKeys(args) => hot_keys(basis(&args.run)?, args),
        Command::MissingKeys(args) => missing_keys(basis(&args.run)?, args),
        Command::Scans(args) => scans(basis(&args.run)?, args),
        Command::Merge(_) | Command::Report(_) => {
            Err(Error::Program("merge and report run no workload".to_owned()))
        }
    }
}

/// Returns all flags of a workload that decide the content of its rows. Runs that differ in one of them
/// have rows of their own, so a flag that is missing here makes them report wrong answers.
fn form(command: &Command) -> String {
    let family = command.run_args().map_or("", |run| &run.target.family);
    let rows = match command {
        Command::KeyValue(args) => format!("key-value {}", args.value.value_size),
        // The workloads of YCSB share their rows, as its users expect.
        Command::Ycsb(args) => {
            format!("ycsb {} {} {:?}", args.field_count, args.field_length, args.key_order)
        }
        Command::TimeSeries(args) => {
            format!("time-series {} {} {}", args.interval_ms, args.columns, args.value_size)
        }
        Command::WideRows(args) => format!("wide-rows {} {}", args.columns, args.value_size),
        Command::HotKeys(args) => format!("hot-keys {}", args.value.value_size),
        Command::MissingKeys(args) => format!("missing-keys {}", args.value.value_size),
        Command::Scans(args) => format!("scans {}", args.value_size),
        Command::Merge(_) | Command::Report(_) => String::new(),
    };
    format!("{rows} {family}")
}

/// Shape of a table of keys.
struct Shaped {
    row_keys: RowKeys,
    columns: u64,
    value_len: u64,
    /// Keys of all processes that exist already, that the fill writes, and that may come to be.
    written: u64,
    filled: u64,
    end: u64,
    choice: Choice,
    mixes: Vec<Mix>,
    scan_rows_max: u64,
}

impl<'a> Basis<'a> {
    fn of(
        run: &'a RunArgs,
        form: &str,
        now_ms: i64,
        random: u64,
        findings: Arc<Findings>,
    ) -> Result<Self, Error> {
        let data = &run.data;
        let name = data.uuid.as_deref().or(data.no_uuid.then_some("key"));
        let named = name.map(|name| Identity::named(name, form)).transpose()?;
        let reused = named.is_some() || data.seed.is_some();
        // Processes that know the name only have one seed nevertheless. Seeds are short, for typing.
        let of_name = named.as_ref().map(|identity| identity.seed() >> 32);
        let seed = data.seed.or(of_name).unwrap_or(random);
        let identity = named.unwrap_or_else(|| Identity::of_seed(seed, form));
        if data.process.is_some() && !reused {
            return Err(Error::Setting(
                "--process needs --seed or --uuid, with the same value in every process".to_owned(),
            ));
        }
        let Part { index, of } = data.process.unwrap_or(Part { index: 0, of: 1 });
        let share = if of == 1 { Share::WHOLE } else { Share { index, of } };
        Ok(Self { run, identity, seed, share, reused, now_ms, findings })
    }

    /// Returns an error unless the data of an earlier run is named.
    fn needs_data(&self, flag: &str) -> Result<(), Error> {
        match self.reused {
            true => Ok(()),
            false => Err(Error::Setting(format!(
                "{flag} needs the --seed or --uuid of the run that wrote the data"
            ))),
        }
    }

    fn keys(&self, shape: Shaped) -> Result<Workload, Error> {
        let Shaped { columns, value_len, scan_rows_max, .. } = shape;
        let row_bytes = columns.saturating_mul(value_len);
        if row_bytes.saturating_mul(scan_rows_max) > ANSWER_BYTES_MAX {
            return Err(Error::Setting(format!(
                "columns, bytes of a value and rows of a scan make answers of {} bytes, over the \
                 limit of {ANSWER_BYTES_MAX} bytes",
                row_bytes.saturating_mul(scan_rows_max)
            )));
        }
        let [written, fill_end, end] =
            [shape.written, shape.filled, shape.end].map(|keys| self.share.part(keys));
        let known = if end < INSERTS_MAX / self.share.of { end } else { 0 };
        if shape.filled > 0 && fill_end == 0 {
            return Err(Error::Setting(format!(
                "{} rows are fewer than the {} processes of --process",
                shape.filled, self.share.of
            )));
        }
        // A run may add rows; the versions of the recent ones are remembered.
        let cells = end
            .min(written.max(fill_end).saturating_add(RECENT_ROWS).max(known))
            .saturating_mul(columns);
        let slots = self.run.data.tracked_cells;
        Ok(Workload::Keys(Keys {
            identity: self.identity.clone(),
            row_keys: shape.row_keys,
            share: self.share,
            columns,
            value_len: value_len as usize,
            frontier: Frontier::new(written, end),
            versions: Versions::new(cells, slots, self.now_ms, self.reused),
            choice: shape.choice,
            mixes: shape.mixes,
            scan_rows_max,
            fill_end,
            batch_rows: batch_rows(columns, value_len),
            findings: Arc::clone(&self.findings),
        }))
    }

    fn plan(
        self,
        name: &str,
        workload: Workload,
        lanes: Vec<Lane>,
        settings: Vec<(&'static str, String)>,
    ) -> Result<Plan, Error> {
        if lanes.iter().all(|lane| lane.workers == 0) {
            return Err(Error::Setting(
                "there are no workers: all numbers of threads are 0".into(),
            ));
        }
        let limit = |limit: Option<u64>| limit.map(|limit| self.share.part(limit).max(1));
        let lanes = lanes.into_iter().map(|lane| Lane { limit: limit(lane.limit), ..lane });
        Ok(Plan {
            name: name.to_owned(),
            workload,
            lanes: lanes.collect(),
            identity: self.identity,
            seed: self.seed,
            findings: self.findings,
            settings,
        })
    }

    /// Returns the plan of a workload with one kind of worker.
    fn sized(
        self,
        name: &str,
        size: &SizeArgs,
        mut shape: Shaped,
        mut settings: Vec<(&'static str, String)>,
    ) -> Result<Plan, Error> {
        if size.skip_fill {
            self.needs_data("--skip-fill")?;
            shape.written = size.rows;
        }
        shape.filled = size.rows;
        shape.end = shape.end.max(size.rows);
        settings.push(("rows", size.rows.to_string()));
        settings.push(("threads", size.threads.to_string()));
        settings.push(("skip-fill", size.skip_fill.to_string()));
        settings.push(("operations", option(size.operations)));
        let workload = self.keys(shape)?;
        let workers = size.threads as usize;
        let lane = Lane { name: "workers", workers, limit: size.operations };
        self.plan(name, workload, vec![lane], settings)
    }
}

/// Returns the rows of one request of the fill.
fn batch_rows(columns: u64, value_len: u64) -> usize {
    let by_bytes = BATCH_BYTES / columns.saturating_mul(value_len).max(1);
    let by_cells = BATCH_CELLS_MAX / columns.max(1);
    by_bytes.min(by_cells).clamp(1, BATCH_ROWS_MAX) as usize
}

fn option(value: Option<u64>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn key_value(basis: Basis<'_>, args: &KeyValueArgs) -> Result<Plan, Error> {
    let keys = args.num_unique_keys;
    let old = args.max_written_key.map(|last| last + 1);
    if args.read_only {
        basis.needs_data("--read-only")?;
    }
    if old.is_some() {
        basis.needs_data("--max-written-key")?;
    }
    let written = old.unwrap_or(if args.read_only { keys } else { 0 });
    let end = if args.read_only { written } else { keys.max(written) };
    let [mut writers, readers] = lanes(&args.lanes, [2, 24]);
    if args.read_only {
        writers.workers = 0;
    }
    // A reader needs a key to read: one for each process.
    let first = if readers.workers > 0 { basis.share.of.min(end) } else { 0 };
    let workload = basis.keys(Shaped {
        row_keys: RowKeys::Numbered,
        columns: 1,
        value_len: u64::from(args.value.value_size),
        written,
        filled: first.max(written),
        end,
        choice: Choice::Uniform,
        mixes: vec![vec![(Action::Write, 1.0)], vec![(Action::Read(Shape::Row), 1.0)]],
        scan_rows_max: 1,
    })?;
    let mut settings = lane_settings(&writers, &readers);
    settings.extend([
        ("num-unique-keys", keys.to_string()),
        ("value-size", args.value.value_size.to_string()),
        ("read-only", args.read_only.to_string()),
        ("max-written-key", option(args.max_written_key)),
    ]);
    basis.plan("key-value", workload, vec![writers, readers], settings)
}

/// Returns the lanes of writers and readers, in this order; `defaults` are their workers by default.
fn lanes(args: &LanesArgs, defaults: [u32; 2]) -> [Lane; 2] {
    let lane = |name, workers: Option<u32>, default: u32, limit| Lane {
        name,
        workers: workers.unwrap_or(default) as usize,
        limit,
    };
    [
        lane("writers", args.num_threads_write, defaults[0], args.num_writes),
        lane("readers", args.num_threads_read, defaults[1], args.num_reads),
    ]
}

fn lane_settings(writers: &Lane, readers: &Lane) -> Vec<(&'static str, String)> {
    vec![
        ("num-threads-write", writers.workers.to_string()),
        ("num-threads-read", readers.workers.to_string()),
        ("num-writes", option(writers.limit)),
        ("num-reads", option(readers.limit)),
    ]
}

fn ycsb(basis: Basis<'_>, args: &YcsbArgs) -> Result<Plan, Error> {
    let read = Action::Read(Shape::Row);
    let keys = basis.share.part(args.size.rows);
    let exponent = args.zipf_exponent;
    let zipfian = || Choice::zipfian(exponent, keys, 0);
    let growing =
        || Choice::zipfian(exponent, keys, basis.share.part(expected_inserts(args, 0.05)));
    let (letter, mix, choice) = match args.workload {
        YcsbWorkload::A => ("a", vec![(read, 0.5), (Action::Update, 0.5)], zipfian()),
        YcsbWorkload::B => ("b", vec![(read, 0.95), (Action::Update, 0.05)], zipfian()),
        YcsbWorkload::C => ("c", vec![(read, 1.0)], zipfian()),
        YcsbWorkload::D => {
            ("d", vec![(read, 0.95), (Action::Write, 0.05)], Choice::latest(exponent))
        }
        YcsbWorkload::E => ("e", vec![(Action::Scan, 0.95), (Action::Write, 0.05)], growing()),
        YcsbWorkload::F => ("f", vec![(read, 0.5), (Action::ReadModifyWrite, 0.5)], zipfian()),
    };
    let inserts = mix.iter().any(|(action, _)| *action == Action::Write);
    let scans = mix.iter().any(|(action, _)| *action == Action::Scan);
    let row_keys = match args.key_order {
        KeyOrder::Hashed => RowKeys::Hashed,
        KeyOrder::Ordered => RowKeys::Ordered,
    };
    let shape = Shaped {
        row_keys,
        columns: u64::from(args.field_count),
        value_len: u64::from(args.field_length),
        written: 0,
        filled: 0,
        end: if inserts { args.size.rows.saturating_add(INSERTS_MAX) } else { 0 },
        choice,
        mixes: vec![mix],
        scan_rows_max: if scans { args.max_scan_length } else { 1 },
    };
    let mut settings = vec![
        ("field-count", args.field_count.to_string()),
        ("field-length", args.field_length.to_string()),
        ("key-order", format!("{:?}", args.key_order).to_lowercase()),
        ("zipf-exponent", args.zipf_exponent.to_string()),
    ];
    if scans {
        settings.push(("max-scan-length", args.max_scan_length.to_string()));
    }
    basis.sized(&format!("ycsb {letter}"), &args.size, shape, settings)
}

/// Returns twice the keys that a run is likely to insert, as YCSB does, if a share `inserts` of its
/// operations does so. A closed loop without a limit may insert any number; its table may double.
fn expected_inserts(args: &YcsbArgs, inserts: f64) -> u64 {
    let load = &args.run.load;
    let operations = match (args.size.operations, load.rate, load.duration) {
        (Some(operations), ..) => operations as f64,
        (None, Some(rate), Some(duration)) => rate * duration.as_secs_f64(),
        _ => return args.size.rows,
    };
    (2.0 * inserts * operations).ceil() as u64
}

/// Returns a table of keys that is filled before the run and never grows.
fn table(row_keys: RowKeys, columns: u64, value_len: u64, choice: Choice, mix: Mix) -> Shaped {
    Shaped {
        row_keys,
        columns,
        value_len,
        written: 0,
        filled: 0,
        end: 0,
        choice,
        mixes: vec![mix],
        scan_rows_max: 1,
    }
}

fn wide_rows(basis: Basis<'_>, args: &WideRowsArgs) -> Result<Plan, Error> {
    let reads = args.read_proportion;
    let slices = Action::Read(Shape::Columns(u64::from(args.read_columns)));
    let mix = vec![
        (slices, reads * (1.0 - args.whole_row_proportion)),
        (Action::Read(Shape::Row), reads * args.whole_row_proportion),
        (Action::Update, 1.0 - reads),
    ];
    let value_len = u64::from(args.value_size);
    let columns = u64::from(args.columns);
    let shape = table(RowKeys::Numbered, columns, value_len, Choice::Uniform, mix);
    let settings = vec![
        ("columns", args.columns.to_string()),
        ("read-columns", args.read_columns.to_string()),
        ("whole-row-proportion", args.whole_row_proportion.to_string()),
        ("read-proportion", reads.to_string()),
        ("value-size", args.value_size.to_string()),
    ];
    basis.sized("wide-rows", &args.size, shape, settings)
}

fn hot_keys(basis: Basis<'_>, args: &HotKeysArgs) -> Result<Plan, Error> {
    let reads = args.read_proportion;
    let mix = vec![(Action::Read(Shape::Row), reads), (Action::Update, 1.0 - reads)];
    let choice = Choice::HotSpot { keys: args.hot_keys, operations: args.hot_operations };
    let shape = table(RowKeys::Numbered, 1, u64::from(args.value.value_size), choice, mix);
    let settings = vec![
        ("hot-keys", args.hot_keys.to_string()),
        ("hot-operations", args.hot_operations.to_string()),
        ("read-proportion", reads.to_string()),
        ("value-size", args.value.value_size.to_string()),
    ];
    basis.sized("hot-keys", &args.size, shape, settings)
}

fn missing_keys(basis: Basis<'_>, args: &MissingKeysArgs) -> Result<Plan, Error> {
    let mix =
        vec![(Action::Read(Shape::Row), 1.0 - args.missing), (Action::ReadMissing, args.missing)];
    let value_len = u64::from(args.value.value_size);
    let shape = table(RowKeys::Numbered, 1, value_len, Choice::Uniform, mix);
    let settings =
        vec![("missing", args.missing.to_string()), ("value-size", value_len.to_string())];
    basis.sized("missing-keys", &args.size, shape, settings)
}

fn scans(basis: Basis<'_>, args: &ScansArgs) -> Result<Plan, Error> {
    let updates = args.update_proportion;
    let mix = vec![(Action::Scan, 1.0 - updates), (Action::Update, updates)];
    let mut shape = table(RowKeys::Ordered, 1, u64::from(args.value_size), Choice::Uniform, mix);
    shape.scan_rows_max = args.max_scan_length;
    let settings = vec![
        ("max-scan-length", args.max_scan_length.to_string()),
        ("update-proportion", updates.to_string()),
        ("value-size", args.value_size.to_string()),
    ];
    basis.sized("scans", &args.size, shape, settings)
}

fn time_series(basis: Basis<'_>, args: &TimeSeriesArgs) -> Result<Plan, Error> {
    let [writers, readers] = lanes(&args.lanes, [16, 16]);
    let own = basis.share.part(args.series);
    if own < (writers.workers as u64).max(1) {
        return Err(Error::Setting(format!(
            "--series {} gives this process {own} series, fewer than its {} writers",
            args.series, writers.workers
        )));
    }
    let (columns, value_len) = (u64::from(args.columns), u64::from(args.value_size));
    let bytes = columns * value_len * args.read_points;
    if bytes > POINTS_BYTES_MAX {
        return Err(Error::Setting(format!(
            "columns, bytes of a value and points of a read make answers of {bytes} bytes, over the \
             limit of {POINTS_BYTES_MAX} bytes"
        )));
    }
    let workload = Workload::Series(Series {
        identity: basis.identity.clone(),
        share: basis.share,
        ends: std::iter::repeat_with(|| AtomicU64::new(0)).take(own as usize).collect(),
        writers: writers.workers,
        interval_ms: args.interval_ms,
        read_points: args.read_points,
        columns,
        value_len: value_len as usize,
        fill_next: AtomicU64::new(0),
        failed: parking_lot::Mutex::default(),
        findings: Arc::clone(&basis.findings),
    });
    let mut settings = lane_settings(&writers, &readers);
    settings.extend([
        ("series", args.series.to_string()),
        ("read-points", args.read_points.to_string()),
        ("interval-ms", args.interval_ms.to_string()),
        ("columns", args.columns.to_string()),
        ("value-size", args.value_size.to_string()),
    ]);
    basis.plan("time-series", workload, vec![writers, readers], settings)
}
