//! Things that are kept beside the tables in service: the front's records, and tables out of service.

pub(super) mod backups;
pub(super) mod records;
pub(super) mod shelf;
