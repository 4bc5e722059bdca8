//! Where data is kept: it must be a disk, or there is nothing to measure on it.

use std::path::Path;

/// The type of the file system that holds `path`, such as `ext4`; `None` if it cannot be told.
pub(crate) fn file_system_of(path: &Path) -> Option<String> {
    let path = path.canonicalize().ok()?;
    let mounts = std::fs::read_to_string("/proc/self/mounts").ok()?;
    let fields = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(1);
        Some((fields.next()?, fields.next()?))
    });
    // The longest mount point that holds the path; of equal ones the last was mounted on top.
    let holding = fields.filter(|(mount, _)| path.starts_with(mount));
    holding.max_by_key(|(mount, _)| mount.len()).map(|(_, kind)| kind.to_owned())
}

/// Whether that type keeps files in memory.
pub(crate) fn is_memory(file_system: &str) -> bool {
    matches!(file_system, "tmpfs" | "ramfs")
}

/// Bytes of the SSTables in `dir` and below it, those that wait for their removal included.
pub(crate) fn sst_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else { return 0 };
    let bytes = |entry: std::fs::DirEntry| match entry.metadata() {
        Ok(metadata) if metadata.is_dir() => sst_bytes(&entry.path()),
        Ok(metadata) if entry.path().extension().is_some_and(|end| end == "sst") => metadata.len(),
        // Or it was removed since the list was made.
        _ => 0,
    };
    entries.flatten().map(bytes).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_on_some_file_system() {
        assert!(file_system_of(Path::new("/")).is_some());
        assert!(is_memory("tmpfs") && !is_memory("ext4"));
    }
}
