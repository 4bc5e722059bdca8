//! Facts about the machine, as Linux tells them. They stand above all figures.

use std::fs::read_to_string;

/// Returns names and values of the facts. A fact that the system does not tell is left out.
pub(super) fn facts() -> Vec<(&'static str, String)> {
    let processor =
        read_to_string("/proc/cpuinfo").ok().and_then(|text| value_of(&text, "model name"));
    let memory = read_to_string("/proc/meminfo").ok().and_then(|text| value_of(&text, "MemTotal"));
    let kernel = read_to_string("/proc/sys/kernel/osrelease").ok();
    let load = read_to_string("/proc/loadavg").ok();
    let cores = std::thread::available_parallelism().ok().map(|cores| cores.to_string());
    let all = [
        ("processor", processor),
        ("cores", cores),
        ("memory", memory),
        ("kernel", kernel),
        ("load before the run", load),
    ];
    let known = all.into_iter().filter_map(|(name, fact)| Some((name, fact?)));
    known.map(|(name, fact)| (name, fact.trim().to_owned())).collect()
}

/// Returns the value in the first line `name: value`.
fn value_of(text: &str, name: &str) -> Option<String> {
    let pairs = text.lines().filter_map(|line| line.split_once(':'));
    let mut values = pairs.filter(|(key, _)| key.trim() == name).map(|(_, value)| value);
    Some(values.next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_names() {
        let text = "processor\t: 0\nmodel name\t: Some CPU: fast\nmodel name\t: Other\n";
        assert_eq!(value_of(text, "model name").unwrap(), "Some CPU: fast");
        assert_eq!(value_of(text, "model"), None);
    }
}
