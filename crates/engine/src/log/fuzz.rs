//! Body of the fuzz target for log records: any bytes in the place of a segment are read or
//! refused without a panic, and what was read once is there after a repair and another append.
//!
//! The target is in `/fuzz`; ordinary tests call the body as well, with mutated segments.

use super::framing::record::{self, LOG, RECORD_HEADER_LEN};
use super::{LogReader, LogRecord, LogWriter, SegmentNumber};
use crate::cell::{SequenceNumber, TreeId};
use crate::error::{Corruption, Error, Result};
use base::checksum::crc32c;
use base::env::fs::FileSystem;
use base::env::sim::SimFs;
use std::path::Path;
use std::sync::Arc;

/// The last segment of a log. The first byte chooses how the rest is framed: as the whole file,
/// as what follows a good header, or as one record whose checksums are made right.
pub fn log_record(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let header = record::encode_file_header(&LOG, LOG.version, 1);
    let content = match choice & 3 {
        0 => data.to_vec(),
        1 => [&header, data].concat(),
        _ => [&header, &right_checksums(header.len() as u64, data)[..]].concat(),
    };
    let fs = SimFs::new(1);
    let path = SegmentNumber(1).path(Path::new(""));
    let put = fs.create(&path).and_then(|mut file| file.write_all_at(&content, 0));
    put.expect("a simulated disk without faults takes it");
    let fs: Arc<dyn FileSystem> = Arc::new(fs);
    match read(&fs) {
        Ok((before, end)) => {
            let mut writer = LogWriter::open(Arc::clone(&fs), Path::new(""), 4096, end)
                .expect("what can be read can be repaired");
            let (tree, first) = (TreeId(9), SequenceNumber(9));
            let one = LogRecord::new(tree, first, 9, b"new");
            writer.append(&[one]).expect("the disk has space");
            let (after, _) = read(&fs).expect("a repaired log can be read");
            assert_eq!(after[..before.len()], before, "nothing is lost");
            assert_eq!(after[before.len()..], [b"new".to_vec()], "nothing is invented");
        }
        Err(Error::Corruption(Corruption { file, offset, .. })) => {
            assert!(file == path && offset <= content.len() as u64);
        }
        Err(Error::Unusable { .. }) => {}
        Err(error) => panic!("not an answer to bytes on disk: {error}"),
    }
}

fn right_checksums(offset: u64, data: &[u8]) -> Vec<u8> {
    let mut out = data.to_vec();
    if let Some((fields, payload)) = out.split_at_mut_checked(RECORD_HEADER_LEN) {
        fields[4..8].copy_from_slice(&crc32c(&[payload]).to_le_bytes());
        fields[8..12].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        let (number, offset) = (1u64.to_le_bytes(), offset.to_le_bytes());
        let crc = crc32c(&[&number, &offset, &fields[4..]]);
        fields[..4].copy_from_slice(&crc.to_le_bytes());
    }
    out
}

fn read(fs: &Arc<dyn FileSystem>) -> Result<(Vec<Vec<u8>>, super::LogEnd)> {
    let mut reader = LogReader::open(Arc::clone(fs), Path::new(""))?;
    let mut payloads = Vec::new();
    while let Some(item) = reader.next()? {
        payloads.push(item.record.payload.to_vec());
    }
    Ok((payloads, reader.finish()?))
}
