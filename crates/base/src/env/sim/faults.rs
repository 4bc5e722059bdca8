//! Calls of the simulated file system that fail: which, when, how.

use crate::sync::Io;
use std::collections::BTreeMap;
use std::io;

/// Calls that a fault can hit: one kind of call, or several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FaultPoint {
    /// `open_read`, `read_exact_at`.
    Read,
    /// `write_all_at`, `allocate`, `set_len`.
    Write,
    /// `sync` of a file, `sync_dir`.
    Sync,
    /// `create`, `rename`, `remove_file`, `hard_link`, `create_dir_all`.
    Name,
    /// All that need a file descriptor: `open_read`, `open_write`, `create`, `list`, `sync_dir`,
    /// `lock`.
    Descriptor,
    /// One kind of call.
    Call(Call),
}

/// Kinds of calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// `open_read`.
    OpenRead,
    /// `read_exact_at`.
    ReadAt,
    /// `open_write`.
    OpenWrite,
    /// `write_all_at`.
    WriteAt,
    /// `allocate`.
    Allocate,
    /// `set_len`.
    SetLen,
    /// `sync` of a file.
    SyncFile,
    /// `sync_dir`.
    SyncDir,
    /// `create`.
    Create,
    /// `rename`.
    Rename,
    /// `remove_file`.
    Remove,
    /// `hard_link`.
    Link,
    /// `create_dir_all`.
    CreateDir,
    /// `list`.
    List,
    /// `size`, of a path or a file, and `exists`.
    Look,
    /// `lock`.
    Lock,
}

impl Call {
    /// All kinds.
    pub const ALL: [Self; 16] = [
        Self::OpenRead,
        Self::ReadAt,
        Self::OpenWrite,
        Self::WriteAt,
        Self::Allocate,
        Self::SetLen,
        Self::SyncFile,
        Self::SyncDir,
        Self::Create,
        Self::Rename,
        Self::Remove,
        Self::Link,
        Self::CreateDir,
        Self::List,
        Self::Look,
        Self::Lock,
    ];

    /// What it does, for those who hold locks.
    pub(super) fn io(self) -> Io {
        match self {
            Self::OpenRead | Self::OpenWrite | Self::List | Self::Look | Self::Lock => Io::Open,
            Self::ReadAt => Io::Read,
            Self::WriteAt | Self::Allocate | Self::SetLen => Io::Write,
            Self::SyncFile | Self::SyncDir => Io::Sync,
            Self::Create | Self::Rename | Self::Remove | Self::Link | Self::CreateDir => Io::Name,
        }
    }
}

impl FaultPoint {
    /// Returns whether a fault at this point can hit `call`.
    pub fn covers(self, call: Call) -> bool {
        use Call::*;
        match self {
            Self::Read => matches!(call, OpenRead | ReadAt),
            Self::Write => matches!(call, WriteAt | Allocate | SetLen),
            Self::Sync => matches!(call, SyncFile | SyncDir),
            Self::Name => matches!(call, Create | Rename | Remove | Link | CreateDir),
            Self::Descriptor => {
                matches!(call, OpenRead | OpenWrite | Create | List | SyncDir | Lock)
            }
            Self::Call(one) => one == call,
        }
    }
}

/// Effect of a fault on a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The device reports an error (EIO).
    Io,
    /// The file system is full (ENOSPC).
    NoSpace,
    /// The process has no file descriptor left (EMFILE).
    NoDescriptor,
    /// The caller panics, as by a defect of its own. Only background work is hit: calls that are made
    /// within a job of the machine.
    Panic,
}

impl Fault {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Io => io::Error::other("simulated I/O error"),
            Self::NoSpace => io::ErrorKind::StorageFull.into(),
            Self::NoDescriptor => rustix::io::Errno::MFILE.into(),
            Self::Panic => panic!("simulated panic"),
        }
    }
}

/// The faults to come, and what was called so far.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Calls until the fault, how many calls it then hits, and what they see.
    due: BTreeMap<FaultPoint, (u64, u64, Fault)>,
    counts: BTreeMap<Call, u64>,
    /// Calls that failed so far.
    struck: u64,
}

impl Faults {
    /// Lets `times` calls fail, after `after` more that do not.
    pub(super) fn inject(&mut self, point: FaultPoint, after: u64, times: u64, fault: Fault) {
        self.due.insert(point, (after, times, fault));
    }

    /// Ends all faults; whether there were any.
    pub(super) fn clear(&mut self) -> bool {
        !std::mem::take(&mut self.due).is_empty()
    }

    /// Returns the number of calls of the kind there were.
    pub(super) fn count(&self, call: Call) -> u64 {
        self.counts.get(&call).copied().unwrap_or(0)
    }

    /// Returns the number of calls that failed.
    pub(super) fn struck(&self) -> u64 {
        self.struck
    }

    /// Counts a call; fails if a fault is due.
    pub(super) fn enter(&mut self, call: Call) -> io::Result<()> {
        *self.counts.entry(call).or_default() += 1;
        let mut failed = None;
        for (point, (after, times, fault)) in &mut self.due {
            let hits = point.covers(call) && (*fault != Fault::Panic || super::tasks::in_job());
            if !hits {
            } else if *after > 0 {
                *after -= 1;
            } else if failed.is_none() {
                *times -= 1;
                failed = Some(*fault);
            }
        }
        self.due.retain(|_, (_, times, _)| *times > 0);
        self.struck += u64::from(failed.is_some());
        failed.map_or(Ok(()), |fault| Err(fault.error()))
    }
}
