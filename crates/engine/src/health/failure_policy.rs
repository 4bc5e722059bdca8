//! What becomes of work that fails: one table ([`rule`], printed in docs/operations.md), and what
//! follows from it for a piece of work that is tried again and again ([`Attempts`]). Pure: whoever
//! asks brings the time along.
//!
//! Invariants:
//! 1. Work that fails and is not given up for good always has a time of its next try.
//! 2. From that time on it may start, whoever starts it; a success forgets all failures before it.

use crate::error::Error;
use std::fmt;
use std::time::Duration;

/// Work of the engine that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Task {
    /// A memtable on its way to an SSTable, started by the engine.
    Flush,
    /// A compaction that the engine started.
    Compaction,
    /// An append to the commit log, or a sync of it.
    Log,
    /// An edit of the manifest.
    Manifest,
    /// What a caller waits for: `Tree::flush` and `compact_range`.
    ByHand,
    Ingest,
    /// A checkpoint, or a backup, which begins with one.
    Checkpoint,
}

impl fmt::Display for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Flush => "flush",
            Self::Compaction => "compaction",
            Self::Log => "log",
            Self::Manifest => "manifest",
            Self::ByHand => "manual flush or compaction",
            Self::Ingest => "ingest",
            Self::Checkpoint => "checkpoint",
        })
    }
}

/// How work fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The file system refuses a call: the next may succeed.
    Transient,
    /// There is no space.
    FullDisk,
    /// What was read is not what was written.
    Corruption,
    /// It will fail again for as long as the engine is open.
    Permanent,
    /// A defect of the engine, or of what embeds it.
    Panic,
}

impl Kind {
    /// How work fails that ends with `error`; `None` if it does not count as a failure: the engine
    /// closes, or the tree is gone.
    pub(crate) fn of(error: &Error) -> Option<Self> {
        match error {
            Error::Closed | Error::UnknownTree(_) | Error::ChangesGone(_) => None,
            Error::Io { .. } | Error::Unavailable(_) => Some(Self::Transient),
            Error::NoSpace { .. } => Some(Self::FullDisk),
            Error::Corruption(_) => Some(Self::Corruption),
            Error::Unusable { .. } | Error::InvalidArgument(_) | Error::WritesStopped(_) => {
                Some(Self::Permanent)
            }
        }
    }
}

/// When work that failed is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// The engine tries it again after `first`, and after each further failure waits twice as long,
    /// up to `longest`.
    ByItself { first: Duration, longest: Duration },
    /// Whoever asked for it was told the failure, and may ask again.
    WhenAsked,
    /// Not before the engine is opened again.
    WhenOpened,
}

/// What writers feel of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writers {
    /// Nothing.
    GoOn,
    /// Those that cannot go on without the work wait for [`PATIENCE`] tries of it; then they are
    /// refused with `Unavailable`, and the failure in its text.
    Wait,
    /// Those that cannot go on without the work are refused with the failure itself.
    Refused,
    /// All are refused with `WritesStopped`, and the failure in its text.
    Stopped,
}

/// What becomes of work that fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rule {
    pub(crate) again: Again,
    pub(crate) writers: Writers,
}

/// Failures of work one after the other that a writer waits for before it is told.
const PATIENCE: u32 = 3;

const STOPS: Rule = Rule { again: Again::WhenOpened, writers: Writers::Stopped };
const TOLD: Rule = Rule { again: Again::WhenAsked, writers: Writers::GoOn };

const fn retried(first_ms: u64, longest_ms: u64, writers: Writers) -> Rule {
    let (first, longest) = (Duration::from_millis(first_ms), Duration::from_millis(longest_ms));
    Rule { again: Again::ByItself { first, longest }, writers }
}

/// The table. Whoever waits for the work is told in any case; so are the log of the program and the
/// counters `background_failures_total` and `background_panics_total`.
pub(crate) const fn rule(task: Task, kind: Kind) -> Rule {
    match (task, kind) {
        (Task::Flush | Task::Compaction, Kind::Transient) => retried(100, 10_000, Writers::Wait),
        (Task::Flush | Task::Compaction, Kind::FullDisk) => retried(1_000, 1_000, Writers::Refused),
        // What was just written does not read: the memtable is written to another file.
        (Task::Flush, Kind::Corruption) => retried(100, 10_000, Writers::Wait),
        // Its input is damaged, and is left alone meanwhile; other compactions go on.
        (Task::Compaction, Kind::Corruption) => retried(60_000, 3_600_000, Writers::Refused),
        // Nothing was written, or nothing of it counts.
        (Task::Log | Task::Manifest, Kind::FullDisk) => TOLD,
        // It changes nothing of the engine.
        (Task::Checkpoint, _) => TOLD,
        // Nothing of it counts, or log or manifest say so themselves.
        (Task::ByHand | Task::Ingest, Kind::Transient | Kind::FullDisk | Kind::Corruption) => TOLD,
        (Task::ByHand | Task::Ingest, Kind::Permanent) => TOLD,
        (_, Kind::Panic | Kind::Permanent) | (Task::Log | Task::Manifest, _) => STOPS,
    }
}

/// The failures of a piece of work that is tried again and again, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Attempts {
    last: Option<Failed>,
}

#[derive(Debug)]
struct Failed {
    error: Error,
    writers: Writers,
    /// Failures since the last success.
    times: u32,
    /// When it may be tried again, by the monotonic clock; `None`: now.
    again: Option<Duration>,
}

impl Attempts {
    /// Notes that `task` failed at `now`. Gives how long it waits until it is tried again; `None`:
    /// the engine does not try it again.
    pub(crate) fn failed(&mut self, task: Task, error: Error, now: Duration) -> Option<Duration> {
        let Rule { again, writers } = rule(task, Kind::of(&error)?);
        let times = self.last.as_ref().map_or(0, |before| before.times).saturating_add(1);
        let wait = match again {
            Again::ByItself { first, longest } => {
                Some(first.saturating_mul(1 << (times - 1).min(30)).min(longest))
            }
            Again::WhenAsked | Again::WhenOpened => None,
        };
        let again = wait.map_or(Some(Duration::MAX), |wait| Some(now + wait));
        self.last = Some(Failed { error, writers, times, again });
        wait
    }

    /// Forgets all failures.
    pub(crate) fn succeeded(&mut self) {
        self.last = None;
    }

    /// Lets the next try begin, whatever the time.
    pub(crate) fn begin_now(&mut self) {
        if let Some(failed) = &mut self.last {
            failed.again = None;
        }
    }

    /// Returns whether the next try is to wait.
    pub(crate) fn waits(&self, now: Duration) -> bool {
        self.last.as_ref().and_then(|failed| failed.again).is_some_and(|again| now < again)
    }

    /// Returns whether the last try failed.
    pub(crate) fn is_failing(&self) -> bool {
        self.last.is_some()
    }

    /// What a writer is told who cannot go on before the work is done; `None`: it waits.
    pub(crate) fn refusal(&self) -> Option<Error> {
        let Failed { error, writers, times, .. } = self.last.as_ref()?;
        match writers {
            Writers::GoOn => None,
            Writers::Wait if *times < PATIENCE => None,
            Writers::Wait => Some(Error::Unavailable(error.into())),
            Writers::Refused => Some(error.clone()),
            Writers::Stopped => Some(Error::WritesStopped(error.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    const TASKS: [Task; 7] = [
        Task::Flush,
        Task::Compaction,
        Task::Log,
        Task::Manifest,
        Task::ByHand,
        Task::Ingest,
        Task::Checkpoint,
    ];
    const KINDS: [(Kind, &str); 5] = [
        (Kind::Transient, "disk error"),
        (Kind::FullDisk, "full disk"),
        (Kind::Corruption, "corruption"),
        (Kind::Permanent, "permanent error"),
        (Kind::Panic, "panic"),
    ];

    fn told(Rule { again, writers }: Rule) -> String {
        let again = match again {
            Again::ByItself { first, longest } if first == longest => format!("every {first:?}"),
            Again::ByItself { first, longest } => {
                format!("after {first:?}, doubling to {longest:?}")
            }
            Again::WhenAsked => "on request".to_owned(),
            Again::WhenOpened => "on reopen".to_owned(),
        };
        let writers = match writers {
            Writers::GoOn => "writes continue",
            Writers::Wait => "writers wait, then `Unavailable`",
            Writers::Refused => "writers get the error",
            Writers::Stopped => "**writes stop**",
        };
        format!("{again}; {writers}")
    }

    #[test]
    fn the_table_is_the_one_of_the_manual() {
        let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
        let head = KINDS.map(|(_, name)| name.to_owned());
        let mut table = row([vec!["".to_owned()], head.to_vec()].concat());
        table += &"|---".repeat(KINDS.len() + 1);
        table += "|\n";
        for task in TASKS {
            let cells = KINDS.map(|(kind, _)| told(rule(task, kind)));
            table += &row([vec![task.to_string()], cells.to_vec()].concat());
        }
        let manual = include_str!("../../../../docs/operations.md");
        assert!(manual.contains(&table), "docs/operations.md is to have this table:\n\n{table}");
    }

    #[test]
    fn whatever_fails_has_a_next_try_or_stops_writes_or_was_asked_for() {
        for task in TASKS {
            for (kind, how) in KINDS {
                let Rule { again, writers } = rule(task, kind);
                let stops = writers == Writers::Stopped;
                assert_eq!(again == Again::WhenOpened, stops, "{task}: {how}");
                if matches!(task, Task::Flush | Task::Compaction) {
                    let by_itself = matches!(again, Again::ByItself { .. });
                    assert!(by_itself || stops, "{task}: {how}: nobody asks for it");
                }
            }
        }
    }

    fn io() -> Error {
        Error::io("write", Path::new("7.sst"), &std::io::Error::other("broken"))
    }

    #[test]
    fn tries_come_later_and_later_up_to_a_bound_until_one_succeeds() {
        let mut attempts = Attempts::default();
        let second = Duration::from_secs(1);
        assert!(!attempts.waits(Duration::ZERO) && attempts.refusal().is_none());
        let mut now = Duration::ZERO;
        let mut waits = Vec::new();
        for times in 1..=10 {
            let wait = attempts.failed(Task::Flush, io(), now).unwrap();
            assert!(attempts.waits(now) && attempts.waits(now + wait - Duration::from_nanos(1)));
            now += wait;
            assert!(!attempts.waits(now));
            let told = matches!(attempts.refusal(), Some(Error::Unavailable(_)));
            assert_eq!(told, times >= PATIENCE, "after {times} failures");
            waits.push(wait.as_millis());
        }
        assert_eq!(waits, [100, 200, 400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000]);
        attempts.succeeded();
        assert!(!attempts.is_failing());
        let full = std::io::ErrorKind::StorageFull.into();
        let none = Error::io("write", Path::new("7.sst"), &full);
        assert_eq!(attempts.failed(Task::Flush, none, now), Some(second));
        assert!(matches!(attempts.refusal(), Some(Error::NoSpace { .. })));
        attempts.begin_now();
        assert!(attempts.is_failing() && !attempts.waits(now));
    }

    #[test]
    fn what_fails_for_good_is_not_tried_again_and_an_end_is_no_failure() {
        let mut attempts = Attempts::default();
        assert_eq!(attempts.failed(Task::Flush, Error::Closed, Duration::ZERO), None);
        assert!(!attempts.is_failing());
        let stopped = Error::stopped("the log");
        assert_eq!(attempts.failed(Task::Flush, stopped, Duration::ZERO), None);
        assert!(attempts.waits(Duration::from_secs(1 << 40)));
        assert!(matches!(attempts.refusal(), Some(Error::WritesStopped(_))));
    }
}
