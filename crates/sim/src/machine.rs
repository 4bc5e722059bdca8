//! The machine of a session, simulated as a rule: its disk and what befalls it, its clock, its
//! background work.

use base::env::Clock;
use base::env::Env;
use base::env::fs::FileSystem;
use base::env::sim::{Call, Fault, FaultPoint, SimEnv};
use std::path::Path;
use std::time::Duration;

/// One machine. It keeps its disk over power losses.
pub struct Machine {
    sim: SimEnv,
    /// What the engine sees instead, if anything.
    real: Option<Env>,
}

impl Machine {
    /// A machine with an empty disk; its accidents follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self { sim: SimEnv::new(seed), real: None }
    }

    /// The machine that this runs on, as `env` has it: nothing befalls it, its clock is its own, and
    /// background work needs no help.
    pub fn real(env: Env) -> Self {
        Self { sim: SimEnv::new(0), real: Some(env) }
    }

    /// What the engine sees of it.
    pub fn env(&self) -> Env {
        self.real.clone().unwrap_or_else(|| self.sim.env())
    }

    /// Runs one background job, if one is ready.
    pub fn work(&self) {
        self.sim.tasks.run_ready();
    }

    /// Lets time pass.
    pub fn wait(&self, time: Duration) {
        self.sim.clock.advance(time);
    }

    /// Operations that changed or synced the disk since it was last started.
    pub fn operations(&self) -> u64 {
        self.sim.fs.operations()
    }

    /// Lets the power fail during operation `at`, counted from 0 since the machine was started.
    pub fn lose_power_at(&self, at: u64) {
        self.sim.fs.power_off_at(at + 1);
    }

    /// Lets the power fail now.
    pub fn lose_power(&self) {
        self.sim.fs.power_off_at(0);
        let off = self.sim.fs.sync_dir(Path::new("/"));
        assert!(off.is_err(), "the power is out");
    }

    /// Returns whether the power has failed.
    pub fn power_is_out(&self) -> bool {
        self.sim.fs.is_off()
    }

    /// Starts the machine again, with what the power loss left. Nothing that ran on it may be
    /// left.
    pub fn restore_power(&mut self) {
        let before = std::mem::replace(&mut self.sim, SimEnv::new(0));
        self.sim = before.power_loss();
    }

    /// Lets one call at `point` fail, after `after` that do not.
    pub fn fail(&self, point: FaultPoint, after: u64, fault: Fault) {
        self.sim.fs.inject(point, after, 1, fault);
    }

    /// Lets every call at `point` fail after `after` that do not, until it is healed.
    pub fn fail_on(&self, point: FaultPoint, after: u64, fault: Fault) {
        self.sim.fs.inject(point, after, u64::MAX, fault);
    }

    /// Calls of the kind since the machine was started.
    pub fn calls(&self, call: Call) -> u64 {
        self.sim.fs.calls(call)
    }

    /// Accidents since the machine was started: calls that failed, and the loss of its power.
    pub fn accidents(&self) -> u64 {
        self.sim.fs.struck() + u64::from(self.sim.fs.is_off())
    }

    /// From now on a power loss takes every name that was not synced.
    pub fn lose_unsynced_names(&self) {
        self.sim.fs.lose_unsynced_names();
    }

    /// Sets the wall clock by so many microseconds, backwards too; no time passes.
    pub fn jump(&self, micros: i64) {
        let now = self.sim.clock.now_micros();
        self.sim.clock.set_micros(now.saturating_add(micros));
    }

    /// Ends the fault if it has not come yet; whether it had not.
    pub fn heal(&self) -> bool {
        self.sim.fs.clear_faults()
    }

    /// Bytes that all files together may take; `None` is no limit.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.sim.fs.set_capacity(bytes.unwrap_or(u64::MAX));
    }

    /// Bytes that all files take.
    pub fn used(&self) -> u64 {
        self.sim.fs.used()
    }
}
