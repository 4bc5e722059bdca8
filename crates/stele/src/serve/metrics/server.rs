//! The state of the server, and the bounds of its clients.

use super::super::state::{Phase, State};
use super::Families;
use bigtable::Bounds;
use engine::Engine;

/// Adds the families of the server.
pub(super) fn add(state: &State, families: &mut Families) {
    let help = "Constant 1, labelled with the version.";
    let version = [("version", env!("CARGO_PKG_VERSION"))];
    families.gauge("stele_build_info", help, &version, 1.0);
    let help = "Seconds since the server started.";
    families.gauge("stele_uptime_seconds", help, &[], state.uptime().as_secs_f64());
    let ready = if state.phase() == Phase::Serving { 1.0 } else { 0.0 };
    families.gauge("stele_ready", "1 while the server accepts requests, else 0.", &[], ready);
    if let Some(engine) = state.engine() {
        add_disk(engine, families);
    }
    add_calls(state, families);
    for (result, spans) in state.spans().read() {
        let help = "Spans of traced requests, by what became of them.";
        families.counter("stele_trace_spans_total", help, &[("result", result)], spans as f64);
    }
    let help = "Requests that took as long as slow-request-ms or longer.";
    families.counter("stele_slow_requests_total", help, &[], state.slow().slow() as f64);
    let help = "Slow requests without a line in the log, which has 20 lines a second at most.";
    families.counter(
        "stele_slow_requests_unlogged_total",
        help,
        &[],
        state.slow().left_out() as f64,
    );
}

/// The space of the file system that has the data directory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Disk {
    /// Bytes that are left to the server.
    pub(crate) free: u64,
    pub(crate) size: u64,
}

/// Returns the space of the file system that has the data directory, if the system tells it.
pub(crate) fn disk(engine: &Engine) -> Option<Disk> {
    let found = rustix::fs::statvfs(engine.dir()).ok()?;
    let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
    Some(Disk { free: bytes(found.f_bavail), size: bytes(found.f_blocks) })
}

/// Adds the space of the disk.
fn add_disk(engine: &Engine, families: &mut Families) {
    let Some(Disk { free, size }) = disk(engine) else { return };
    let help = "Space that is left to the server on the file system of the data directory.";
    families.gauge("stele_disk_free_bytes", help, &[], free as f64);
    let help = "Size of the file system of the data directory.";
    families.gauge("stele_disk_size_bytes", help, &[], size as f64);
}

/// Adds what calls hold of their bounds, and the calls that were refused.
fn add_calls(state: &State, families: &mut Families) {
    let holdings = state.bounds().map(Bounds::holdings).unwrap_or_default();
    for (name, help, value) in [
        ("stele_calls_in_flight", "Calls that count towards calls-max.", holdings.calls),
        (
            "stele_upload_bytes",
            "Bytes of requests that are being uploaded, or came in parts and are worked on.",
            holdings.upload_bytes,
        ),
        (
            "stele_answer_bytes",
            "Bytes of answers that were read and that clients have not taken.",
            holdings.answer_bytes,
        ),
    ] {
        families.gauge(name, help, &[], value as f64);
    }
    let no_room = state.bounds().into_iter().flat_map(Bounds::refusals);
    let no_room = no_room.map(|(refusal, count)| (refusal.label(), count));
    for (reason, count) in state.security().refused().counts().into_iter().chain(no_room) {
        let help = "Calls that were refused, for their callers or for want of room, by reason.";
        let labels = [("reason", reason)];
        families.counter("stele_refused_calls_total", help, &labels, count as f64);
    }
}
