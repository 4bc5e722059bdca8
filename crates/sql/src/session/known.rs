//! The settings that exist, with their defaults and what values they take.

/// Values that a setting takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bool,
    /// An integer in `[min, max]`.
    Int(i64, i64),
    /// A number of milliseconds, also with a unit.
    Time,
    /// A number of kilobytes, also with a unit.
    Memory,
    /// One of some words, in any case of letters.
    Word(&'static [&'static str]),
    Text,
    Encoding,
    DateStyle,
    TimeZone,
    SearchPath,
    /// A value of the server, which no client changes.
    Fixed,
}

/// A setting that exists, with its rules.
#[derive(Debug)]
pub(crate) struct Known {
    /// Name as `SHOW ALL` prints it.
    pub(crate) name: &'static str,
    pub(crate) default: &'static str,
    pub(crate) kind: Kind,
    /// True if clients are told of its value at the start and when it changes.
    pub(crate) is_reported: bool,
}

const fn plain(name: &'static str, default: &'static str, kind: Kind) -> Known {
    Known { name, default, kind, is_reported: false }
}

const fn reported(name: &'static str, default: &'static str, kind: Kind) -> Known {
    Known { name, default, kind, is_reported: true }
}

/// Words of isolation levels, as settings take them.
pub(crate) const ISOLATION: &[&str] =
    &["read committed", "repeatable read", "read uncommitted", "serializable"];
const LEVELS: &[&str] =
    &["debug5", "debug4", "debug3", "debug2", "debug1", "log", "notice", "warning", "error"];
const COMMIT: &[&str] = &["on", "off", "local", "remote_write", "remote_apply"];
const STYLES: &[&str] = &["postgres", "postgres_verbose", "sql_standard", "iso_8601"];

/// All settings, in the order of their names without case.
pub(crate) static KNOWN: &[Known] = &[
    reported("application_name", "", Kind::Text),
    plain("backslash_quote", "safe_encoding", Kind::Word(&["safe_encoding", "on", "off"])),
    plain("block_size", "8192", Kind::Fixed),
    plain("bytea_output", "hex", Kind::Word(&["hex", "escape"])),
    plain("check_function_bodies", "on", Kind::Bool),
    reported("client_encoding", "UTF8", Kind::Encoding),
    plain("client_min_messages", "notice", Kind::Word(LEVELS)),
    plain("constraint_exclusion", "partition", Kind::Word(&["partition", "on", "off"])),
    plain("cursor_tuple_fraction", "0.1", Kind::Text),
    reported("DateStyle", "ISO, MDY", Kind::DateStyle),
    plain("default_statistics_target", "100", Kind::Int(1, 10_000)),
    plain("default_table_access_method", "heap", Kind::Text),
    plain("default_tablespace", "", Kind::Text),
    plain("default_transaction_deferrable", "off", Kind::Bool),
    plain("default_transaction_isolation", "read committed", Kind::Word(ISOLATION)),
    reported("default_transaction_read_only", "off", Kind::Bool),
    plain("enable_hashjoin", "on", Kind::Bool),
    plain("enable_indexscan", "on", Kind::Bool),
    plain("enable_mergejoin", "on", Kind::Bool),
    plain("enable_nestloop", "on", Kind::Bool),
    plain("enable_seqscan", "on", Kind::Bool),
    plain("escape_string_warning", "on", Kind::Bool),
    plain("extra_float_digits", "1", Kind::Int(-15, 3)),
    plain("geqo", "on", Kind::Bool),
    plain("idle_in_transaction_session_timeout", "0", Kind::Time),
    plain("idle_session_timeout", "0", Kind::Time),
    reported("in_hot_standby", "off", Kind::Fixed),
    reported("integer_datetimes", "on", Kind::Fixed),
    reported("IntervalStyle", "postgres", Kind::Word(STYLES)),
    reported("is_superuser", "on", Kind::Fixed),
    plain("jit", "off", Kind::Bool),
    plain("lc_collate", "C", Kind::Fixed),
    plain("lc_ctype", "C", Kind::Fixed),
    plain("lc_messages", "C", Kind::Text),
    plain("lc_monetary", "C", Kind::Text),
    plain("lc_numeric", "C", Kind::Text),
    plain("lc_time", "C", Kind::Text),
    plain("lock_timeout", "0", Kind::Time),
    plain("maintenance_work_mem", "64MB", Kind::Memory),
    plain("max_identifier_length", "63", Kind::Fixed),
    plain("max_index_keys", "32", Kind::Fixed),
    plain("max_parallel_workers_per_gather", "0", Kind::Int(0, 1024)),
    plain("password_encryption", "scram-sha-256", Kind::Word(&["scram-sha-256"])),
    plain("quote_all_identifiers", "off", Kind::Bool),
    plain("row_security", "on", Kind::Bool),
    plain("search_path", "\"$user\", public", Kind::SearchPath),
    reported("server_encoding", "UTF8", Kind::Fixed),
    reported("server_version", "15.0", Kind::Fixed),
    plain("server_version_num", "150000", Kind::Fixed),
    reported("session_authorization", "", Kind::Fixed),
    reported("standard_conforming_strings", "on", Kind::Word(&["on"])),
    plain("statement_timeout", "0", Kind::Time),
    plain("synchronize_seqscans", "on", Kind::Bool),
    plain("synchronous_commit", "on", Kind::Word(COMMIT)),
    plain("temp_buffers", "8MB", Kind::Memory),
    reported("TimeZone", "UTC", Kind::TimeZone),
    plain("transaction_deferrable", "off", Kind::Bool),
    plain("transaction_isolation", "read committed", Kind::Word(ISOLATION)),
    plain("transaction_read_only", "off", Kind::Bool),
    plain("transaction_timeout", "0", Kind::Time),
    plain("work_mem", "4MB", Kind::Memory),
    plain("xmlbinary", "base64", Kind::Word(&["base64", "hex"])),
    plain("xmloption", "content", Kind::Word(&["content", "document"])),
];

/// Returns the setting that `name` names, in any case.
pub(crate) fn find(name: &str) -> Option<&'static Known> {
    let name = if name.eq_ignore_ascii_case("time zone") { "TimeZone" } else { name };
    KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_in_the_order_of_their_names() {
        let names: Vec<_> = KNOWN.iter().map(|known| known.name.to_lowercase()).collect();
        assert!(names.is_sorted());
        assert_eq!(find("TIMEZONE").unwrap().name, "TimeZone");
        assert!(find("nothing").is_none());
    }
}
