//! The file in a node's data directory that tells which node it is, and how often it started; see
//! docs/format/directory.md.

use super::error::{Error, Result};
use crate::group::NodeId;
use base::checksum::crc32c;
use base::codec::{ByteReader, DecodeError, PutBytes};
use engine::ClusterId;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"STELENOD";
const VERSION: u8 = 1;
const FILE_BYTES: usize = MAGIC.len() + 1 + 16 + 8 + 8 + 4;
/// Name of the file in the data directory.
const NAME: &str = "node.identity";

/// The node that a data directory is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) cluster: ClusterId,
    pub(super) node: NodeId,
    /// Number of the last start.
    pub(super) boot: u64,
}

impl Identity {
    /// Reads the identity of the data directory `dir`; `None` if it is of no node yet.
    pub(super) fn load(dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(NAME);
        let mut bytes = Vec::new();
        let read = File::open(&path)
            .and_then(|file| file.take(FILE_BYTES as u64 + 1).read_to_end(&mut bytes));
        match read {
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::damaged(path.display(), error)),
            Ok(_) => {
                Self::decode(&bytes).map(Some).map_err(|what| Error::damaged(path.display(), what))
            }
        }
    }

    /// Writes the identity of the data directory `dir`, durably when this returns.
    pub(super) fn save(&self, dir: &Path) -> Result<()> {
        let (path, fresh) = (dir.join(NAME), dir.join(format!("{NAME}.new")));
        let write = || {
            let mut file = File::create(&fresh)?;
            file.write_all(&self.encode())?;
            file.sync_all()?;
            std::fs::rename(&fresh, &path)?;
            File::open(dir)?.sync_all()
        };
        write().map_err(|error: std::io::Error| Error::damaged(path.display(), error))
    }

    fn encode(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        out.push(VERSION);
        out.extend_from_slice(&self.cluster.0.to_le_bytes());
        out.put_u64(self.node.0);
        out.put_u64(self.boot);
        let crc = crc32c(&[&out]);
        out.put_u32(crc);
        out
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, String> {
        let mut reader = ByteReader::new(bytes);
        if reader.bytes(MAGIC.len(), "magic").ok() != Some(MAGIC) {
            return Err("not the identity of a node: its magic is another".to_owned());
        }
        match reader.u8("version") {
            Ok(VERSION) => {}
            Ok(version) => return Err(format!("unknown version {version}; use a newer Stele")),
            Err(error) => return Err(error.to_string()),
        }
        let mut body = || {
            let mut cluster = [0; 16];
            cluster.copy_from_slice(reader.bytes(16, "cluster id")?);
            let (node, boot) = (reader.u64("node id")?, reader.u64("boot counter")?);
            let crc = reader.u32("checksum")?;
            reader.finish()?;
            Ok::<_, DecodeError>((u128::from_le_bytes(cluster), node, boot, crc))
        };
        let (cluster, node, boot, crc) = body().map_err(|error| error.to_string())?;
        if crc != crc32c(&[&bytes[..FILE_BYTES - 4]]) {
            return Err("the checksum does not match".to_owned());
        }
        Ok(Self { cluster: ClusterId(cluster), node: NodeId(node), boot })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_reads_back_and_any_damage_is_found() {
        let identity = Identity { cluster: ClusterId(3), node: NodeId(2), boot: 7 };
        let bytes = identity.encode();
        assert_eq!(bytes.len(), FILE_BYTES);
        assert_eq!(&bytes[..10], b"STELENOD\x01\x03");
        assert_eq!(Identity::decode(&bytes), Ok(identity));
        for at in 0..bytes.len() {
            assert!(Identity::decode(&bytes[..at]).is_err(), "cut at {at}");
            let mut flipped = bytes.clone();
            flipped[at] ^= 1;
            assert!(Identity::decode(&flipped).is_err(), "flipped at {at}");
        }
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Identity::load(dir.path()), Ok(None));
        identity.save(dir.path()).unwrap();
        assert_eq!(Identity::load(dir.path()), Ok(Some(identity)));
    }
}
