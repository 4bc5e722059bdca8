//! Bodies of the fuzz targets, which are in `/fuzz`: bytes that decode are encoded to the same bytes.

use super::{Command, Descriptor, decode_frame, encode_frames};
use base::checksum::crc32c;

/// A frame of messages, without its checksum, which is put after it.
pub fn fuzz_messages(data: &[u8]) {
    let frame = [data, &crc32c(&[data]).to_le_bytes()].concat();
    let _ = decode_frame(data);
    let Ok(messages) = decode_frame(&frame) else { return };
    match &encode_frames(&messages, usize::MAX)[..] {
        [] => assert!(data.len() == 1, "a frame without messages has a version only"),
        [again] => assert_eq!(again[..], frame[..]),
        more => panic!("{} frames of one", more.len()),
    }
}

/// A command of a group's log.
pub fn fuzz_command(data: &[u8]) {
    if let Ok(command) = Command::decode(data) {
        assert_eq!(command.encode(), data);
    }
}

/// A descriptor of a group.
pub fn fuzz_descriptor(data: &[u8]) {
    if let Ok(descriptor) = Descriptor::decode(data) {
        assert_eq!(descriptor.encode(), data);
    }
}
