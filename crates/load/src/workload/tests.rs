//! Every workload against a table in memory: right answers pass, and each lie is found.

use super::*;
use crate::args::Command;
use crate::client::testing::{Fake, Lie};
use crate::client::{Api, Cell, Row};
use bytes::Bytes;
use clap::{Parser, Subcommand};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

#[derive(Debug, Parser)]
struct Line {
    #[command(subcommand)]
    command: Command,
}

/// Reads a command line such as `key-value --num-reads 3`.
fn command(line: &str) -> Result<Command, String> {
    let words = ["load"].into_iter().chain(line.split_whitespace());
    Ok(Line::try_parse_from(words).map_err(|error| error.to_string())?.command)
}

fn planned(line: &str) -> Result<Plan, String> {
    let findings = Arc::new(Findings::new(Arc::new(Mutex::new(std::io::sink()))));
    let command = command(line)?;
    plan(&command, 1_000_000, 7, findings).map_err(|error| error.to_string())
}

async fn filled(line: &str, api: &mut Fake) -> Plan {
    let plan = planned(line).unwrap();
    loop {
        match plan.workload.fill() {
            Next::Done => return plan,
            Next::Later => panic!("one task fills"),
            Next::Do(batch) => {
                let outcomes = api.write_many(batch.rows().to_vec()).await.unwrap();
                let written: Vec<bool> = outcomes.iter().map(Result::is_ok).collect();
                assert_eq!(plan.workload.filled(&batch, &written), written.len() as u64);
            }
        }
    }
}

/// Does `count` operations of each worker in turn; returns the first trouble.
async fn operate(plan: &Plan, api: &mut Fake, count: usize) -> Result<u64, Trouble> {
    let mut random = SplitMix64(3);
    let mut done = 0;
    for _ in 0..count {
        for (lane, workers) in plan.lanes.iter().enumerate() {
            for worker in 0..workers.workers {
                if let Next::Do(task) = plan.workload.next(lane, worker, &mut random) {
                    plan.workload.perform(&task, api).await?;
                    done += 1;
                }
            }
        }
    }
    Ok(done)
}

const LINES: [&str; 14] = [
    "key-value --num-unique-keys 50 --num-threads-write 1 --num-threads-read 2",
    "ycsb a --rows 20 --threads 1",
    "ycsb b --rows 20 --threads 1",
    "ycsb c --rows 20 --threads 1 --field-count 2",
    "ycsb d --rows 20 --threads 1",
    "ycsb e --rows 20 --threads 1",
    "ycsb e --rows 20 --threads 1 --key-order ordered --max-scan-length 30",
    "ycsb f --rows 20 --threads 1",
    "time-series --series 5 --num-threads-write 2 --num-threads-read 1 --columns 2",
    "wide-rows --rows 3 --columns 40 --read-columns 7 --threads 1 --whole-row-proportion 0.3",
    "hot-keys --rows 30 --threads 1",
    "missing-keys --rows 30 --threads 1",
    "scans --rows 30 --threads 1 --max-scan-length 10 --update-proportion 0.2",
    "key-value --num-unique-keys 9 --process 1/2 --seed 3 --num-threads-write 1",
];

#[tokio::test(start_paused = true)]
async fn every_workload_accepts_a_right_table() {
    for line in LINES {
        let mut api = Fake::default();
        let plan = filled(line, &mut api).await;
        let done = operate(&plan, &mut api, 200).await;
        assert!(done.unwrap() >= 200, "{line}");
        let (checked, wrong, _) = plan.findings.summary();
        assert!(wrong.is_empty(), "{line}: {wrong:?}");
        assert!(checked > 10, "{line}: {checked}");
    }
}

/// Returns the first trouble of a workload whose answers `lie` changes after the fill.
async fn trouble(line: &str, lie: Lie) -> Option<Trouble> {
    let mut api = Fake::default();
    let plan = filled(line, &mut api).await;
    api.lie = Some(lie);
    operate(&plan, &mut api, 200).await.err()
}

#[tokio::test(start_paused = true)]
async fn every_lie_is_found_by_every_workload() {
    let change: fn(&mut Vec<Row>) = |rows| {
        for cell in rows.iter_mut().flat_map(|row| &mut row.cells) {
            let mut value = cell.value.to_vec();
            value[0] ^= 1;
            cell.value = value.into();
        }
    };
    let shorten: fn(&mut Vec<Row>) = |rows| {
        for cell in rows.iter_mut().flat_map(|row| &mut row.cells) {
            cell.value = cell.value.slice(1..);
        }
    };
    let drop_rows: fn(&mut Vec<Row>) = Vec::clear;
    let drop_first: fn(&mut Vec<Row>) = |rows| drop(rows.drain(..rows.len().min(1)));
    let drop_cell: fn(&mut Vec<Row>) = |rows| {
        rows.iter_mut().for_each(|row| drop(row.cells.pop()));
    };
    let other_version: fn(&mut Vec<Row>) = |rows| {
        rows.iter_mut().flat_map(|row| &mut row.cells).for_each(|cell| cell.timestamp += 1);
    };
    let other_row: fn(&mut Vec<Row>) = |rows| {
        rows.iter_mut().for_each(|row| row.key = Bytes::from_static(b"zzz"));
    };
    let extra_cell: fn(&mut Vec<Row>) = |rows| {
        for row in rows {
            row.cells.extend(row.cells.last().cloned());
        }
    };
    let lengthen: fn(&mut Vec<Row>) = |rows| {
        for cell in rows.iter_mut().flat_map(|row| &mut row.cells) {
            cell.value = cell.value.repeat(1000).into();
        }
    };
    let all_twice: fn(&mut Vec<Row>) = |rows| {
        for row in rows {
            row.cells = row.cells.iter().flat_map(|cell| vec![cell.clone(); 2]).collect();
        }
    };
    let extra_rows: fn(&mut Vec<Row>) = |rows| {
        let Some(last) = rows.last().cloned() else { return };
        rows.extend((0..2000u32).map(|number| {
            let key = [&last.key[..], format!("x{number:05}").as_bytes()].concat();
            Row { key: key.into(), ..last.clone() }
        }));
    };
    for line in LINES {
        for (name, lie, problems) in [
            ("change", change, &[Problem::WrongValue][..]),
            ("shorten", shorten, &[Problem::WrongValue]),
            ("drop rows", drop_rows, &[Problem::MissingRow]),
            ("drop the first row", drop_first, &[Problem::MissingRow]),
            // A row of one column is gone with its cell.
            ("drop a cell", drop_cell, &[Problem::MissingCell, Problem::MissingRow]),
            ("other version", other_version, &[Problem::NeverWritten, Problem::WrongValue]),
            ("other row", other_row, &[Problem::Unexpected, Problem::MissingRow]),
            ("extra cell", extra_cell, &[Problem::Unexpected]),
            ("every version twice", all_twice, &[Problem::Unexpected]),
            ("extra rows", extra_rows, &[Problem::Unexpected]),
            ("long values", lengthen, &[Problem::WrongValue]),
        ] {
            let found = trouble(line, Arc::new(lie)).await;
            let Some(Trouble::Wrong(problem)) = found else { panic!("{line}: {name}: {found:?}") };
            assert!(problems.contains(&problem), "{line}: {name}: {problem:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_value_after_an_acknowledged_write_is_stale() {
    let mut api = Fake { delay: Duration::from_millis(1), ..Fake::default() };
    let plan = filled("hot-keys --rows 1 --threads 1", &mut api).await;
    let before = api.rows.lock().clone();
    let mut random = SplitMix64(1);
    loop {
        let Next::Do(task) = plan.workload.next(0, 0, &mut random) else { panic!("no work") };
        if plan.workload.operation(&task) == Operation::Update {
            plan.workload.perform(&task, &mut api).await.unwrap();
            break;
        }
    }
    // The server loses the update.
    *api.rows.lock() = before;
    let found = operate(&plan, &mut api, 50).await;
    assert_eq!(found, Err(Trouble::Wrong(Problem::StaleValue)));
}

#[tokio::test(start_paused = true)]
async fn a_scan_that_leaves_a_row_out_is_found_when_rows_are_ordered() {
    let gap: Lie = Arc::new(|rows: &mut Vec<Row>| {
        if rows.len() > 2 {
            rows.remove(1);
        }
    });
    let cut: Lie = Arc::new(|rows: &mut Vec<Row>| rows.truncate(1));
    let twice: Lie = Arc::new(|rows: &mut Vec<Row>| {
        let first = rows.first().cloned();
        if rows.len() < 5 {
            rows.splice(0..0, first);
        }
    });
    let backwards: Lie = Arc::new(|rows: &mut Vec<Row>| rows.reverse());
    let line = "scans --rows 30 --threads 1 --max-scan-length 10";
    for (lie, problem) in [
        (gap, Problem::MissingRow),
        (cut, Problem::MissingRow),
        (twice, Problem::Unexpected),
        (backwards, Problem::Unexpected),
    ] {
        let found = trouble(line, lie).await;
        let allowed = [Some(Trouble::Wrong(problem)), Some(Trouble::Wrong(Problem::MissingRow))];
        assert!(allowed.contains(&found), "{found:?} {problem:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_was_never_written_must_not_be_there() {
    let mut api = Fake::default();
    let plan = filled("missing-keys --rows 5 --missing 1 --threads 1", &mut api).await;
    let invented: Lie = Arc::new(|rows: &mut Vec<Row>| {
        let cell = Cell { qualifier: "c00000".into(), timestamp: 1000, value: "v".into() };
        rows.push(Row { key: Bytes::from_static(b"ghost"), cells: vec![cell] });
    });
    api.lie = Some(invented);
    let found = operate(&plan, &mut api, 5).await;
    assert_eq!(found, Err(Trouble::Wrong(Problem::Unexpected)));
}

#[tokio::test(start_paused = true)]
async fn data_of_an_earlier_run_is_verified_by_its_seed() {
    let mut api = Fake::default();
    let line = "key-value --seed 5 --num-unique-keys 20 --num-threads-write 1 --num-threads-read 0";
    let plan = filled(line, &mut api).await;
    operate(&plan, &mut api, 60).await.unwrap();
    let again = filled("key-value --seed 5 --num_unique_keys 20 --read_only", &mut api).await;
    assert_eq!(again.lanes.iter().map(|lane| lane.workers).collect::<Vec<_>>(), [0, 24]);
    assert!(operate(&again, &mut api, 5).await.unwrap() > 100);
    // The name that a run prints is a name for later runs.
    let line = "key-value --num_unique_keys 20 --read_only --uuid";
    let printed = filled(&format!("{line} {}", plan.identity.prefix()), &mut api).await;
    assert!(operate(&printed, &mut api, 5).await.unwrap() > 100);
    let [one, two] =
        ["key-value --uuid a", "key-value --uuid a"].map(|line| planned(line).unwrap());
    assert_eq!((one.seed, one.identity), (two.seed, two.identity));
    let other = filled("key-value --seed 6 --num_unique_keys 20 --read_only", &mut api).await;
    let found = operate(&other, &mut api, 5).await;
    assert_eq!(found, Err(Trouble::Wrong(Problem::MissingRow)));
}

/// Returns the row keys that a workload with this command line has after the fill and some operations.
async fn row_keys(line: &str) -> BTreeSet<Vec<u8>> {
    let mut api = Fake::default();
    let plan = filled(line, &mut api).await;
    operate(&plan, &mut api, 20).await.unwrap();
    let rows = api.rows.lock();
    rows.keys().cloned().collect()
}

#[tokio::test(start_paused = true)]
async fn workloads_of_one_seed_or_name_and_of_other_contents_meet_no_rows_of_each_other() {
    let lines = [
        "key-value --num-unique-keys 9 --num-threads-write 1",
        "key-value --num-unique-keys 9 --num-threads-write 1 --value-size 9",
        "key-value --num-unique-keys 9 --num-threads-write 1 --family g",
        "ycsb e --rows 9 --threads 1",
        "ycsb e --rows 9 --threads 1 --key-order ordered",
        "ycsb a --rows 9 --threads 1 --field-count 2",
        "ycsb a --rows 9 --threads 1 --field-length 2",
        "time-series --series 5 --num-threads-write 2",
        "time-series --series 5 --num-threads-write 2 --interval-ms 500",
        "time-series --series 5 --num-threads-write 2 --columns 2",
        "wide-rows --rows 9 --columns 40 --read-columns 7 --threads 1",
        "wide-rows --rows 9 --columns 41 --read-columns 7 --threads 1",
        "hot-keys --rows 9 --threads 1",
        "missing-keys --rows 9 --threads 1",
        "missing-keys --rows 9 --threads 1 --value-size 9",
        "scans --rows 9 --threads 1",
        "scans --rows 9 --threads 1 --value-size 9",
    ];
    for name in ["--seed 5", "--uuid mine", "--no-uuid"] {
        let mut all = BTreeSet::new();
        for line in lines {
            let rows = row_keys(&format!("{line} {name}")).await;
            assert!(!rows.is_empty() && all.is_disjoint(&rows), "{line} {name}");
            all.extend(rows);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn workloads_of_ycsb_share_their_rows() {
    let mut api = Fake::default();
    filled("ycsb a --rows 9 --threads 1 --uuid mine", &mut api).await;
    for letter in ["b", "c", "d", "e", "f"] {
        let line = format!("ycsb {letter} --rows 9 --threads 1 --uuid mine --skip-fill");
        let plan = filled(&line, &mut api).await;
        operate(&plan, &mut api, 50).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn processes_write_all_keys_and_none_twice() {
    let mut api = Fake::default();
    for part in ["0/3", "1/3", "2/3"] {
        let line = format!("scans --seed 5 --rows 10 --threads 1 --process {part}");
        let plan = filled(&line, &mut api).await;
        operate(&plan, &mut api, 20).await.unwrap();
    }
    assert_eq!(api.rows.lock().len(), 10);
    let whole = filled("scans --seed 5 --rows 10 --threads 1 --skip-fill", &mut api).await;
    operate(&whole, &mut api, 50).await.unwrap();
}

#[test]
fn published_flag_names_work() {
    let line = "key-value --num_unique_keys 10 --num_threads_write 3 --num_threads_read 4 \
                --value_size 9 --num_writes 7 --num_reads 8 --uuid abc --run_time 5 --nodes h:1 \
                --create_table_name t --max_written_key 4 --concurrent_clients 2";
    let Command::KeyValue(args) = command(line).unwrap() else { panic!() };
    assert_eq!((args.num_unique_keys, args.value.value_size), (10, 9));
    let lanes = &args.lanes;
    assert_eq!((lanes.num_threads_write, lanes.num_threads_read), (Some(3), Some(4)));
    assert_eq!((lanes.num_writes, lanes.num_reads), (Some(7), Some(8)));
    assert_eq!(args.run.load.duration.map(|time| time.as_secs()), Some(5));
    assert_eq!((&args.run.target.endpoint[..], &args.run.target.table[..]), ("h:1", "t"));
    command("ycsb A --recordcount 5 --operationcount 9 --fieldcount 2 --fieldlength 8").unwrap();
    command("key-value --nouuid --read_only").unwrap();
}

#[test]
fn wrong_flags_are_refused_with_their_reason() {
    for (line, reason) in [
        ("key-value --num-unique-keys 0", "--num-unique-keys"),
        ("key-value --read-only", "--read-only needs the --seed or --uuid"),
        ("key-value --max-written-key 3", "--max-written-key needs the --seed or --uuid"),
        ("key-value --num-threads-read 0 --num-threads-write 0", "no workers"),
        ("time-series --num-threads-read 0 --num-threads-write 0", "no workers"),
        ("key-value --uuid a/b", "--uuid must be"),
        ("key-value --uuid a --nouuid", "cannot be used with"),
        ("key-value --rate 0", "not between 0.001 and"),
        ("key-value --arrivals constant", "--rate"),
        ("key-value --process 0/2", "--process needs --seed or --uuid"),
        ("key-value --process 2/2 --seed 1", "K/N"),
        ("key-value --duration 0", "longer than 0"),
        ("key-value --start-at noon", "RFC 3339"),
        ("ycsb g", "invalid value"),
        ("ycsb a --rows 2 --process 2/3 --seed 1", "fewer than the 3 processes"),
        ("ycsb e --field-count 1000 --field-length 100000", "over the limit"),
        ("time-series --series 3 --num-threads-write 4", "fewer than its 4 writers"),
        ("time-series --columns 100 --value-size 65536 --read-points 1000", "over the limit"),
        ("wide-rows --read-proportion 2", "not between 0 and 1"),
        ("hot-keys --skip-fill", "--skip-fill needs"),
    ] {
        let error = planned(line).err().unwrap_or_else(|| panic!("{line} is accepted"));
        assert!(error.contains(reason), "{line}: {error}");
    }
}

#[test]
fn every_flag_is_explained() {
    for workload in Command::augment_subcommands(clap::Command::new("load")).get_subcommands() {
        for arg in workload.get_arguments().filter(|arg| arg.get_id() != "help") {
            let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(!help.is_empty(), "{} {}", workload.get_name(), arg.get_id());
        }
    }
}

#[test]
fn a_hundred_million_keys_need_no_more_memory_than_the_limit() {
    // The table of versions is the only memory that grows with the keys.
    let plan = planned("key-value --num-unique-keys 100000000 --tracked-cells 1000").unwrap();
    let Workload::Keys(keys) = plan.workload else { panic!() };
    assert_eq!(keys.versions.slots(), 1000);
}
