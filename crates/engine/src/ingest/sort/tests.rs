use super::sort_run::HEADER_LEN;
use super::*;
use crate::engine::Engine;
use crate::error::Corruption;
use crate::options::Options;
use base::env::sim::SimEnv;
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const DIR: &str = "/data";

fn sort_files(machine: &SimEnv) -> Vec<PathBuf> {
    let names = machine.env().fs.list(Path::new(DIR)).unwrap();
    names.into_iter().filter(|name| crate::files::FileNumber::is_sort(name)).collect()
}

fn engine(machine: &SimEnv) -> Engine {
    Engine::open_with_env(machine.env(), Path::new(DIR), Options::default()).unwrap()
}

/// A sorter with less memory than a caller may ask for, so that few rows make many runs.
fn sorter(engine: &Engine, memory_bytes: usize) -> RowSorter {
    let mut sorter = engine.row_sorter(&SortOptions::default()).unwrap();
    sorter.memory_bytes = memory_bytes;
    sorter
}

fn all(sorted: &mut SortedRows) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut rows = Vec::new();
    while let Some((row, payload)) = sorted.next_row().unwrap() {
        rows.push((row.to_vec(), payload.to_vec()));
    }
    rows
}

#[test]
fn rows_come_out_in_order_however_many_runs_and_passes_it_takes() {
    let machine = SimEnv::new(1);
    let engine = engine(&machine);
    let mut draw = base::env::rng::Rng::new(7);
    let rows: Vec<(Vec<u8>, Vec<u8>)> = (0..4000u32)
        .map(|number| {
            let row = format!("row-{:05}", draw.next_u64() % 3000).into_bytes();
            (row, [&number.to_be_bytes()[..], &[7; 200]].concat())
        })
        .collect();
    let mut want = rows.clone();
    want.sort_by(|a, b| a.0.cmp(&b.0));
    for (memory, least) in [(64 << 20, 0), (600 << 10, 1), (1 << 20, 100)] {
        let mut sorter = sorter(&engine, memory);
        for (row, payload) in &rows {
            sorter.add(row, payload).unwrap();
            if least > 1 && sorter.rows().is_multiple_of(30) {
                sorter.spill().unwrap();
            }
        }
        assert!(sorter.runs() >= least, "{} runs", sorter.runs());
        assert_eq!(sorter.runs(), sort_files(&machine).len());
        let mut sorted = sorter.finish().unwrap();
        assert_eq!(sorted.rows(), 4000);
        assert!(sorted.frame_bytes() <= memory || sorted.runs() == 2, "{} runs", sorted.runs());
        assert_eq!(all(&mut sorted), want, "{memory}");
        drop(sorted);
        assert!(sort_files(&machine).is_empty());
    }
}

#[test]
fn large_rows_are_merged_within_the_memory_that_was_given() {
    const MEMORY: usize = 4 << 20;
    const LARGE: usize = 1 << 20;
    let machine = SimEnv::new(1);
    let engine = engine(&machine);
    let mut sorter = sorter(&engine, MEMORY);
    let rows = 41u32;
    for number in 0..rows {
        let row = (number * 17 % rows).to_be_bytes();
        sorter.add(&row, &vec![number as u8; LARGE]).unwrap();
        sorter.spill().unwrap();
    }
    assert_eq!(sorter.runs(), rows as usize);
    let mut sorted = sorter.finish().unwrap();
    assert!((2..=3).contains(&sorted.runs()), "{} runs at once", sorted.runs());
    assert!((2 * LARGE..=MEMORY).contains(&sorted.frame_bytes()), "{}", sorted.frame_bytes());
    for (number, (row, payload)) in (0..rows).zip(all(&mut sorted)) {
        assert_eq!((row, payload.len()), (number.to_be_bytes().to_vec(), LARGE));
    }
    // Two are merged even where there is no room for them.
    let mut sorter = super::tests::sorter(&engine, MEMORY);
    for number in 0..5u8 {
        sorter.add(&[9 - number], &vec![number; MEMORY]).unwrap();
        sorter.spill().unwrap();
    }
    let mut sorted = sorter.finish().unwrap();
    assert_eq!(sorted.runs(), 2);
    assert_eq!(all(&mut sorted).len(), 5);
}

#[test]
fn a_sort_that_is_given_up_leaves_nothing_and_one_that_crashed_until_the_next_open() {
    let machine = SimEnv::new(1);
    let engine = engine(&machine);
    let add = |sorter: &mut RowSorter| {
        sorter.add(b"a", b"1").unwrap();
        sorter.spill().unwrap();
        sorter.add(b"b", b"2").unwrap();
        sorter.spill().unwrap();
    };
    let mut given_up = sorter(&engine, 1 << 20);
    add(&mut given_up);
    assert_eq!(sort_files(&machine).len(), 2);
    drop(given_up);
    assert_eq!(sort_files(&machine).len(), 0);
    let mut crashed = sorter(&engine, 1 << 20);
    add(&mut crashed);
    let machine = machine.kill();
    drop((crashed, engine));
    assert_eq!(sort_files(&machine).len(), 2);
    let report =
        crate::maintenance::check::check_dir(&machine.env(), Path::new(DIR), &mut |_| ()).unwrap();
    assert!(report.is_clean() && report.notes.len() == 2, "{:?}", report.notes);
    drop(Engine::open_with_env(machine.env(), Path::new(DIR), Options::default()).unwrap());
    assert_eq!(sort_files(&machine).len(), 0);
}

#[test]
fn what_is_over_a_limit_is_refused_by_name_and_the_sort_goes_on() {
    let machine = SimEnv::new(1);
    let engine = engine(&machine);
    let refused = engine.row_sorter(&SortOptions { memory_bytes: 1000 });
    assert!(refused.unwrap_err().to_string().contains("1048576"));
    let mut sorter = sorter(&engine, 1 << 20);
    let error = sorter.add(&[b'x'; ROW_BYTES_MAX + 1], b"").unwrap_err().to_string();
    assert!(error.contains("row key") && error.contains("65536"), "{error}");
    sorter.add(b"x", b"").unwrap();
    // A row larger than all memory.
    sorter.add(b"a", &vec![1; 3 << 20]).unwrap();
    sorter.add(b"b", b"").unwrap();
    let mut sorted = sorter.finish().unwrap();
    let rows: Vec<usize> = all(&mut sorted).iter().map(|(_, payload)| payload.len()).collect();
    assert_eq!(rows, [3 << 20, 0, 0]);
}

#[test]
fn every_damaged_byte_of_a_run_is_noticed_with_file_and_place() {
    let machine = SimEnv::new(1);
    let engine = engine(&machine);
    let fs = machine.env().fs;
    let spilled = || {
        let mut sorter = sorter(&engine, 2 << 20);
        sorter.add(b"a", b"xyz").unwrap();
        sorter.add(b"b", b"").unwrap();
        sorter.spill().unwrap();
        (sorter, Path::new(DIR).join(&sort_files(&machine)[0]))
    };
    let (sorter, path) = spilled();
    let len = fs.size(&path).unwrap();
    let mut golden = vec![0; len as usize];
    fs.open_read(&path).unwrap().read_exact_at(&mut golden, 0).unwrap();
    let hex: String = golden.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "5354454c534f52540100000000000000090000000c746fa24589b3fd01610378797a016200");
    assert_eq!(len, HEADER_LEN + 12 + 9);
    drop(sorter);
    for at in 0..len {
        let (sorter, path) = spilled();
        let mut byte = [0];
        fs.open_read(&path).unwrap().read_exact_at(&mut byte, at).unwrap();
        fs.open_write(&path).unwrap().write_all_at(&[byte[0] ^ 0x11], at).unwrap();
        let read = sorter.finish().and_then(|mut sorted| {
            while sorted.next_row()?.is_some() {}
            Ok(())
        });
        match read {
            Err(Error::Corruption(Corruption { file, .. })) => assert_eq!(file, path),
            other => panic!("byte {at}: {other:?}"),
        }
        let (sorter, path) = spilled();
        fs.open_write(&path).unwrap().set_len(at).unwrap();
        let read = sorter.finish().map(|_| ());
        assert!(matches!(read, Err(Error::Corruption(_))), "cut at {at}: {read:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, ..ProptestConfig::default() })]
    #[test]
    fn any_rows_are_sorted_as_a_stable_sort_does(
        rows in proptest::collection::vec(
            (proptest::collection::vec(0u8..3, 0..12), proptest::collection::vec(any::<u8>(), 0..40)),
            0..300,
        ),
        every in 1usize..100,
    ) {
        let machine = SimEnv::new(1);
        let engine = engine(&machine);
        let mut sorter = sorter(&engine, 1 << 20);
        for (at, (row, payload)) in rows.iter().enumerate() {
            sorter.add(row, payload).unwrap();
            if at % every == every - 1 {
                sorter.spill().unwrap();
            }
        }
        let mut want = rows.clone();
        want.sort_by(|a, b| a.0.cmp(&b.0));
        prop_assert_eq!(all(&mut sorter.finish().unwrap()), want);
    }

    #[test]
    fn any_bytes_are_a_run_or_damage(data in proptest::collection::vec(any::<u8>(), 0..200)) {
        fuzz(&data);
    }
}
