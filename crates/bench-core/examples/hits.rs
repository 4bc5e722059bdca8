//! `hits`: writes the table `hits` of ClickBench, made from a seed, to standard output.

use bench_core::hits::{Hits, TextForm, create_table};
use clap::Parser;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

/// Writes the table `hits` of ClickBench to standard output: 105 columns of hits on web pages in
/// July 2013, in the order of their times. The rows are made, not the public data; the same seed and
/// number of rows always give the same bytes.
///
/// Examples:
///
///   hits --rows 1000000 > hits.tsv
///   hits --table | psql
///   hits --rows 1000000 | psql -c 'COPY hits FROM STDIN'
#[derive(Debug, Parser)]
#[command(name = "hits", verbatim_doc_comment)]
struct Arguments {
    /// Number of rows. 1,000,000 rows are about 710 MB; from there on all 43 queries select rows.
    #[arg(long, default_value_t = 1_000_000)]
    rows: u64,
    /// Seed of the rows. Tables of different seeds share visitors, sites and phrases.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Writes CSV without a header, with all text in quotes, in place of the text form of COPY.
    #[arg(long)]
    csv: bool,
    /// Threads that make rows, 1 to 256. Their number does not change the bytes.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=256))]
    threads: u16,
    /// Writes the statement that creates the table, and no rows.
    #[arg(long, conflicts_with_all = ["rows", "seed", "csv", "threads"])]
    table: bool,
}

fn main() -> ExitCode {
    match run(&Arguments::parse(), &mut io::stdout().lock()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader has enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "hits: standard output cannot be written: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments, out: &mut impl Write) -> io::Result<()> {
    if arguments.table {
        return writeln!(out, "{}", create_table("hits"));
    }
    let form = if arguments.csv { TextForm::Csv } else { TextForm::Tsv };
    Hits::new(arguments.seed, arguments.rows).write_all(form, arguments.threads, out)
}
