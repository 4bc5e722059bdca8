//! Exports that are stopped at every step, and sources that fail, in memory.

use super::manifest::{FILE, Manifest};
use super::part_list;
use super::place::{Found, hold, look};
use super::run::{Export, Limits, Plan, Step, stream};
use super::selection::Range;
use super::source::{Gatherer, Piece, Pieces, Source};
use crate::import::target::{Failure, plain_schema};
use anyhow::{Result, bail};
use async_trait::async_trait;
use googleapis_tonic_google_bigtable_admin_v2::google::bigtable::admin::v2 as admin;
use interchange::rows::{
    self, Cell, Compression, Encoding, Format, Row, WriteOptions, reader, writer,
};
use std::cell::{Cell as Counter, RefCell};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use tokio::runtime::{Builder, Runtime};

const JOB: &str = "rows of a test";
const FORMATS: [Format; 5] =
    [Format::Csv, Format::Jsonl, Format::Avro, Format::Parquet, Format::SequenceFile];

/// A table in memory, and for each read the number of batches after which it fails.
struct Memory {
    rows: Vec<Row>,
    failures: Mutex<VecDeque<usize>>,
    /// Answers to the question for the identity of the table; the last one stays.
    identities: Mutex<VecDeque<&'static str>>,
    /// Families in the answers to the question for the schema; without one, none is told.
    schemas: Mutex<VecDeque<&'static [&'static str]>>,
    /// True if no read is answered, and never will be.
    lost: bool,
}

impl Memory {
    fn new(rows: Vec<Row>) -> Self {
        let identities = Mutex::new(["t@1"].into());
        let (failures, schemas) = Default::default();
        Self { rows, failures, identities, schemas, lost: false }
    }
}

struct Batches {
    rows: VecDeque<Row>,
    left: Option<usize>,
}

#[async_trait]
impl Source for Memory {
    async fn identity(&self) -> Result<String, Failure> {
        let mut identities = self.identities.lock().unwrap();
        let last = identities.len() == 1;
        let identity = if last { identities[0] } else { identities.pop_front().unwrap() };
        Ok(identity.to_owned())
    }

    async fn schema(&self) -> Result<Option<admin::Table>, Failure> {
        let told = self.schemas.lock().unwrap().pop_front();
        Ok(told.map(|families| plain_schema(families.iter().copied())))
    }

    async fn read(&self, range: &Range) -> Result<Box<dyn Pieces>, Failure> {
        if self.lost {
            return Err(Failure::Fatal("the table is damaged".to_owned()));
        }
        let inside = |row: &&Row| {
            row.key >= range.start && range.end.as_ref().is_none_or(|end| row.key < *end)
        };
        let rows = self.rows.iter().filter(inside).cloned().collect();
        Ok(Box::new(Batches { rows, left: self.failures.lock().unwrap().pop_front() }))
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[async_trait]
impl Pieces for Batches {
    async fn next(&mut self) -> Result<Option<Vec<Piece>>, Failure> {
        match &mut self.left {
            Some(0) => return Err(Failure::Later("the source is busy".to_owned())),
            Some(left) => *left -= 1,
            None => {}
        }
        let mut gatherer = Gatherer::default();
        let Some(row) = self.rows.pop_front() else { return Ok(None) };
        gatherer.start(row.key);
        row.cells.into_iter().for_each(|cell| gatherer.cell(cell));
        gatherer.end();
        Ok(Some(gatherer.take()))
    }
}

fn rows(count: u8) -> Vec<Row> {
    let cell = |at: u8| Cell {
        family: "f".into(),
        qualifier: vec![at, 0xff].into(),
        timestamp_micros: i64::from(at) * 1000,
        value: vec![b'\n'; usize::from(at)].into(),
    };
    (0..count).map(|at| Row { key: vec![at, 0].into(), cells: vec![cell(at), cell(1)] }).collect()
}

/// A runtime whose sleeps take no time.
fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().unwrap()
}

/// One call of the command `export`.
struct Call<'a> {
    job: &'a str,
    format: Format,
    restart: bool,
    assume_same_table: bool,
    step: &'a dyn Fn(Step) -> Result<()>,
}

impl<'a> Call<'a> {
    fn of(format: Format) -> Self {
        Self { job: JOB, format, restart: false, assume_same_table: false, step: &|_| Ok(()) }
    }

    fn restart(self) -> Self {
        Self { restart: true, ..self }
    }

    fn stopping(self, step: &'a dyn Fn(Step) -> Result<()>) -> Self {
        Self { step, ..self }
    }

    /// Exports `memory` into `dir` in parts of three rows.
    fn run(&self, memory: &Memory, dir: &Path) -> Result<()> {
        let file = hold(dir)?;
        let found = look(dir, self.job, self.restart)?;
        let plan = Plan {
            dir,
            job: self.job.to_owned(),
            id: format!("{:?} {} {}", self.format, self.job, memory.rows.len()),
            format: self.format,
            options: WriteOptions {
                encoding: Encoding::Escaped,
                compression: Compression::None,
                sync: [7; 16],
            },
            limits: Limits { bytes: u64::MAX, rows: 3 },
            range: Range::default(),
            assume_same_table: self.assume_same_table,
            source: memory,
            runtime: &runtime(),
            step: self.step,
        };
        Export::begin(plan, file, found)?.all()
    }
}

/// Returns the rows of the complete export in `dir`.
#[track_caller]
fn read(dir: &Path) -> Vec<Row> {
    let manifest = Manifest::read(dir).unwrap().unwrap();
    manifest.check_complete(dir).unwrap();
    let mut rows = Vec::new();
    for (path, part) in part_list::read(dir, &manifest).unwrap() {
        let file = std::fs::File::open(path).unwrap();
        assert_eq!(file.metadata().unwrap().len(), part.bytes);
        let mut reader = reader(manifest.format().unwrap(), rows::Source::File(file)).unwrap();
        let before = rows.len();
        while let Some(row) = reader.next().unwrap() {
            rows.push(row);
        }
        assert_eq!((rows.len() - before) as u64, part.rows);
    }
    rows
}

/// As [`read`], of a directory that must hold nothing else.
#[track_caller]
fn exported(dir: &Path) -> Vec<Row> {
    let parts = Manifest::read(dir).unwrap().unwrap().totals.parts;
    let files = std::fs::read_dir(dir).unwrap().count() as u64;
    assert_eq!(files, parts + 2, "files that no list has stay behind");
    read(dir)
}

/// Runs `run` again and again, each time stopped at a later step. `run` gets the step function, and returns
/// whether it was stopped.
fn at_every_step(mut run: impl FnMut(&dyn Fn(Step) -> Result<()>, usize) -> bool) {
    for stop in 0.. {
        let seen = Counter::new(0);
        let step = |_| {
            seen.set(seen.get() + 1);
            if seen.get() == stop + 1 { bail!("stopped") } else { Ok(()) }
        };
        if !run(&step, stop) {
            assert!(stop > 15, "there are too few steps: {stop}");
            break;
        }
    }
}

#[test]
fn an_export_resumes_from_every_step() {
    let memory = Memory::new(rows(8));
    for format in FORMATS {
        at_every_step(|step, stop| {
            let dir = tempfile::tempdir().unwrap();
            let stopped = Call::of(format).stopping(step).run(&memory, dir.path()).is_err();
            if stopped {
                Call::of(format).run(&memory, dir.path()).unwrap();
            }
            assert_eq!(exported(dir.path()), memory.rows, "{format:?} stopped at step {stop}");
            stopped
        });
    }
}

#[test]
fn a_restart_keeps_the_old_export_or_resumes_the_new_one_at_every_step() {
    let (old, new) = (Memory::new(rows(5)), Memory::new(rows(8)));
    for again in [false, true] {
        at_every_step(|step, stop| {
            let dir = tempfile::tempdir().unwrap();
            let dir = dir.path();
            Call::of(Format::Avro).run(&old, dir).unwrap();
            let restart = || Call::of(Format::Csv).restart();
            let stopped = restart().stopping(step).run(&new, dir).is_err();
            if stopped && Manifest::read(dir).unwrap().unwrap().complete {
                assert_eq!(exported(dir), old.rows, "stopped at step {stop}");
                restart().run(&new, dir).unwrap();
            } else if stopped {
                let call = if again { restart() } else { Call::of(Format::Csv) };
                call.run(&new, dir).unwrap();
            }
            assert_eq!(exported(dir), new.rows, "stopped at step {stop}");
            stopped
        });
    }
}

#[test]
fn a_restart_that_cannot_begin_leaves_the_old_export_alone() {
    let dir = tempfile::tempdir().unwrap();
    Call::of(Format::Avro).run(&Memory::new(rows(5)), dir.path()).unwrap();
    let lost = Memory { lost: true, ..Memory::new(rows(8)) };
    let error = Call::of(Format::Csv).restart().run(&lost, dir.path()).unwrap_err();
    assert!(error.to_string().contains("damaged"), "{error:#}");
    assert_eq!(exported(dir.path()), rows(5));
}

#[test]
fn a_malformed_export_can_be_discarded() {
    let memory = Memory::new(rows(8));
    for (file, text) in [
        (FILE, ""),
        (FILE, "{\"version\":1}"),
        (
            FILE,
            "{\"version\":2,\"id\":\"\",\"job\":\"\",\"source\":\"\",\"format\":\"avro\",\"complete\":true}",
        ),
        (part_list::FILE, "nonsense\nand more\n"),
        (part_list::FILE, ""),
    ] {
        let dir = tempfile::tempdir().unwrap();
        Call::of(Format::Avro).run(&memory, dir.path()).unwrap();
        std::fs::write(dir.path().join(file), text).unwrap();
        assert!(Call::of(Format::Avro).run(&memory, dir.path()).is_err(), "{file}: {text}");
        Call::of(Format::Csv).restart().run(&memory, dir.path()).unwrap();
        assert_eq!(exported(dir.path()), memory.rows, "{file}: {text}");
    }
    // A file of that name among others is not ours.
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join(FILE), "[]").unwrap();
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    let error = Call::of(Format::Csv).restart().run(&memory, dir.path()).unwrap_err();
    assert!(error.to_string().contains("notes.txt"), "{error:#}");
}

#[test]
fn an_export_that_is_stopped_again_and_again_makes_progress() {
    let memory = Memory::new(rows(8));
    let dir = tempfile::tempdir().unwrap();
    let recorded = |step| if step == Step::Recorded { bail!("stopped") } else { Ok(()) };
    let mut runs = 0;
    while Call::of(Format::Avro).stopping(&recorded).run(&memory, dir.path()).is_err() {
        runs += 1;
    }
    assert_eq!((runs, exported(dir.path())), (3, rows(8)));
}

#[test]
fn the_work_for_a_part_does_not_grow_with_the_number_of_parts() {
    let memory = Memory::new(rows(200));
    let dir = tempfile::tempdir().unwrap();
    let (list, manifest) = (dir.path().join(part_list::FILE), dir.path().join(FILE));
    let before = RefCell::new(None);
    let step = |step| {
        let now = (std::fs::read(&list).unwrap_or_default(), std::fs::read(&manifest).ok());
        let last = before.replace(Some(now.clone()));
        if let Some((list, manifest)) = last.filter(|_| step == Step::Recorded) {
            assert_eq!(now.1, manifest, "the manifest is written for a part");
            assert!(now.0.starts_with(&list) && now.0.len() - list.len() < 300);
        }
        Ok(())
    };
    Call::of(Format::Csv).stopping(&step).run(&memory, dir.path()).unwrap();
    assert_eq!(exported(dir.path()), memory.rows);
    assert!(std::fs::metadata(manifest).unwrap().len() < 1000);
}

#[test]
fn a_torn_end_of_the_list_of_parts_is_written_again() {
    let memory = Memory::new(rows(8));
    let third = Counter::new(0);
    let step = |step| {
        third.set(third.get() + usize::from(step == Step::Recorded));
        if third.get() == 2 { bail!("stopped") } else { Ok(()) }
    };
    let dir = tempfile::tempdir().unwrap();
    Call::of(Format::Avro).stopping(&step).run(&memory, dir.path()).unwrap_err();
    let path = dir.path().join(part_list::FILE);
    let whole = std::fs::read(&path).unwrap();
    for len in (0..whole.len()).step_by(7).chain([whole.len() - 1, whole.len()]) {
        let other = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), other.path().join(entry.file_name())).unwrap();
        }
        std::fs::write(other.path().join(part_list::FILE), &whole[..len]).unwrap();
        Call::of(Format::Avro).run(&memory, other.path()).unwrap();
        assert_eq!(exported(other.path()), memory.rows, "torn at {len}");
    }
    // A line in the middle is not torn but damaged.
    let mut damaged = whole;
    let middle = damaged.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    damaged[middle] = b'!';
    std::fs::write(&path, damaged).unwrap();
    let error = Call::of(Format::Avro).run(&memory, dir.path()).unwrap_err();
    assert!(format!("{error:#}").contains("malformed: line 2"), "{error:#}");
}

#[test]
fn a_read_that_fails_is_tried_again_and_no_row_comes_twice() {
    for failures in [vec![0], vec![1, 2, 0, 2], vec![4, 1, 1, 5], vec![8, 0]] {
        let mut memory = Memory::new(rows(8));
        memory.failures = Mutex::new(failures.iter().copied().collect());
        let dir = tempfile::tempdir().unwrap();
        Call::of(Format::Jsonl).run(&memory, dir.path()).unwrap();
        assert_eq!(exported(dir.path()), memory.rows, "{failures:?}");
    }
    let mut memory = Memory::new(rows(8));
    memory.failures = Mutex::new([1; 100].into());
    let dir = tempfile::tempdir().unwrap();
    let error = Call::of(Format::Jsonl).run(&memory, dir.path()).unwrap_err();
    assert!(error.to_string().contains("gave up"), "{error:#}");
}

#[test]
fn rows_of_a_table_that_was_recreated_meanwhile_are_not_recorded() {
    let mut memory = Memory::new(rows(8));
    memory.failures = Mutex::new([4].into());
    // The first is asked at the beginning, the second for the first part, the third for the second.
    memory.identities = Mutex::new(["t@1", "t@1", "t@2"].into());
    let dir = tempfile::tempdir().unwrap();
    let error = Call::of(Format::Jsonl).run(&memory, dir.path()).unwrap_err();
    assert!(error.to_string().contains("it was t@1 and is t@2"), "{error:#}");
    assert_eq!(part_names(dir.path()), ["part-00000.jsonl"]);
    let error = Call::of(Format::Jsonl).run(&memory, dir.path()).unwrap_err();
    assert!(error.to_string().contains("another store"), "{error:#}");
}

#[test]
fn families_that_come_and_go_meanwhile_are_in_the_schema() {
    for (schemas, want) in [
        (&[&["a", "b"][..], &["b", "c"]][..], Some(&["a", "b", "c"][..])),
        (&[&["a"]], Some(&["a"])),
        (&[], None),
    ] {
        let memory = Memory::new(rows(4));
        *memory.schemas.lock().unwrap() = schemas.iter().copied().collect();
        let dir = tempfile::tempdir().unwrap();
        Call::of(Format::Csv).run(&memory, dir.path()).unwrap();
        let told = Manifest::read(dir.path()).unwrap().unwrap().schema().unwrap();
        assert_eq!(told, want.map(|families| plain_schema(families.iter().copied())));
    }
}

#[test]
fn a_table_of_which_nothing_is_known_is_believed_only_if_the_user_says_so() {
    for (first, then) in [("", "t@1"), ("t@1", ""), ("", "")] {
        let memory = Memory::new(rows(8));
        let identity = |identity| *memory.identities.lock().unwrap() = [identity].into();
        let dir = tempfile::tempdir().unwrap();
        let recorded = |step| if step == Step::Recorded { bail!("stopped") } else { Ok(()) };
        identity(first);
        Call::of(Format::Csv).stopping(&recorded).run(&memory, dir.path()).unwrap_err();
        identity(then);
        let error = Call::of(Format::Csv).run(&memory, dir.path()).unwrap_err();
        assert!(error.to_string().contains("--assume-same-table"), "{error:#}");
        let believing = Call { assume_same_table: true, ..Call::of(Format::Csv) };
        believing.run(&memory, dir.path()).unwrap();
        assert_eq!(exported(dir.path()), memory.rows);
    }
}

#[test]
fn an_export_without_parts_takes_the_table_that_is_there_now() {
    let memory = Memory::new(rows(8));
    let dir = tempfile::tempdir().unwrap();
    let begun = |step| if step == Step::Begun { bail!("stopped") } else { Ok(()) };
    Call::of(Format::Csv).stopping(&begun).run(&memory, dir.path()).unwrap_err();
    *memory.identities.lock().unwrap() = ["t@2"].into();
    Call::of(Format::Csv).run(&memory, dir.path()).unwrap();
    assert_eq!(exported(dir.path()), memory.rows);
    assert_eq!(Manifest::read(dir.path()).unwrap().unwrap().source, "t@2");
}

#[test]
fn a_table_that_is_no_longer_told_stops_the_export_and_is_no_reason_to_begin_anew() {
    let memory = Memory::new(rows(8));
    *memory.identities.lock().unwrap() = ["t@1", "t@1", ""].into();
    let dir = tempfile::tempdir().unwrap();
    let error = Call::of(Format::Csv).run(&memory, dir.path()).unwrap_err().to_string();
    assert!(error.contains("no longer tells") && !error.contains("--restart"), "{error}");
    *memory.identities.lock().unwrap() = ["t@1"].into();
    Call::of(Format::Csv).run(&memory, dir.path()).unwrap();
    assert_eq!(exported(dir.path()), memory.rows);
}

#[test]
fn an_export_with_a_damaged_part_does_not_resume() {
    let memory = Memory::new(rows(8));
    let dir = tempfile::tempdir().unwrap();
    let recorded = |step| if step == Step::Recorded { bail!("stopped") } else { Ok(()) };
    Call::of(Format::Csv).stopping(&recorded).run(&memory, dir.path()).unwrap_err();
    let part = dir.path().join("part-00000.csv");
    let whole = std::fs::read(&part).unwrap();
    let damages: [&dyn Fn(); 2] =
        [&|| std::fs::write(&part, &whole[1..]).unwrap(), &|| std::fs::remove_file(&part).unwrap()];
    for damage in damages {
        damage();
        let error = Call::of(Format::Csv).run(&memory, dir.path()).unwrap_err().to_string();
        assert!(error.contains("part-00000.csv"), "{error}");
    }
    std::fs::write(&part, whole).unwrap();
    Call::of(Format::Csv).run(&memory, dir.path()).unwrap();
    assert_eq!(exported(dir.path()), memory.rows);
}

/// Streams the rows of `memory` as JSON lines into the file `path`. Returns the rows of the file.
fn streamed(memory: &Memory, path: &Path) -> Result<Vec<Row>> {
    let options =
        WriteOptions { encoding: Encoding::Escaped, compression: Compression::None, sync: [7; 16] };
    let output = Box::new(std::fs::File::create(path)?);
    let mut writer = writer(Format::Jsonl, options, output)?;
    stream(memory, &runtime(), Range::default(), writer.as_mut())?;
    writer.finish()?;
    let mut reader = reader(Format::Jsonl, rows::Source::File(std::fs::File::open(path)?))?;
    let mut rows = Vec::new();
    while let Some(row) = reader.next()? {
        rows.push(row);
    }
    Ok(rows)
}

#[test]
fn a_stream_goes_on_after_the_last_row() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stream");
    for failures in [vec![0], vec![1, 2, 0, 2], vec![8, 0]] {
        let mut memory = Memory::new(rows(8));
        memory.failures = Mutex::new(failures.into());
        assert_eq!(streamed(&memory, &path).unwrap(), memory.rows);
    }
    let mut memory = Memory::new(rows(8));
    memory.failures = Mutex::new([0; 100].into());
    assert!(streamed(&memory, &path).unwrap_err().to_string().contains("gave up"));
    let memory = Memory::new(rows(8));
    *memory.identities.lock().unwrap() = ["t@1", "t@2"].into();
    assert!(streamed(&memory, &path).unwrap_err().to_string().contains("recreated"));
}

/// Returns the names of the parts that the list of an export has.
fn part_names(dir: &Path) -> Vec<String> {
    let list = std::fs::read_to_string(dir.join(part_list::FILE)).unwrap();
    let part = |line| serde_json::from_str::<serde_json::Value>(line).unwrap();
    let name = |line| part(line)["file"].as_str().unwrap().to_owned();
    list.lines().skip(1).map(name).collect()
}

#[test]
fn a_part_that_was_not_recorded_goes_if_its_rows_are_gone() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new(rows(4));
    let renamed = Counter::new(0);
    let step = |step| {
        renamed.set(renamed.get() + usize::from(step == Step::Renamed));
        if renamed.get() == 2 { bail!("stopped") } else { Ok(()) }
    };
    let stopped = Call::of(Format::Csv).stopping(&step).run(&memory, dir.path());
    assert!(stopped.is_err() && dir.path().join("part-00001.csv").exists());
    let fewer = Memory::new(rows(3));
    Call::of(Format::Csv).run(&fewer, dir.path()).unwrap();
    assert_eq!(exported(dir.path()), fewer.rows);
}

#[test]
fn a_directory_that_holds_something_else_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path();
    let found =
        |job: &str, restart: bool| look(dir, job, restart).map_err(|error| error.to_string());
    std::fs::write(dir.join("notes.txt"), "mine").unwrap();
    assert!(found(JOB, true).unwrap_err().contains("notes.txt"));
    std::fs::remove_file(dir.join("notes.txt")).unwrap();
    assert_eq!(found(JOB, false), Ok(Found::Nothing));

    let memory = Memory::new(rows(8));
    let recorded = |step| if step == Step::Recorded { bail!("stopped") } else { Ok(()) };
    Call::of(Format::Avro).stopping(&recorded).run(&memory, dir).unwrap_err();
    assert!(matches!(found(JOB, false), Ok(Found::Unfinished(_))));
    assert!(found("another", false).unwrap_err().contains("another export"));
    Call::of(Format::Avro).run(&memory, dir).unwrap();
    assert!(found(JOB, false).unwrap_err().contains("complete export"));
    assert_eq!(found("another", true), Ok(Found::Old));
    assert_eq!(exported(dir), memory.rows, "a look changes nothing");
}

#[test]
fn a_list_that_is_not_the_one_of_the_export_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let memory = Memory::new(rows(8));
    Call::of(Format::Avro).run(&memory, dir.path()).unwrap();
    let manifest = Manifest::read(dir.path()).unwrap().unwrap();
    let path = dir.path().join(part_list::FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    let last = text.trim_end().rfind('\n').unwrap();
    for changed in [
        text.replace("part-00000.avro", "../../etc/passwd"),
        text.replace("\"rows\":3", "\"rows\":4"),
        text.replace("\"xxh3\":\"", "\"xxh3\":\"x"),
        text.replace("rows of a test", "other rows"),
        text[..=last].to_owned(),
        String::new(),
    ] {
        std::fs::write(&path, changed).unwrap();
        let error = format!("{:#}", part_list::read(dir.path(), &manifest).unwrap_err());
        assert!(error.contains("malformed") || error.contains("damaged"), "{error}");
    }
}
