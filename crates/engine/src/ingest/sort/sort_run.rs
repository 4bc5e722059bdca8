//! Files of sorted rows: writing and reading one (docs/format/sort_run.md).

use super::{Place, SORT_PAYLOAD_BYTES_MAX, row_buffer};
use crate::batch::ROW_BYTES_MAX;
use crate::error::{Error, Result};
use crate::files::FileNumber;
use crate::shape::Shape;
use base::checksum::xxh3;
use base::codec::{ByteReader, DecodeError, PutBytes};
use base::env::fs::{FileSystem, ReadFile, WriteFile};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Memory of a frame that is kept for the next, in frames as production ends them.
const KEPT_BYTES: usize = 2 * Shape::DEFAULT.sort_frame_bytes;
/// Longest payload: a frame that is nearly full, and the longest row.
const FRAME_BYTES_MAX: usize =
    Shape::DEFAULT.sort_frame_bytes + ROW_BYTES_MAX + SORT_PAYLOAD_BYTES_MAX + 64;
const FRAME_HEADER_LEN: usize = 12;
const MAGIC: &[u8; 8] = b"STELSORT";
const VERSION: u32 = 1;
pub(super) const HEADER_LEN: u64 = 16;

fn header() -> Vec<u8> {
    let mut header = MAGIC.to_vec();
    header.put_u32(VERSION);
    header.put_u32(0);
    header
}

/// A file of a sort; removed when it is dropped.
pub(super) struct RunFile {
    place: Place,
    path: PathBuf,
    bytes: u64,
    /// Of its largest frame.
    frame_bytes: usize,
}

impl RunFile {
    /// Its length.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Memory that reading it takes: one frame at a time.
    pub(super) fn frame_bytes(&self) -> usize {
        self.frame_bytes
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if let Err(error) = self.place.shared.env.fs.remove_file(&self.path)
            && error.kind() != std::io::ErrorKind::NotFound
        {
            let path = self.path.display();
            tracing::warn!(%path, %error, "could not delete a sort file; the next open deletes it");
        }
    }
}

/// Writes a run.
pub(super) struct RunWriter {
    file: Box<dyn WriteFile>,
    run: RunFile,
    /// The frame being filled, its header included.
    frame: Vec<u8>,
    /// Payload at which a frame ends.
    frame_bytes: usize,
}

impl RunWriter {
    pub(super) fn create(place: &Place) -> Result<Self> {
        let path = place.shared.manifest.new_file()?.sort_path(&place.shared.dir);
        let run = RunFile { place: place.clone(), path, bytes: HEADER_LEN, frame_bytes: 0 };
        let created = place.shared.env.fs.create(&run.path);
        let mut file = created.map_err(|error| Error::io("create", &run.path, &error))?;
        let written = file.write_all_at(&header(), 0);
        written.map_err(|error| Error::io("write", &run.path, &error))?;
        let frame_bytes = place.shared.options.shape.sort_frame_bytes;
        let mut frame = Vec::with_capacity(frame_bytes + frame_bytes / 4);
        frame.resize(FRAME_HEADER_LEN, 0);
        Ok(Self { file, run, frame, frame_bytes })
    }

    /// Adds a row, which is not smaller than the one before.
    pub(super) fn add(&mut self, row: &[u8], payload: &[u8]) -> Result<()> {
        row_buffer::put(&mut self.frame, row, payload);
        self.end_row()
    }

    /// The same of a row that `row_buffer::put` encoded.
    pub(super) fn add_encoded(&mut self, row: &[u8]) -> Result<()> {
        self.frame.extend_from_slice(row);
        self.end_row()
    }

    fn end_row(&mut self) -> Result<()> {
        let full = self.frame.len() - FRAME_HEADER_LEN >= self.frame_bytes;
        if full { self.end_frame() } else { Ok(()) }
    }

    fn end_frame(&mut self) -> Result<()> {
        let payload = &self.frame[FRAME_HEADER_LEN..];
        assert!(payload.len() <= FRAME_BYTES_MAX, "a frame of {} bytes", payload.len());
        let len = u32::try_from(payload.len()).expect("a frame has less than 1 GiB");
        let checksum = xxh3(payload);
        self.frame[..4].copy_from_slice(&len.to_le_bytes());
        self.frame[4..FRAME_HEADER_LEN].copy_from_slice(&checksum.to_le_bytes());
        let written = self.file.write_all_at(&self.frame, self.run.bytes);
        written.map_err(|error| Error::io("write", &self.run.path, &error))?;
        self.run.bytes += self.frame.len() as u64;
        self.run.frame_bytes = self.run.frame_bytes.max(self.frame.len());
        self.frame.truncate(FRAME_HEADER_LEN);
        self.frame.shrink_to(KEPT_BYTES);
        Ok(())
    }

    /// The run, to be read.
    pub(super) fn finish(mut self) -> Result<RunFile> {
        if self.frame.len() > FRAME_HEADER_LEN {
            self.end_frame()?;
        }
        Ok(self.run)
    }
}

/// Walks the rows of a run.
pub(super) struct RunReader {
    frames: Frames,
    /// Removed when the walk is over, or given up.
    _run: RunFile,
}

impl RunReader {
    /// A walk that stands at the first row.
    pub(super) fn open(run: RunFile) -> Result<Self> {
        let frames = Frames::open(&*run.place.shared.env.fs, &run.path, run.bytes)?;
        Ok(Self { frames, _run: run })
    }

    /// See `RunFile::frame_bytes`.
    #[cfg(test)]
    pub(super) fn frame_bytes(&self) -> usize {
        self._run.frame_bytes()
    }

    /// The row it stands at, `None` behind the last.
    pub(super) fn row(&self) -> Option<&[u8]> {
        (!self.frames.ended).then(|| &self.frames.frame[self.frames.row.clone()])
    }

    /// What belongs to that row.
    pub(super) fn payload(&self) -> &[u8] {
        &self.frames.frame[self.frames.payload.clone()]
    }

    /// Steps on.
    pub(super) fn advance(&mut self) -> Result<()> {
        self.frames.advance()
    }
}

/// The rows of a file, one frame in memory at a time.
struct Frames {
    file: Arc<dyn ReadFile>,
    path: PathBuf,
    end: u64,
    /// Where the next frame begins.
    at: u64,
    frame: Vec<u8>,
    row: Range<usize>,
    payload: Range<usize>,
    /// True if it stands behind the last row.
    ended: bool,
}

impl Frames {
    fn open(fs: &dyn FileSystem, path: &Path, end: u64) -> Result<Self> {
        let file = fs.open_read(path).map_err(|error| Error::io("open", path, &error))?;
        let (path, frame) = (path.to_owned(), Vec::new());
        let mut frames =
            Self { file, path, end, at: 0, frame, row: 0..0, payload: 0..0, ended: false };
        let mut found = [0; HEADER_LEN as usize];
        frames.read(&mut found)?;
        if found != header()[..] {
            return Err(frames.damaged(0, "not a sort run of version 1"));
        }
        frames.advance()?;
        Ok(frames)
    }

    fn damaged(&self, offset: u64, what: impl std::fmt::Display) -> Error {
        Error::corruption(&self.path, offset, what)
    }

    /// Fills `buffer` from where the walk is in the file.
    fn read(&mut self, buffer: &mut [u8]) -> Result<()> {
        if self.end - self.at < buffer.len() as u64 {
            return Err(self.damaged(self.at, "the file ends inside a frame"));
        }
        self.file.read_exact_at(buffer, self.at).map_err(|error| match error.kind() {
            std::io::ErrorKind::UnexpectedEof => self.damaged(self.at, "the file was cut"),
            _ => Error::io("read", &self.path, &error),
        })?;
        self.at += buffer.len() as u64;
        Ok(())
    }

    /// Steps to the next row, into the next frame if need be.
    fn advance(&mut self) -> Result<()> {
        let before = self.row.clone();
        let ascends = if self.payload.end < self.frame.len() {
            self.step()?;
            self.frame[self.row.clone()] >= self.frame[before]
        } else if self.at == self.end {
            self.ended = true;
            true
        } else {
            let before = self.frame[before].to_vec();
            self.next_frame()?;
            self.step()?;
            self.frame[self.row.clone()] >= before[..]
        };
        if ascends { Ok(()) } else { Err(self.damaged(self.at, "rows descend")) }
    }

    /// Stands at the row behind the one it stands at, of the same frame.
    fn step(&mut self) -> Result<()> {
        let mut reader = ByteReader::new(&self.frame[self.payload.end..]);
        let place = |reader: &ByteReader<'_>, len: usize| {
            let end = self.frame.len() - reader.rest().len();
            end - len..end
        };
        let mut next = || {
            let row = reader.string("row")?.len();
            let row = place(&reader, row);
            let payload = reader.string("payload")?.len();
            Ok::<_, DecodeError>((row, place(&reader, payload)))
        };
        let found = next();
        (self.row, self.payload) = found.map_err(|error| self.damaged(self.at, error))?;
        Ok(())
    }

    fn next_frame(&mut self) -> Result<()> {
        let offset = self.at;
        let mut header = [0; FRAME_HEADER_LEN];
        self.read(&mut header)?;
        let mut reader = ByteReader::new(&header);
        let fields = reader.u32("length").and_then(|len| Ok((len, reader.u64("checksum")?)));
        let (len, checksum) = fields.map_err(|error| self.damaged(offset, error))?;
        let len = len as usize;
        if len == 0 || len > FRAME_BYTES_MAX || len as u64 > self.end - self.at {
            return Err(self.damaged(offset, "a frame of impossible length"));
        }
        let mut frame = std::mem::take(&mut self.frame);
        frame.clear();
        frame.shrink_to(KEPT_BYTES);
        frame.resize(len, 0);
        self.read(&mut frame)?;
        if xxh3(&frame) != checksum {
            return Err(self.damaged(offset, "the checksum of a frame does not match"));
        }
        self.frame = frame;
        (self.row, self.payload) = (0..0, 0..0);
        Ok(())
    }
}

/// Body of the fuzz target: any bytes as a run, or as one frame of it whose checksum is right, are
/// read or refused without a panic, and what is read ascends.
pub fn fuzz(data: &[u8]) {
    let Some((&choice, data)) = data.split_first() else { return };
    let content = match choice & 1 {
        0 => data.to_vec(),
        _ => {
            let mut content = header();
            content.put_u32(data.len() as u32);
            content.put_u64(xxh3(data));
            content.extend_from_slice(data);
            content
        }
    };
    let fs = base::env::sim::SimFs::new(1);
    let path = FileNumber(1).sort_path(Path::new(""));
    let put = fs.create(&path).and_then(|mut file| file.write_all_at(&content, 0));
    put.expect("a simulated disk without faults takes it");
    let Ok(mut frames) = Frames::open(&fs, &path, content.len() as u64) else { return };
    let mut last = Vec::new();
    while !frames.ended {
        let row = frames.frame[frames.row.clone()].to_vec();
        assert!(last <= row, "rows ascend");
        last = row;
        if frames.advance().is_err() {
            return;
        }
    }
}
