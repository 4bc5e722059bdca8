//! Power losses, kills, full disks and failed calls, at every operation and at random ones. The
//! promise: every batch that was synced is read back, in order; nothing is invented; a batch that
//! was refused for want of space never appears.

use super::*;
use base::env::Rng;
use base::env::sim::{Fault, FaultPoint};

const SEGMENT: u64 = 700;

fn dir() -> &'static Path {
    Path::new("")
}

fn open(fs: &SimFs) -> crate::Result<(Vec<Batch>, LogWriter)> {
    let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
    let (batches, end) = read(&shared, dir())?;
    Ok((batches, LogWriter::open(shared, dir(), SEGMENT, end)?))
}

/// What was done to a log, as its user knows it.
#[derive(Debug, Default)]
struct History {
    /// Every batch that was appended or may have been.
    appended: Vec<Batch>,
    /// So many of them are on disk.
    durable: usize,
    /// Batches up to here may have been retired.
    flushed: u64,
    next: u64,
}

impl History {
    fn group(&mut self, rng: &mut Rng) -> Vec<Batch> {
        let count = 1 + rng.index(3);
        let new = |_| {
            self.next += 1;
            let len = if rng.chance(5) { rng.index(1500) } else { rng.index(120) };
            batch(rng.index(3) as u32, self.next, len)
        };
        (0..count).map(new).collect()
    }

    /// `error` is what the append of `group` came to.
    fn note(&mut self, group: Vec<Batch>, error: Option<&Error>) {
        if !matches!(error, Some(Error::NoSpace { .. })) {
            self.appended.extend(group);
        }
    }

    fn synced(&mut self) {
        self.durable = self.appended.len();
    }

    /// `seen` is what is read after a restart, and from then on durable.
    fn check(&mut self, seen: &[Batch], case: &str) {
        let flushed = |batches: &[Batch]| batches.iter().all(|b| b.first <= self.flushed);
        let Some(first) = seen.first() else {
            assert!(flushed(&self.appended[..self.durable]), "{case}: all is lost");
            self.appended.clear();
            self.durable = 0;
            return;
        };
        let start = self.appended.iter().position(|batch| batch.first == first.first);
        let start = start.unwrap_or_else(|| panic!("{case}: invented {first:?}"));
        assert!(flushed(&self.appended[..start]), "{case}: the beginning is lost");
        let end = start + seen.len();
        assert!(end >= self.durable, "{case}: {end} of {} are left", self.durable);
        assert_eq!(Some(seen), self.appended.get(start..end), "{case}");
        self.appended.truncate(end);
        self.synced();
    }
}

/// Appends, syncs, rotates and retires until the machine fails or the script ends.
fn run(fs: &SimFs, history: &mut History, rng: &mut Rng, steps: usize) -> crate::Result<()> {
    let (seen, mut writer) = open(fs)?;
    history.check(&seen, "at the start");
    for _ in 0..steps {
        match rng.below(10) {
            0..=5 => {
                let group = history.group(rng);
                let appended = writer.append(&records(&group));
                history.note(group, appended.as_ref().err());
                appended?;
            }
            6..=7 => {
                writer.sync()?;
                history.synced();
            }
            8 => {
                writer.rotate()?;
                history.synced();
            }
            _ => {
                let known = &history.appended[..history.durable];
                let Some(upto) = known.get(rng.index(known.len() + 1)) else { continue };
                history.flushed = history.flushed.max(upto.first);
                let flushed = LogPosition(history.flushed);
                if let Some(first) = writer.segments().first_needed(|_| Some(flushed)) {
                    writer.segments().retire(first)?;
                }
            }
        }
    }
    if rng.chance(30) {
        writer.close()?;
        history.synced();
    }
    Ok(())
}

#[test]
fn synced_batches_survive_a_power_loss_at_every_operation() {
    for seed in 0..6 {
        let fs = SimFs::new(seed);
        run(&fs, &mut History::default(), &mut Rng::new(seed), 40).unwrap();
        let operations = fs.operations();
        assert!(operations > 60, "{operations}");
        for at in 1..=operations {
            let case = format!("seed {seed}, power off at {at}");
            let (fs, mut history) = (SimFs::new(seed * 1000 + at), History::default());
            fs.power_off_at(at);
            let ended = run(&fs, &mut history, &mut Rng::new(seed), 40);
            assert!(ended.is_err() && fs.is_off(), "{case}");
            recover(fs.reboot(), &mut history, at, &case);
        }
    }
}

/// Reads and repairs the log, with the power failing again at every operation of the repair.
fn recover(mut fs: SimFs, history: &mut History, seed: u64, case: &str) {
    for again in 1.. {
        let case = format!("{case}, again at {again}");
        fs.power_off_at(again);
        let opened = open(&fs);
        let off = fs.is_off();
        if let Ok((seen, mut writer)) = opened {
            // What an opened log has shown must stay.
            history.check(&seen, &case);
            if !off {
                let group = history.group(&mut Rng::new(seed));
                fs.power_off_at(u64::MAX);
                writer.append(&records(&group)).unwrap();
                writer.sync().unwrap();
                history.note(group, None);
                history.synced();
            }
        }
        fs = fs.reboot();
        if !off {
            break;
        }
    }
    let (seen, _) = open(&fs).unwrap_or_else(|error| panic!("{case}: {error}"));
    history.check(&seen, case);
}

#[test]
fn nothing_is_lost_or_resurrected_over_many_accidents() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut fs = SimFs::new(seed);
        let mut history = History::default();
        for round in 0..8 {
            let case = format!("seed {seed}, round {round}");
            if rng.chance(40) {
                fs.power_off_at(1 + rng.below(60));
            }
            if rng.chance(30) {
                fs.set_capacity(fs.used() + rng.below(4000));
            }
            if rng.chance(30) {
                fs.inject(FaultPoint::Write, rng.below(30), 1, Fault::NoSpace);
            }
            match run(&fs, &mut history, &mut rng, 30) {
                Ok(()) | Err(Error::NoSpace { .. }) => {}
                // The injected fault can also hit where a full disk is not forgiven.
                Err(Error::Io { source, .. })
                    if source.kind() == std::io::ErrorKind::StorageFull => {}
                Err(error) => assert!(fs.is_off(), "{case}: {error}"),
            }
            fs = if rng.chance(50) { fs.reboot() } else { fs.kill() };
            fs.set_capacity(u64::MAX);
            let shared: Arc<dyn FileSystem> = Arc::new(fs.clone());
            let (seen, _) = read(&shared, dir()).unwrap_or_else(|e| panic!("{case}: {e}"));
            // Reading alone makes nothing durable.
            let durable = history.durable;
            history.check(&seen, &case);
            history.durable = durable.min(history.appended.len());
        }
    }
}

#[test]
fn a_full_disk_refuses_whole_groups_until_space_returns() {
    for seed in 0..200 {
        let case = format!("seed {seed}");
        let mut rng = Rng::new(seed);
        let fs = SimFs::new(seed);
        let mut history = History::default();
        let (_, mut writer) = open(&fs).unwrap();
        fs.set_capacity(rng.below(3000));
        let mut refused = 0;
        for _ in 0..80 {
            if rng.chance(10) {
                fs.set_capacity(fs.used() + rng.below(2500));
            }
            if rng.chance(15) {
                fs.inject(FaultPoint::Write, 0, 1, Fault::NoSpace);
            }
            let group = history.group(&mut rng);
            match writer.append(&records(&group)) {
                Ok(()) => history.note(group, None),
                Err(error) => {
                    assert!(matches!(error, Error::NoSpace { .. }), "{case}: {error}");
                    refused += 1;
                }
            }
            match writer.sync() {
                Ok(()) => history.synced(),
                Err(error) => panic!("{case}: {error}"),
            }
        }
        assert!(refused > 0, "{case}");
        fs.clear_faults();
        let fs = if rng.chance(50) { fs.reboot() } else { fs.kill() };
        let (seen, mut writer) = open(&fs).unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(seen, history.appended, "{case}");
        fs.set_capacity(u64::MAX);
        let group = history.group(&mut rng);
        writer.append(&records(&group)).unwrap();
        writer.close().unwrap();
        history.note(group, None);
        assert_eq!(open(&fs).unwrap().0, history.appended, "{case}");
    }
}

#[test]
fn a_failed_write_or_sync_stops_the_log_until_it_is_opened_again() {
    for (point, op) in [(FaultPoint::Write, "write"), (FaultPoint::Sync, "sync")] {
        let fs = SimFs::new(1);
        let (_, mut writer) = open(&fs).unwrap();
        let batches = [batch(1, 1, 50), batch(1, 2, 50), batch(1, 3, 50)];
        writer.append(&records(&batches[..1])).unwrap();
        writer.sync().unwrap();
        fs.inject(point, 0, 1, Fault::Io);
        let failed = writer.append(&records(&batches[1..2])).and_then(|()| writer.sync());
        assert!(matches!(failed, Err(Error::Io { .. })), "{op}: {failed:?}");
        for _ in 0..3 {
            let refused = writer.append(&records(&batches[2..]));
            assert!(matches!(refused, Err(Error::WritesStopped(_))), "{op}: {refused:?}");
            assert!(matches!(writer.sync(), Err(Error::WritesStopped(_))));
            assert!(matches!(writer.rotate(), Err(Error::WritesStopped(_))));
            assert!(matches!(writer.close(), Err(Error::WritesStopped(_))));
        }
        let (seen, mut writer) = open(&fs.reboot()).unwrap();
        assert!(seen == batches[..1] || seen == batches[..2], "{op}");
        writer.append(&records(&batches[2..])).unwrap();
    }
}

#[test]
fn a_disk_full_during_a_sync_is_a_failed_sync() {
    let fs = SimFs::new(1);
    let (_, mut writer) = open(&fs).unwrap();
    writer.append(&records(&[batch(1, 1, 50)])).unwrap();
    fs.inject(FaultPoint::Sync, 0, 1, Fault::NoSpace);
    assert!(matches!(writer.sync(), Err(Error::Io { .. })));
    assert!(matches!(writer.sync(), Err(Error::WritesStopped(_))));
}

#[test]
fn a_read_error_is_an_error_and_not_the_end() {
    let fs = SimFs::new(1);
    let (_, mut writer) = open(&fs).unwrap();
    for first in 1..30 {
        writer.append(&records(&[batch(1, first, 50)])).unwrap();
    }
    writer.sync().unwrap();
    for after in 0.. {
        fs.inject(FaultPoint::Read, after, 1, Fault::Io);
        match open(&fs) {
            Err(error) => assert!(matches!(error, Error::Io { .. }), "{error}"),
            Ok((seen, _)) => {
                assert_eq!(seen.len(), 29);
                assert!(after > 5, "{after}");
                break;
            }
        }
    }
}
