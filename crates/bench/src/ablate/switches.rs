//! The parts of the read path that can be switched off, and what others published of theirs.

use engine::internals::ReadPath;

/// A part of the read path.
#[derive(Debug)]
pub(super) struct Switch {
    /// Its name in [`ReadPath`].
    pub(super) name: &'static str,
    /// Switches it off.
    pub(super) off: fn(&mut ReadPath),
    /// Workloads for which another database published what a part like this one buys, and what.
    pub(super) published: &'static [(&'static str, &'static str)],
}

/// The switch that switches nothing off.
const NOTHING: &str = "nothing";

/// Each switch; a new one is a line here. The first changes nothing: what it shows is how far two
/// engines that are the same lie apart, by where their memory happens to be and by the machine.
pub(super) const SWITCHES: &[Switch] = &[
    Switch { name: NOTHING, off: |_| {}, published: &[] },
    Switch { name: "huge_pages", off: |parts| parts.huge_pages = false, published: &[] },
    Switch {
        name: "hints",
        off: |parts| parts.hints = false,
        published: &[
            ("get-hit", "RocksDB: index search CPU to nearly nothing"),
            ("get-miss", "Bigtable: filter CPU -60..-70 %"),
        ],
    },
    Switch {
        name: "filters",
        off: |parts| parts.filters = false,
        published: &[("wide-column-miss", "Bigtable: filter use x4 with hybrid filters")],
    },
    Switch {
        name: "point_reads",
        off: |parts| parts.point_reads = false,
        published: &[("get-hit", "Bigtable: single-row throughput +20..+50 %")],
    },
    Switch {
        name: "batched_reads",
        off: |parts| parts.batched_reads = false,
        published: &[("cold-multi-get-32", "Bigtable: prefetch CPU -50 %")],
    },
    Switch { name: "readahead", off: |parts| parts.readahead = false, published: &[] },
    Switch {
        name: "prefix_index",
        off: |parts| parts.prefix_index = false,
        published: &[("prefix-get", "RocksDB: index search CPU to nearly nothing")],
    },
    Switch { name: "cache_warming", off: |parts| parts.cache_warming = false, published: &[] },
    Switch { name: "admission", off: |parts| parts.admission = false, published: &[] },
    Switch { name: "counters", off: |parts| parts.counters = false, published: &[] },
];

impl Switch {
    /// What was published for `workload`; empty if nothing was.
    pub(super) fn published(&self, workload: &str) -> &'static str {
        let mut all = self.published.iter();
        all.find(|(name, _)| *name == workload).map_or("", |(_, figure)| figure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ablate::workloads::WORKLOADS;

    #[test]
    fn each_switch_turns_one_part_off() {
        for (at, switch) in SWITCHES.iter().enumerate().filter(|(_, s)| s.name != NOTHING) {
            let mut parts = ReadPath::default();
            (switch.off)(&mut parts);
            let shown = format!("{parts:?}");
            assert!(shown.contains(&format!("{}: false", switch.name)), "{shown}");
            assert_eq!(shown.matches(": false").count(), 1, "{shown}");
            assert!(SWITCHES[..at].iter().all(|before| before.name != switch.name));
        }
    }

    #[test]
    fn what_was_published_stands_beside_a_workload() {
        for (name, _) in SWITCHES.iter().flat_map(|switch| switch.published) {
            assert!(WORKLOADS.iter().any(|workload| workload.name == *name), "{name}");
        }
    }
}
