//! Body of the fuzz target for manifest edits: any bytes are read or refused without a panic; a
//! state that was accepted is the same after it was written and read again.
//!
//! The target is in `/fuzz`; ordinary tests call the body as well, with mutated edits.

use super::current;
use super::{Edit, ManifestSet, State, load};
use crate::error::{Corruption, Error};
use crate::log::framing::append_file::AppendFile;
use crate::log::framing::record::{LogRecord, MANIFEST, RecordKind, encode_file_header};
use base::env::fs::FileSystem;
use base::env::sim::SimFs;
use std::path::Path;
use std::sync::Arc;

/// A manifest. The first byte chooses how the rest is framed: as the whole file, as what follows
/// a good header, or as the edits of a good record.
pub fn manifest_edit(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    match choice & 3 {
        0 => file(data),
        1 => file(&[&encode_file_header(&MANIFEST, MANIFEST.version, 1), data].concat()),
        _ => edits(data),
    }
}

fn file(content: &[u8]) {
    let fs = SimFs::new(1);
    let dir = Path::new("");
    let put = fs
        .create(&current::manifest_path(dir, 1))
        .and_then(|mut file| file.write_all_at(content, 0));
    put.expect("a simulated disk without faults takes it");
    current::point_to(&fs, dir, 1).expect("a simulated disk without faults takes it");
    match load(&fs, dir) {
        Ok(state) => {
            let set = ManifestSet::open(Arc::new(fs), dir).expect("what can be read is opened");
            assert_eq!(state.as_ref(), Some(&*set.state()));
        }
        Err(Error::Corruption(Corruption { offset, .. })) => {
            assert!(offset <= content.len() as u64 + 32)
        }
        Err(Error::Unusable { .. }) => {}
        Err(error) => panic!("not an answer to bytes on disk: {error}"),
    }
}

fn edits(data: &[u8]) {
    let Ok(edits) = Edit::decode_all(data) else { return };
    let mut again = Vec::new();
    edits.iter().for_each(|edit| edit.encode_into(&mut again));
    assert_eq!(again, data, "edits have one encoding");
    let Ok(state) = State::default().apply(&edits) else { return };
    let rebuilt = State::default().apply(&state.to_edits());
    assert_eq!(rebuilt.as_ref(), Ok(&state), "a snapshot says all");
    if state.check().is_ok() {
        let fs = SimFs::new(1);
        let path = current::manifest_path(Path::new(""), 1);
        let record = LogRecord::of_kind(RecordKind::Edit, data);
        let file = fs.create(&path).expect("a simulated disk without faults takes it");
        AppendFile::start(file, path, (&MANIFEST, MANIFEST.version), 1, 0)
            .and_then(|mut file| file.append(&[record]))
            .and_then(|()| current::point_to(&fs, Path::new(""), 1))
            .expect("a simulated disk without faults takes it");
        let loaded = load(&fs, Path::new("")).expect("accepted edits are read back");
        assert_eq!(loaded, Some(state));
    }
}
