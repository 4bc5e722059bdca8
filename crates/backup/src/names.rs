//! Names at a destination (docs/format/backup.md). Every name is made here, of numbers and ids; none
//! is taken from what an object says.

use chrono::{DateTime, NaiveDateTime};
use engine::checkpoint::DirFile;
use engine::internals::FileIdentity;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// Says which store a destination belongs to.
pub(crate) const STORE: &str = "STELE-BACKUPS";
pub(crate) const SSTS: &str = "sst";
pub(crate) const BACKUPS: &str = "backups";
pub(crate) const RECORDS: &str = "records";
pub(crate) const UNDER_WAY: &str = "under-way";
pub(crate) const REMOVALS: &str = "removals";
/// All that there are below a destination.
pub(crate) const DIRECTORIES: [&str; 5] = [SSTS, BACKUPS, RECORDS, UNDER_WAY, REMOVALS];

const TIME: &str = "%Y%m%dT%H%M%S%6fZ";
const TIME_LEN: usize = 22;

/// Names a backup: when it was begun, and a random number. In the order in which those of a destination
/// were begun, whatever the clocks said ([`crate::next_id`]).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BackupId(String);

impl BackupId {
    /// The id of a backup begun at `micros` since 1970; `random` tells it from others of that
    /// moment.
    pub fn new(micros: i64, random: u32) -> Self {
        let time = DateTime::from_timestamp_micros(micros).unwrap_or_default();
        Self(format!("{}-{random:08x}", time.format(TIME)))
    }

    /// The moment in it, in microseconds since 1970.
    pub(crate) fn micros(&self) -> i64 {
        let time = self.0.get(..TIME_LEN).unwrap_or_default();
        let time = NaiveDateTime::parse_from_str(time, TIME).unwrap_or_default();
        time.and_utc().timestamp_micros()
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BackupId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for BackupId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is not a backup id; `stele backup list` shows all ids");
        let (time, random) = text.split_at_checked(TIME_LEN).ok_or_else(refused)?;
        let time = NaiveDateTime::parse_from_str(time, TIME).map_err(|_| refused())?;
        let random = random.strip_prefix('-').ok_or_else(refused)?;
        let random = u32::from_str_radix(random, 16).map_err(|_| refused())?;
        let id = Self::new(time.and_utc().timestamp_micros(), random);
        if id.0 == text { Ok(id) } else { Err(refused()) }
    }
}

/// Place of the object of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Among the backup's own.
    Own,
    /// Among the SSTables, by identity.
    Identity(FileIdentity),
    /// Among the SSTables, by the XXH3-128 of the content.
    Content(u128),
}

/// The name of the object that `file` of backup `id` is kept in.
pub(crate) fn object(id: &BackupId, file: DirFile, place: Place) -> String {
    match place {
        Place::Own => format!("{BACKUPS}/{id}/{}", file.path(Path::new("")).display()),
        Place::Identity(identity) => format!("{SSTS}/{identity}"),
        Place::Content(hash) => format!("{SSTS}/c{hash:032x}"),
    }
}

/// The name of an object that there is one of for each backup.
pub(crate) fn of_backup(what: &str, id: &BackupId) -> String {
    format!("{what}/{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_one_spelling_and_is_in_the_order_of_time() {
        let id = BackupId::new(1_700_000_000_000_000, 0xab);
        assert_eq!(id.as_str(), "20231114T221320000000Z-000000ab");
        assert_eq!(id.as_str().parse(), Ok(id.clone()));
        assert_eq!(id.micros(), 1_700_000_000_000_000);
        assert!(id < BackupId::new(1_700_000_000_000_001, 0));
        for text in [
            "",
            "../../etc/passwd",
            "20231114T221320000000Z",
            "20231114T221320000000Z-ab",
            "20231114T221320000000Z-000000AB",
            "20231114T221320000000Z-+00000ab",
            "20231314T221320000000Z-000000ab",
            "20231114T221320000000Z-000000ab/..",
            "20231114T22132000000\u{e9}-000000ab",
        ] {
            assert!(text.parse::<BackupId>().is_err(), "{text}");
        }
    }
}
