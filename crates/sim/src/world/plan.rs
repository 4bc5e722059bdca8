//! The make of a world, drawn from its seed: nodes, groups, speeds, and the kinds of faults that
//! it suffers. Each world has some kinds and lacks others, so that rare ones are not drowned.

use base::env::Rng;
use cluster::Shape;
use std::time::Duration;

/// Kinds of faults in a world.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A node hears none of the others and is not heard.
    Isolate,
    /// One direction of one pair is cut.
    OneWay,
    /// A node hears none of the others, or they do not hear it.
    HalfDeaf,
    /// A process stands still, with all its threads.
    Pause,
    /// A process is killed, and starts again.
    Kill,
    /// A machine loses power, and starts again.
    PowerLoss,
    /// A disk takes long for each sync.
    SlowDisk,
    /// A sync fails, which ends the process.
    FailedSync,
    /// A leader is told to hand over.
    Transfer,
    /// State machines of a node take long for each entry.
    SlowApply,
    /// The connection of two nodes breaks.
    Break,
    /// Messages of a stream take long.
    SlowStream,
    /// A clock runs at another speed from now on, within the bounds.
    Drift,
    /// A clock jumps, or runs at any speed, or stands still for a while.
    WildClock,
    /// A replica that has not heard of its leader for long finds the others just restarted.
    RestartUnderLease,
    /// A leader that hands over is cut off at once.
    TransferThenCut,
    /// A leader hands over, and gets its office back soon.
    TransferAndBack,
    /// A leader with a slow clock is cut off from replicas with fast ones, all within the bounds.
    SlowLeader,
    /// Answers to a leader wait on their way until it has no followers any more.
    HeldAnswers,
}

const ALL: [Fault; 16] = [
    Fault::Isolate,
    Fault::OneWay,
    Fault::HalfDeaf,
    Fault::Pause,
    Fault::Kill,
    Fault::PowerLoss,
    Fault::SlowDisk,
    Fault::FailedSync,
    Fault::Transfer,
    Fault::SlowApply,
    Fault::Break,
    Fault::SlowStream,
    Fault::Drift,
    Fault::WildClock,
    Fault::RestartUnderLease,
    Fault::TransferThenCut,
];

/// Faults that need others to be rare, and are in worlds of their own.
const RARE: [Fault; 3] = [Fault::TransferAndBack, Fault::SlowLeader, Fault::HeldAnswers];

/// The header of this file describes it.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// Nodes, each with a replica of every group.
    pub(super) nodes: u64,
    /// Groups that every node has.
    pub(super) groups: u64,
    /// Rows that a group has.
    pub(super) rows: u16,
    /// Clients, each of which has one operation under way.
    pub(super) clients: usize,
    /// Time between two ticks of a driver.
    pub(super) tick: Duration,
    /// Internal limits of the drivers.
    pub(super) shape: Shape,
    /// Faults that the world suffers.
    pub(super) faults: Vec<Fault>,
    /// Percent of reads that a lease may answer; the others ask a quorum. Zero if clocks may do anything.
    pub(super) by_lease: u64,
    /// Percent of messages that are lost on their way.
    pub(super) lost: u64,
    /// Most ballast of a command, in bytes.
    pub(super) ballast: usize,
    /// Bytes of a segment of the group log, and the segments beyond which groups are to let go.
    pub(super) segments: (u64, usize),
    /// Entries between two flushes of a state machine, about.
    pub(super) flush_entries: u64,
    /// All clients rest at times, so that groups fall asleep.
    pub(super) rests: bool,
    /// When all is well at the end, the leader of a group is lost for good.
    pub(super) loses_leader: bool,
    /// Ticks in which nothing happens, after which a group falls asleep.
    pub(super) sleep_ticks: usize,
}

impl Plan {
    /// Draws the plan of a world.
    pub(super) fn draw(rng: &mut Rng) -> Self {
        let calm = rng.chance(6);
        let (wild_clocks, rare) = (!calm && rng.chance(8), !calm && rng.chance(25));
        let mut faults: Vec<Fault> = match calm {
            true => vec![Fault::SlowDisk, Fault::SlowApply],
            false if rare => {
                let usual: Vec<_> = ALL.into_iter().filter(|_| rng.chance(12)).collect();
                usual.into_iter().chain(RARE.into_iter().filter(|_| rng.chance(70))).collect()
            }
            false => ALL.into_iter().filter(|_| rng.chance(40)).collect(),
        };
        faults.retain(|fault| wild_clocks || *fault != Fault::WildClock);
        if faults.is_empty() {
            faults.push(Fault::Isolate);
        }
        let mut shape = match rng.chance(60) {
            true => Shape::any(rng.next_u64(), 35),
            false => Shape::DEFAULT,
        };
        let holds_answers = faults.contains(&Fault::HeldAnswers);
        let by_lease = match holds_answers {
            _ if wild_clocks => 0,
            true => 30,
            false => 85,
        };
        shape.away_timeouts = *rng.pick(&[1, 2, 30]);
        let ballast = *rng.pick(&[0, 0, 40, 300]);
        shape.command_bytes_max = shape.command_bytes_max.max(10 + ballast);
        Self {
            nodes: if rng.chance(75) { 3 } else { 5 },
            groups: 1 + rng.below(3),
            rows: 1 + rng.below(3) as u16,
            clients: 3 + rng.index(5) + if holds_answers { 5 } else { 0 },
            tick: Duration::from_millis(*rng.pick(&[10, 100])),
            shape,
            faults,
            by_lease,
            lost: if calm { 0 } else { *rng.pick(&[0, 0, 1, 5]) },
            ballast,
            segments: *rng.pick(&[(1 << 10, 2), (4 << 10, 3), (64 << 10, 16)]),
            flush_entries: *rng.pick(&[3, 20, 200]),
            rests: rng.chance(40),
            loses_leader: rng.chance(30),
            sleep_ticks: *rng.pick(&[3, 8, 50]),
        }
    }

    /// Returns true if only disks and state machines are slow, so that no leader has a reason to lose
    /// its office.
    pub(super) fn is_calm(&self) -> bool {
        let harmless = |fault: &Fault| matches!(fault, Fault::SlowDisk | Fault::SlowApply);
        self.lost == 0 && self.faults.iter().all(harmless)
    }

    /// Returns the election timeout, in nanoseconds.
    pub(super) fn timeout(&self) -> u64 {
        10 * self.tick.as_nanos() as u64
    }
}
