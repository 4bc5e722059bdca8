//! The process that is killed: opens the store, verifies it, works on it, and verifies it again at
//! quiet moments, until its parent kills it or closes its standard input.

use crate::book::Book;
use crate::ledger::Expected;
use crate::look::{self, Judged, refused};
use crate::memory::{Account, Used, by_engine};
use crate::plan::{Cycle, Run, SLOTS, tree_options};
use crate::report::{Event, Memory, Tally};
use crate::work::{Site, check_leftover};
use crate::{batch::Field, watch};
use anyhow::{Context, Result};
use base::env::{Clock, SystemClock};
use base::rss_monitor::RssMonitor;
use engine::Direction;
use engine::{Engine, TreeId};
use parking_lot::Mutex;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How long background work may go on when nothing is asked of the engine any more.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the parent hears of what was done, and memory is looked at.
const TELL_EVERY: Duration = Duration::from_millis(100);
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Descriptors that may be open beside SSTables at the first quiet moment, and how many more at a
/// later one of the same process.
const DESCRIPTORS_MAX: usize = 64;
const DESCRIPTORS_MORE: usize = 8;

/// Runs the worker of a cycle in the run at `dir`: exit status 0 if it was asked to end and all was
/// well.
pub(crate) fn run(dir: &Path, cycle: u64) -> Result<ExitCode> {
    let path = dir.join("run.json");
    let run = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let run: Run = serde_json::from_slice(&run).context("cannot read run.json")?;
    let ended = Arc::new(AtomicBool::new(false));
    watch_input(Arc::clone(&ended))?;
    match Worker::new(run, dir, cycle, ended)?.go() {
        Ok(()) => Ok(ExitCode::SUCCESS),
        Err(what) => {
            tell(&Event::Wrong(what))?;
            // As it is: closing the engine could hide what is wrong.
            std::process::exit(1)
        }
    }
}

/// Raises `ended` when standard input ends: the parent wants it, or is gone.
fn watch_input(ended: Arc<AtomicBool>) -> Result<()> {
    let watch = move || {
        let mut byte = [0];
        while std::io::stdin().read(&mut byte).is_ok_and(|read| read > 0) {}
        ended.store(true, Ordering::Relaxed);
    };
    std::thread::Builder::new().name("stele-stress-input".to_owned()).spawn(watch)?;
    Ok(())
}

fn tell(event: &Event) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, event)?;
    writeln!(out)?;
    Ok(out.flush()?)
}

struct Worker {
    run: Run,
    number: u64,
    cycle: Cycle,
    book: Book,
    expected: Expected,
    /// True if trees were being replaced when the last worker was killed.
    replacing: bool,
    store: PathBuf,
    copy: PathBuf,
    ended: Arc<AtomicBool>,
    /// Memory when nothing was open yet.
    before: u64,
    /// Descriptors beside SSTables at the first quiet moment.
    descriptors: Option<usize>,
}

impl Worker {
    fn new(run: Run, dir: &Path, number: u64, ended: Arc<AtomicBool>) -> Result<Self> {
        let cycle = Cycle::draw(&run, number);
        let book = Book::open(dir)?;
        let field = Field { seed: run.seed, slots: SLOTS, rows: run.rows };
        let (expected, replacing) = book.expected(field, run.writers)?;
        let (store, copy) = (dir.join("store"), dir.join("copy"));
        let before = watch::memory_bytes().map_err(anyhow::Error::msg)?;
        Ok(Self {
            run,
            number,
            cycle,
            book,
            expected,
            replacing,
            store,
            copy,
            ended,
            before,
            descriptors: None,
        })
    }

    fn go(&mut self) -> Judged<()> {
        check_leftover(&self.copy)?;
        let opened =
            Engine::open_with_env(self.cycle.env(), &self.store, self.cycle.options.clone());
        let engine = opened.map_err(|error| refused("opening", &error))?;
        let _monitor = self.monitor(&engine)?;
        if self.replacing {
            self.finish_replacing(&engine)?;
        }
        self.verify_trees(&engine)?;
        self.settle(&engine)?;
        self.memory(&engine, &mut Tally::default())?;
        told(tell(&Event::Opened))?;
        if let Some(slot) = self.cycle.replaced {
            self.replace_tree(&engine, slot)?;
        }
        let mut times = 0;
        loop {
            times += 1;
            self.work(&engine, times)?;
            self.quiet(&engine)?;
            if self.ended.load(Ordering::Relaxed) {
                return engine.close().map_err(|error| refused("closing", &error));
            }
        }
    }

    /// Reports to `engine` how much memory of the process is the engine's, as a server does.
    fn monitor(&self, engine: &Engine) -> Judged<RssMonitor> {
        let (before, grown) = (self.before, Arc::clone(&self.expected.grown));
        let engine = engine.clone();
        let report = move || {
            let all = watch::memory_bytes().unwrap_or_default();
            let of_engine = by_engine(all, before, grown.load(Ordering::Relaxed));
            engine.note_process_memory(of_engine as usize);
        };
        RssMonitor::start(report).map_err(|error| format!("no thread: {error}"))
    }

    /// The trees are there and no others.
    fn verify_trees(&self, engine: &Engine) -> Judged<()> {
        let found: BTreeSet<TreeId> = engine.trees().into_iter().collect();
        let expected = self.trees();
        if found == expected {
            return Ok(());
        }
        Err(format!("trees {found:?} instead of {expected:?}"))
    }

    fn trees(&self) -> BTreeSet<TreeId> {
        (0..SLOTS).map(|slot| self.expected.tree(slot)).collect()
    }

    /// Makes the engine's trees those expected, of which new ones are empty.
    fn finish_replacing(&self, engine: &Engine) -> Judged<()> {
        let (found, expected) = (engine.trees(), self.trees());
        for tree in found.iter().filter(|tree| !expected.contains(tree)) {
            engine.drop_tree(*tree).map_err(|error| refused("dropping a tree", &error))?;
        }
        for tree in expected.iter().filter(|tree| !found.contains(tree)) {
            let created = engine.create_tree(*tree, tree_options(&self.run, *tree));
            created.map_err(|error| refused("creating a tree", &error))?;
        }
        told(self.book.save(&self.expected, false))
    }

    /// Puts a new, empty tree in the place of another.
    fn replace_tree(&self, engine: &Engine, slot: u8) -> Judged<()> {
        let newest = self.trees().last().map_or(0, |tree| tree.0);
        self.expected.replace_tree(slot, TreeId(newest + 1));
        told(self.book.save(&self.expected, true))?;
        self.finish_replacing(engine)
    }

    /// Everything acknowledged is there; what was in flight at the kill is there or not, whole.
    fn settle(&self, engine: &Engine) -> Judged<()> {
        let window = self.expected.window_on_all();
        let seen = look::everything(engine, &self.expected, &window, Direction::Forward);
        let seen = seen.map_err(|what| format!("after opening: {what}"))?;
        drop(window);
        self.expected.settle(&seen);
        told(self.book.save(&self.expected, false))
    }

    /// Lets all threads work for a while.
    fn work(&self, engine: &Engine, times: u64) -> Judged<()> {
        let site = Site {
            run: &self.run,
            engine,
            expected: &self.expected,
            book: &self.book,
            copy: self.copy.clone(),
            salt: self.number << 16 | times,
            stop: AtomicBool::new(false),
            wrong: Mutex::new(None),
            tally: Mutex::new(Tally::default()),
        };
        let counted = Counted::of(engine);
        let site = &site;
        std::thread::scope(|scope| {
            (0..self.run.writers).for_each(|writer| drop(scope.spawn(move || site.write(writer))));
            (0..self.run.readers).for_each(|reader| drop(scope.spawn(move || site.read(reader))));
            scope.spawn(|| site.keep_house());
            let watched = self.watch(site);
            site.stop.store(true, Ordering::Relaxed);
            watched
        })?;
        if let Some(what) = site.wrong.lock().take() {
            return Err(what);
        }
        let mut tally = std::mem::take(&mut *site.tally.lock());
        counted.until_now(engine, &mut tally);
        told(tell(&Event::Did(Box::new(tally))))
    }

    /// Watches memory and tells what is done, until it is time to stop.
    fn watch(&self, site: &Site<'_>) -> Judged<()> {
        let begun = SystemClock.monotonic();
        let mut told_at = begun;
        loop {
            let now = SystemClock.monotonic();
            let over = now.saturating_sub(begun) >= self.cycle.load;
            if over || site.stops() || self.ended.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.memory(site.engine, &mut site.tally.lock())?;
            if now.saturating_sub(told_at) >= TELL_EVERY {
                told_at = now;
                let tally = std::mem::take(&mut *site.tally.lock());
                told(tell(&Event::Did(Box::new(tally))))?;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Memory is within its bounds.
    fn memory(&self, engine: &Engine, tally: &mut Tally) -> Judged<()> {
        let now = || -> Judged<Used> {
            Ok(Used {
                all: watch::memory_bytes()?,
                before: self.before,
                grown: self.expected.grown.load(Ordering::Relaxed),
                account: Account::of(engine),
            })
        };
        let budget = self.cycle.options.memory_bytes_max as u64;
        let mut used = now()?;
        if used.is_in_doubt(&self.run, budget) {
            base::allocator::give_back_free();
            used = now()?;
        }
        tally.saw_memory(Memory { bytes: used.by_engine(), charged: used.account.sum() }, budget);
        used.judge(&self.run, budget)
    }

    /// Nothing goes on: everything is there, and nothing else, of files too.
    fn quiet(&mut self, engine: &Engine) -> Judged<()> {
        let mut tally = Tally { quiet: 1, ..Tally::default() };
        for direction in [Direction::Reverse, Direction::Forward] {
            let window = self.expected.window_on_all();
            let seen = look::everything(engine, &self.expected, &window, direction);
            seen.map_err(|what| format!("when nothing goes on: {what}"))?;
        }
        let open = quiet_files(&self.store, &mut tally)?;
        tally.descriptors = open as u64;
        let first = *self.descriptors.get_or_insert(open);
        if first > DESCRIPTORS_MAX || open > first + DESCRIPTORS_MORE {
            return Err(format!("{open} descriptors are open beside SSTables, {first} at first"));
        }
        self.memory(engine, &mut tally)?;
        told(self.book.save(&self.expected, false))?;
        told(tell(&Event::Did(Box::new(tally))))
    }
}

/// Waits for background work to end, until no file is there that should not be.
fn quiet_files(store: &Path, tally: &mut Tally) -> Judged<usize> {
    let begun = SystemClock.monotonic();
    loop {
        match watch::files(store, tally) {
            Ok(open) => return Ok(open),
            Err(what) if SystemClock.monotonic().saturating_sub(begun) > PATIENCE => {
                return Err(format!("for {PATIENCE:?} when nothing goes on: {what}"));
            }
            Err(_) => std::thread::sleep(LOOK_EVERY),
        }
    }
}

fn told(outcome: Result<()>) -> Judged<()> {
    outcome.map_err(|error| format!("{error:#}"))
}

/// What the engine counts itself.
struct Counted([u64; 4]);

impl Counted {
    fn of(engine: &Engine) -> Self {
        let metrics = engine.metrics();
        let names = ["flushes", "compactions", "write_stalls", "write_slowdowns"];
        Self(names.map(|name| metrics.get(&format!("{name}_total")).unwrap_or_default()))
    }

    fn until_now(&self, engine: &Engine, tally: &mut Tally) {
        let now = Self::of(engine).0;
        let more: Vec<u64> = now.iter().zip(self.0).map(|(now, then)| now - then).collect();
        tally.flushes += more[0];
        tally.compactions += more[1];
        tally.stalls += more[2];
        tally.slowdowns += more[3];
    }
}
