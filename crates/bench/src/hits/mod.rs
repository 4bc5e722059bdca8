//! `bench hits`: the table `hits` of ClickBench in Stele's columnar tables, and beside them in Stele's tables of
//! rows, PostgreSQL, DuckDB and ClickHouse. `docs/columnar-benchmarks.md` has the method.
//!
//! 1. All engines get the same rows, which lie in a file before the first engine starts. So no engine pays for
//!    making them.
//! 2. In every round of loads each engine starts with an empty directory. The engines of the last round answer
//!    the queries: each run of a query goes through all engines in turn.
//! 3. CPU time is that of all threads and processes of an engine, background work after a load included.
//! 4. The run fails at its end if answers of Stele differ from PostgreSQL's.

mod answers;
mod data;
mod embedded;
mod engine;
mod machine;
mod outcome;
mod peer;
mod queries;
mod report;

use crate::AnyError;
use bench_core::print;
use clap::Args;
use data::Data;
use engine::{Engine, Kind};
use outcome::Answered;
use queries::Query;
use report::Report;
use std::path::{Path, PathBuf};

/// The command line of `bench hits`.
#[derive(Debug, Clone, Args)]
pub(crate) struct HitsArgs {
    /// The server binary of Stele to start and measure.
    #[arg(long)]
    server: PathBuf,
    /// The queries in PostgreSQL's dialect, each with a semicolon at its end: the file postgresql/queries.sql of
    /// ClickBench. Without it only loads are measured.
    #[arg(long)]
    queries: Option<PathBuf>,
    /// The same queries in DuckDB's dialect; --queries if not given.
    #[arg(long, requires = "queries")]
    duckdb_queries: Option<PathBuf>,
    /// The same queries in ClickHouse's dialect; --queries if not given.
    #[arg(long, requires = "queries")]
    chdb_queries: Option<PathBuf>,
    /// Numbers of the queries to run, from 0 as ClickBench counts them; all if none is given.
    #[arg(long, value_delimiter = ',')]
    only: Vec<usize>,
    /// Rows of the table; 1,000,000 rows are 710 MB of text.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    rows: u64,
    /// Seed of the rows, which are the same each time.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Further rows, which INSERT statements add before the queries run.
    #[arg(long, default_value_t = 0)]
    delta_rows: u64,
    /// Rows of Stele's table of rows at most; its times are multiplied to the whole table. 0 leaves it out.
    #[arg(long, default_value_t = 100_000)]
    rows_of_rows: u64,
    /// Loads of each engine, each into an empty directory.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Runs of each query on each engine, whose median counts.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Least time of a run in milliseconds: a quick query is repeated so long, and the mean counts. The CPU time
    /// of servers is known to 10 ms.
    #[arg(long, default_value_t = 200)]
    run_ms: u64,
    /// Longest time of a query in seconds on Stele and PostgreSQL; a longer one counts as failed.
    #[arg(long, default_value_t = 300)]
    query_seconds: u64,
    /// The bound of all memory of each Stele.
    #[arg(long, default_value = "512MiB")]
    memory_bytes_max: String,
    /// The folder with the programs of PostgreSQL, such as /usr/lib/postgresql/15/bin. Without it PostgreSQL
    /// is left out.
    #[arg(long)]
    postgres: Option<PathBuf>,
    /// The user that PostgreSQL runs as, by number: it refuses root.
    #[arg(long, requires = "postgres")]
    postgres_uid: Option<u32>,
    /// Measures DuckDB too: needs Python with the package duckdb.
    #[arg(long)]
    duckdb: bool,
    /// Measures ClickHouse too: needs Python with the package chdb.
    #[arg(long)]
    chdb: bool,
    /// The Python interpreter that has the packages of DuckDB and ClickHouse.
    #[arg(long, default_value = "python3")]
    python: PathBuf,
    /// The folder in which data is made and removed, on a disk with room for 5 times the text of the table.
    /// It is the folder for temporary files if not given.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Writes all results to this file as one JSON object.
    #[arg(long)]
    json: Option<PathBuf>,
}

impl HitsArgs {
    /// Returns the engines that take part, in the order of their turns.
    fn kinds(&self) -> Vec<Kind> {
        let wanted = [
            (Kind::Columnar, true),
            (Kind::Rows, self.rows_of_rows > 0),
            (Kind::Postgres, self.postgres.is_some()),
            (Kind::DuckDb, self.duckdb),
            (Kind::ClickHouse, self.chdb),
        ];
        wanted.into_iter().filter(|(_, wanted)| *wanted).map(|(kind, _)| kind).collect()
    }

    /// Returns the rows that a kind of engine gets by COPY.
    fn rows_of(&self, kind: Kind) -> u64 {
        if kind == Kind::Rows { self.rows.min(self.rows_of_rows) } else { self.rows }
    }

    /// Returns the further rows that a kind of engine gets: none if it does not have all rows before them.
    fn delta_rows_of(&self, kind: Kind) -> u64 {
        if self.rows_of(kind) == self.rows { self.delta_rows } else { 0 }
    }

    /// Returns by how much the times of a kind of engine are multiplied, since it has fewer rows.
    fn scale_of(&self, kind: Kind) -> f64 {
        let held = self.rows_of(kind) + self.delta_rows_of(kind);
        (self.rows + self.delta_rows) as f64 / held as f64
    }
}

/// Starts the engines and prints what it measures.
pub(crate) fn run(args: &HitsArgs) -> Result<(), AnyError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(measure(args))
}

async fn measure(args: &HitsArgs) -> Result<(), AnyError> {
    let queries = queries::read(args)?;
    let kinds = args.kinds();
    let dir = working_directory(args)?;
    let mut report = Report::new(args);
    for (name, fact) in machine::facts() {
        print(&format!("{name}: {fact}"));
    }
    engine::check(args, &kinds, dir.path()).await?;
    let data = Data::make(args, &kinds, dir.path())?;
    let mut engines = load_all(args, &kinds, &data, dir.path(), &mut report).await?;
    report.print_loads(&kinds);
    if !queries.is_empty() {
        print(&report.header(&kinds));
    }
    for query in &queries {
        let answered = ask_all(args, query, &mut engines).await;
        print(&report.line_of(&answered, &kinds));
        report.queries.push(answered);
    }
    for engine in &mut engines {
        report.note_peak(engine.kind, engine.peak_bytes().await?);
    }
    report.print_summary(&kinds);
    if let Some(file) = &args.json {
        let write = std::fs::write(file, format!("{:#}\n", report.json(&kinds)));
        write.map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
    }
    report.verdict()
}

/// Makes the folder for files and data of this run. It goes when its value is dropped.
fn working_directory(args: &HitsArgs) -> Result<tempfile::TempDir, AnyError> {
    let made = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    };
    let dir = made.map_err(|error| {
        format!("no folder for data can be made: {error}; --dir names one that exists")
    })?;
    // PostgreSQL's user must reach its data.
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), open)?;
    Ok(dir)
}

/// Loads the table into all engines, in rounds. Returns the engines of the last round, which have
/// all their rows.
async fn load_all(
    args: &HitsArgs,
    kinds: &[Kind],
    data: &Data,
    dir: &Path,
    report: &mut Report,
) -> Result<Vec<Engine>, AnyError> {
    let mut engines = Vec::new();
    for round in 1..=args.rounds {
        for kind in kinds {
            let home = dir.join(format!("{}-{round}", kind.name()));
            let failed = |error: AnyError| format!("{}: {}", kind.name(), told(&error));
            let mut engine = Engine::start(*kind, args, &home).await.map_err(failed)?;
            let loaded = engine.load(args, data).await.map_err(failed)?;
            print(&loaded.line(*kind));
            report.loads.push((*kind, loaded));
            if round == args.rounds {
                report.note_version(*kind, engine.version().await.map_err(failed)?);
                engines.push(engine);
            } else {
                engine.end().await.map_err(failed)?;
                std::fs::remove_dir_all(&home)?;
            }
        }
    }
    for engine in &mut engines {
        let kind = engine.kind;
        let failed = |error: AnyError| format!("{}: {}", kind.name(), told(&error));
        if let Some(cost) = engine.add_delta(args, data).await.map_err(failed)? {
            let rows = args.delta_rows_of(kind);
            print(&report::delta_line(kind, rows, &cost));
            report.deltas.push((kind, rows, cost));
        }
        engine.prepare_for_queries().await.map_err(failed)?;
    }
    Ok(engines)
}

/// Runs a query on all engines in turns. An engine that failed once is not asked again.
async fn ask_all(args: &HitsArgs, query: &Query, engines: &mut [Engine]) -> Answered {
    let mut answered = Answered::new(query);
    for _ in 0..args.runs {
        for engine in &mut *engines {
            if answered.failed(engine.kind) {
                continue;
            }
            let text = query.text_for(engine.kind);
            let outcome = engine.query(text, args).await.map_err(|error| told(&error));
            answered.add(engine.kind, outcome);
        }
    }
    if args.scale_of(Kind::Rows) == 1.0 {
        answered.compare(Kind::Rows, query);
    }
    answered.compare(Kind::Columnar, query);
    answered.forget_rows();
    answered
}

/// Returns the text of an error with its causes: an error of a database says little by itself.
fn told(error: &AnyError) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: HitsArgs,
    }

    /// Returns the arguments of a command line.
    pub(super) fn args(line: &str) -> HitsArgs {
        Line::parse_from(["bench", "--server=stele"].into_iter().chain(line.split_whitespace()))
            .args
    }

    #[test]
    fn engines_take_part_by_their_options() {
        assert_eq!(args("").kinds(), [Kind::Columnar, Kind::Rows]);
        let all = args("--rows-of-rows 0 --postgres bin --duckdb --chdb");
        let want = [Kind::Columnar, Kind::Postgres, Kind::DuckDb, Kind::ClickHouse];
        assert_eq!(all.kinds(), want);
    }

    #[test]
    fn a_table_of_fewer_rows_counts_as_if_it_had_all() {
        let args = args("--rows 1000 --rows-of-rows 100 --delta-rows 200");
        assert_eq!((args.rows_of(Kind::Rows), args.delta_rows_of(Kind::Rows)), (100, 0));
        assert_eq!((args.rows_of(Kind::Columnar), args.delta_rows_of(Kind::Columnar)), (1000, 200));
        assert!((args.scale_of(Kind::Rows) - 12.0).abs() < 1e-9);
        assert!((args.scale_of(Kind::Columnar) - 1.0).abs() < 1e-9);
    }
}
