//! Figures of the system about this process, under the names that Prometheus's client libraries use.

use super::Families;
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};
use std::fs;

/// Adds the families of the process. One that the system does not tell is left out.
pub(super) fn add(families: &mut Families) {
    let stat = fs::read_to_string("/proc/self/stat").ok();
    if let Some(stat) = stat.as_deref().and_then(Stat::parse) {
        add_stat(&stat, families);
    }
    if let Ok(open) = fs::read_dir("/proc/self/fd") {
        // Less the descriptor by which they are listed.
        let open = open.count().saturating_sub(1);
        families.gauge("process_open_fds", "Open file descriptors.", &[], open as f64);
    }
    if let Some(limit) = getrlimit(Resource::Nofile).current {
        let help = "Limit of open file descriptors.";
        families.gauge("process_max_fds", help, &[], limit as f64);
    }
}

fn add_stat(stat: &Stat, families: &mut Families) {
    let seconds = |ticks: u64| ticks as f64 / clock_ticks_per_second().max(1) as f64;
    let help = "Processor time of the process, in user and system mode.";
    families.counter("process_cpu_seconds_total", help, &[], seconds(stat.cpu_ticks));
    families.gauge("process_threads", "Threads of the process.", &[], stat.threads as f64);
    let help = "Virtual memory of the process.";
    families.gauge("process_virtual_memory_bytes", help, &[], stat.virtual_bytes as f64);
    let resident = stat.resident_pages.saturating_mul(page_size() as u64);
    let help = "Resident memory of the process.";
    families.gauge("process_resident_memory_bytes", help, &[], resident as f64);
    let booted = fs::read_to_string("/proc/stat").ok();
    if let Some(booted) = booted.as_deref().and_then(boot_seconds) {
        let started = booted as f64 + seconds(stat.started_ticks);
        let help = "Start of the process, in seconds since 1970.";
        families.gauge("process_start_time_seconds", help, &[], started);
    }
}

/// The fields of `/proc/self/stat` that metrics tell.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    cpu_ticks: u64,
    threads: u64,
    /// Time from the start of the system to that of the process.
    started_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    /// Reads the fields. The name of the process, in parentheses, may have any character.
    fn parse(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // The manual counts fields from 1, and the first one here is the third.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)?.saturating_add(field(15)?),
            threads: field(20)?,
            started_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }
}

/// Returns when the system was started, in seconds since 1970.
fn boot_seconds(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_whatever_the_process_is_called() {
        let text = "42 (a) 7 b) S 1 42 42 0 -1 4194560 900 0 2 0 70 30 0 0 20 0 9 0 5000 1048576 \
                    256 18446744073709551615 1 1 0\n";
        let want = Stat {
            cpu_ticks: 100,
            threads: 9,
            started_ticks: 5000,
            virtual_bytes: 1 << 20,
            resident_pages: 256,
        };
        assert_eq!(Stat::parse(text), Some(want));
        assert_eq!(Stat::parse(&text.replace(" 256 ", " -1 ")), None);
        assert_eq!(Stat::parse("42 (stele) S 1"), None);
        assert_eq!(Stat::parse(""), None);
        assert_eq!(boot_seconds("cpu 1\nbtime 1700000000\n"), Some(1_700_000_000));
        assert_eq!(boot_seconds("cpu 1\n"), None);
    }
}
