//! The record of a backup: what it consists of and which point it holds (docs/format/backup.md).

use crate::frame::{self, Kind, Malformed};
use crate::names::Place;
use crate::object::FILE_BYTES_MAX;
use base::codec::{ByteReader, PutBytes};
use engine::StoreId;
use engine::checkpoint::{DirFile, Point};
use engine::internals::SegmentNumber;
use engine::internals::{FileIdentity, FileNumber};

/// Most files of a backup.
pub(crate) const FILES_MAX: usize = 4_000_000;
/// Longest record that is read.
pub(crate) const RECORD_BYTES_MAX: u64 = 256 << 20;
/// Longest text of a version.
const VERSION_BYTES_MAX: usize = 64;
/// Numbers of files; what is above was never given.
const NUMBERS: std::ops::Range<u64> = 1..1 << 56;

/// A file of a backup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BackupFile {
    pub file: DirFile,
    /// Its length in bytes.
    pub bytes: u64,
    /// The sum of its object.
    pub sum: u64,
    /// Place of its object.
    pub place: Place,
}

/// See the file header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The store that was backed up.
    pub store: StoreId,
    /// When the checkpoint was made, in microseconds since 1970.
    pub taken_micros: i64,
    /// When the record was written.
    pub finished_micros: i64,
    /// The point it holds.
    pub point: Point,
    pub sent_bytes: u64,
    /// The Stele that made it.
    pub version: String,
    /// Its files, ascending.
    pub files: Vec<BackupFile>,
}

/// The byte of a kind of file, frozen; 0 stays invalid.
pub(crate) fn kind_byte(file: DirFile) -> u8 {
    match file {
        DirFile::Sst(_) => 1,
        DirFile::Log(_) => 2,
        DirFile::Manifest(_) => 3,
    }
}

fn number(file: DirFile) -> u64 {
    match file {
        DirFile::Sst(number) => number.0,
        DirFile::Log(segment) => segment.0,
        DirFile::Manifest(number) => number,
    }
}

impl Record {
    /// Bytes of all files.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The number of its manifest.
    pub(crate) fn manifest(&self) -> Option<u64> {
        self.files.iter().find_map(|file| match file.file {
            DirFile::Manifest(number) => Some(number),
            _ => None,
        })
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        frame::put_u128(&mut out, self.store.0);
        out.put_i64(self.taken_micros);
        out.put_i64(self.finished_micros);
        out.put_u64(self.point.sequence);
        out.put_u64(self.point.commit_micros);
        out.put_u64(self.sent_bytes);
        out.put_string(self.version.as_bytes());
        out.put_u32(u32::try_from(self.files.len()).unwrap_or(u32::MAX));
        for file in &self.files {
            out.push(kind_byte(file.file));
            out.put_u64(number(file.file));
            out.put_u64(file.bytes);
            out.put_u64(file.sum);
            match file.place {
                Place::Own => out.push(0),
                Place::Identity(identity) => {
                    out.push(1);
                    frame::put_u128(&mut out, identity.0);
                }
                Place::Content(hash) => {
                    out.push(2);
                    frame::put_u128(&mut out, hash);
                }
            }
        }
        frame::encode(Kind::Record, &out)
    }

    /// The record in `bytes`, checked. Memory in proportion to them.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let payload = frame::decode(Kind::Record, bytes)?;
        let mut reader = ByteReader::new(payload);
        let store = StoreId(frame::u128_of(&mut reader, "store id")?);
        let taken_micros = reader.i64("time of the checkpoint")?;
        let finished_micros = reader.i64("time of the record")?;
        let sequence = reader.u64("sequence number")?;
        let commit_micros = reader.u64("commit time")?;
        let sent_bytes = reader.u64("bytes sent")?;
        let version = frame::text_of(&mut reader, "version", VERSION_BYTES_MAX)?;
        let count = reader.u32("number of files")? as usize;
        if count > FILES_MAX {
            return Err(Malformed::new(16, format!("more than {FILES_MAX} files")));
        }
        let mut files: Vec<BackupFile> = Vec::new();
        for _ in 0..count {
            let at = 16 + payload.len() - reader.rest().len();
            let file = decode_file(&mut reader, at)?;
            if files.last().is_some_and(|last| last.file >= file.file) {
                return Err(Malformed::new(at, "files that are not in order"));
            }
            files.push(file);
        }
        reader.finish()?;
        let point = Point { sequence, commit_micros };
        let record =
            Self { store, taken_micros, finished_micros, point, sent_bytes, version, files };
        record.check().map(|()| record)
    }

    fn check(&self) -> Result<(), Malformed> {
        let count = |kind| self.files.iter().filter(|file| kind_byte(file.file) == kind).count();
        if count(3) != 1 {
            return Err(Malformed::new(16, "it does not have one manifest"));
        }
        let all = self.files.iter().try_fold(0u64, |sum, file| sum.checked_add(file.bytes));
        all.map(drop).ok_or_else(|| Malformed::new(16, "more bytes than can be counted"))
    }
}

fn decode_file(reader: &mut ByteReader<'_>, at: usize) -> Result<BackupFile, Malformed> {
    let kind = reader.u8("kind of file")?;
    let number = reader.u64("number of a file")?;
    let bytes = reader.u64("length of a file")?;
    let sum = reader.u64("sum of an object")?;
    let place = match reader.u8("place of an object")? {
        0 => Place::Own,
        1 => Place::Identity(FileIdentity(frame::u128_of(reader, "identity")?)),
        2 => Place::Content(frame::u128_of(reader, "content")?),
        other => {
            return Err(Malformed::new(at, format!("{other} is not a valid place of an object")));
        }
    };
    let file = match kind {
        1 => DirFile::Sst(FileNumber(number)),
        2 => DirFile::Log(SegmentNumber(number)),
        3 => DirFile::Manifest(number),
        other => return Err(Malformed::new(at, format!("{other} is not a valid kind of file"))),
    };
    if !NUMBERS.contains(&number) || bytes > FILE_BYTES_MAX {
        return Err(Malformed::new(at, "a number or a length out of range"));
    }
    if (kind == 1) == (place == Place::Own) {
        return Err(Malformed::new(at, "a file in the place of another kind"));
    }
    Ok(BackupFile { file, bytes, sum, place })
}
