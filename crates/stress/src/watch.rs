//! Memory and open files of this process, as the system tells them.

use crate::report::Tally;
use engine::internals::{FileNumber, State, load_manifest};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Memory of this process, in bytes.
pub(crate) fn memory_bytes() -> Result<u64, String> {
    let bytes = base::memory::process_bytes();
    bytes.map(|bytes| bytes as u64).ok_or_else(|| "the system does not tell of memory".to_owned())
}

/// What the open descriptors of this process lead to.
fn descriptors() -> Result<Vec<PathBuf>, String> {
    let listed = std::fs::read_dir("/proc/self/fd");
    let listed = listed.map_err(|error| format!("cannot list /proc/self/fd: {error}"))?;
    // One is closed again by now: that of the listing.
    Ok(listed.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok()).collect())
}

/// Looks at the files in the store at `dir`, and those that are open, when nothing goes on. Gives
/// the number of descriptors that are none of the store's SSTables; the error says what should not
/// be there.
pub(crate) fn files(dir: &Path, tally: &mut Tally) -> Result<usize, String> {
    let fs = &base::env::RealFileSystem;
    let state = load_manifest(fs, dir).map_err(|error| error.to_string())?;
    let state = state.ok_or("the store has no manifest")?;
    let named = state.files();
    let listed = base::env::FileSystem::list(fs, dir).map_err(|error| error.to_string())?;
    let mut manifests = 0;
    for name in &listed {
        manifests += usize::from(name.to_string_lossy().starts_with("MANIFEST-"));
        if let Some(why) = stranger(name, &state, &named) {
            return Err(format!("{} {why}", dir.join(name).display()));
        }
    }
    if manifests != 1 {
        return Err(format!("{} has {manifests} manifests", dir.display()));
    }
    tally.ssts = named.len() as u64;
    let mut others = 0;
    for path in descriptors()? {
        match path.file_name().and_then(|name| FileNumber::of_sst(Path::new(name))) {
            Some(_) if path.parent() != Some(dir) => {
                return Err(format!("{} is still open", path.display()));
            }
            Some(number) if named.contains(&number) => {}
            Some(_) => return Err(format!("{} is open and not named", path.display())),
            // The system marks those whose name is gone.
            None if path.to_string_lossy().ends_with(" (deleted)") => {
                return Err(format!("{} is still open", path.display()));
            }
            None => others += 1,
        }
    }
    Ok(others)
}

/// Why a file of that name should not be in the store; `None` if it may.
fn stranger(name: &Path, state: &State, named: &BTreeSet<FileNumber>) -> Option<&'static str> {
    let text = name.to_str().unwrap_or_default();
    if let Some(number) = FileNumber::of_sst(name) {
        return (!named.contains(&number))
            .then_some("is an SSTable that the manifest does not name");
    }
    let segment = |suffix| text.strip_suffix(suffix).and_then(|digits| digits.parse::<u64>().ok());
    if let Some(number) = segment(".log") {
        return (number < state.log_from.0).then_some("is a segment that was retired");
    }
    let known = matches!(text, "CURRENT" | "LOCK") || text.starts_with("MANIFEST-");
    (!known && segment(".spare").is_none()).then_some("is no file of a store")
}
