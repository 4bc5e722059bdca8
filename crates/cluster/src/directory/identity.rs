//! The file in a node's data directory that tells which node it is, how often it started, and in which
//! place of which run of the machine it started last; see docs/format/directory.md.

use super::error::{Error, Result};
use crate::group::NodeId;
use base::checksum::{crc32c, xxh3};
use base::codec::{ByteReader, DecodeError, PutBytes};
use engine::ClusterId;
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

const MAGIC: &[u8; 8] = b"STELENOD";
const VERSION: u8 = 2;
const FILE_BYTES: usize = MAGIC.len() + 1 + 16 + 8 + 8 + 8 + 4;
/// Largest number of a start. No node starts as often, and what is added to it does not overflow.
pub(super) const BOOT_MAX: u64 = 1 << 48;
/// Name of the file in the data directory.
const NAME: &str = "node.identity";

/// The node that a data directory is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) cluster: ClusterId,
    pub(super) node: NodeId,
    /// Number of the last start.
    pub(super) boot: u64,
    /// The place of the last start ([`place_of`]); 0 if it is not known.
    pub(super) place: u64,
}

/// Returns a number of the folder `dir` in this run of the machine; `None` where the system does not tell.
/// A copy of the folder has another one, and so has the folder itself after the machine started again.
/// While it is the same, the lock of the folder excludes every other process that may use it.
pub(super) fn place_of(dir: &Path) -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        use std::os::unix::fs::MetadataExt;
        let run = std::fs::read("/proc/sys/kernel/random/boot_id").ok()?;
        let folder = std::fs::metadata(dir).ok()?;
        let numbers = [folder.dev().to_le_bytes(), folder.ino().to_le_bytes()].concat();
        Some(xxh3(&[run, numbers].concat()).max(1))
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = dir;
        None
    }
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
        out.put_u64(self.place);
        let crc = crc32c(&[&out]);
        out.put_u32(crc);
        out
    }

    fn decode(bytes: &[u8]) -> std::result::Result<Self, String> {
        let mut reader = ByteReader::new(bytes);
        if reader.bytes(MAGIC.len(), "magic").ok() != Some(MAGIC) {
            return Err("not the identity of a node: its magic is another".to_owned());
        }
        let version = match reader.u8("version") {
            Ok(version @ 1..=VERSION) => version,
            Ok(version) => return Err(format!("unknown version {version}; use a newer Stele")),
            Err(error) => return Err(error.to_string()),
        };
        let mut body = || {
            let mut cluster = [0; 16];
            cluster.copy_from_slice(reader.bytes(16, "cluster id")?);
            let (node, boot) = (reader.u64("node id")?, reader.u64("boot counter")?);
            let place = if version == 1 { 0 } else { reader.u64("place")? };
            let crc = reader.u32("checksum")?;
            reader.finish()?;
            Ok::<_, DecodeError>((u128::from_le_bytes(cluster), (node, boot), place, crc))
        };
        let (cluster, (node, boot), place, crc) = body().map_err(|error| error.to_string())?;
        if crc != crc32c(&[&bytes[..bytes.len() - 4]]) {
            return Err("the checksum does not match".to_owned());
        }
        if boot > BOOT_MAX {
            return Err("a number of a start that no node reaches".to_owned());
        }
        Ok(Self { cluster: ClusterId(cluster), node: NodeId(node), boot, place })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_reads_back_and_any_damage_is_found() {
        let identity = Identity { cluster: ClusterId(3), node: NodeId(2), boot: 7, place: 9 };
        let bytes = identity.encode();
        assert_eq!(bytes.len(), FILE_BYTES);
        assert_eq!(&bytes[..10], b"STELENOD\x02\x03");
        let often = Identity { boot: BOOT_MAX + 1, ..identity };
        assert!(Identity::decode(&often.encode()).is_err());
        // Version 1 had no place.
        let mut old = [b"STELENOD\x01", &bytes[9..41]].concat();
        old.put_u32(crc32c(&[&old]));
        assert_eq!(Identity::decode(&old), Ok(Identity { place: 0, ..identity }));
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
