//! Small parts of admin messages: times, etags, masks, pages, and messages in records.

use crate::api::any;
use crate::wire::forms::Formed;
use crate::wire::maps;
use prost_types::{Any, FieldMask};
use table::{Error, Result};

/// Returns the message in a record; `DataLoss` if it cannot be decoded.
pub(crate) fn decoded<M: prost::Message + Default>(name: &str, record: &[u8]) -> Result<M> {
    M::decode(record).map_err(|error| {
        Error::DataLoss(format!("system tree, the record of {name} is damaged: {error}"))
    })
}

/// Returns a message as a self-describing value; `name` is its type in `google.bigtable.admin.v2`.
pub(crate) fn admin_any<M: Formed>(name: &str, message: &M) -> Any {
    any(&format!("google.bigtable.admin.v2.{name}"), maps::encode(message))
}

/// Returns the etag of a message that still has the etag before it. A message that gets back its old
/// content gets another etag.
pub(crate) fn next_etag(message: &impl prost::Message) -> String {
    format!("{:016x}", base::checksum::xxh3(&message.encode_to_vec()))
}

/// Refuses an etag that is given and not current.
pub(crate) fn check_etag(given: &str, current: &str, name: &str) -> Result<()> {
    if given.is_empty() || given == current {
        return Ok(());
    }
    Err(Error::Aborted(format!("the etag is not the current one of {name}; get it again")))
}

/// Returns the paths of an update mask, which names a field at least.
pub(crate) fn mask_paths(mask: Option<FieldMask>) -> Result<Vec<String>> {
    let paths = mask.map_or_else(Vec::new, |mask| mask.paths);
    if paths.is_empty() {
        return Err(Error::invalid("update_mask", "names no field"));
    }
    Ok(paths)
}

/// Returns the error of a path that an update mask may not have.
pub(crate) fn wrong_path(path: &str, allowed: &str) -> Error {
    let path = crate::names::shown(path);
    Error::invalid("update_mask", format!("{path} cannot be updated; use {allowed}"))
}

/// Returns the items of one page, and the token of the next one, which is the name of the last item
/// shown. Items come in order of name, at most `max` on a page.
pub(crate) fn page<T>(
    items: Vec<T>,
    name: impl Fn(&T) -> &str,
    (size, token): (i32, &str),
    max: usize,
) -> Result<(Vec<T>, String)> {
    let size = match usize::try_from(size) {
        Ok(0) => max,
        Ok(size) => size.min(max),
        Err(_) => return Err(Error::invalid("page_size", "must not be negative")),
    };
    let mut rest: Vec<T> = items.into_iter().filter(|item| name(item) > token).collect();
    let more = rest.len() > size;
    rest.truncate(size);
    let next = rest.last().filter(|_| more).map(|last| name(last).to_owned());
    Ok((rest, next.unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{micros, timestamp};
    use prost_types::Timestamp;

    #[test]
    fn times_before_the_epoch_have_positive_nanos() {
        assert_eq!(timestamp(1_500_000), Timestamp { seconds: 1, nanos: 500_000_000 });
        assert_eq!(timestamp(-1), Timestamp { seconds: -1, nanos: 999_999_000 });
        for time in [-1, 0, 1_500_000] {
            assert_eq!(micros(&timestamp(time)), Some(time));
        }
        for (seconds, nanos) in [(0, -1), (0, 1_000_000_000), (i64::MAX, 0), (i64::MIN, 0)] {
            assert_eq!(micros(&Timestamp { seconds, nanos }), None);
        }
    }

    #[test]
    fn pages_end_without_a_token() {
        let items = || vec!["a", "b", "c"];
        let page = |size, token| page(items(), |item| item, (size, token), 2);
        assert_eq!(page(0, "").unwrap(), (vec!["a", "b"], "b".to_owned()));
        assert_eq!(page(1, "a").unwrap(), (vec!["b"], "b".to_owned()));
        assert_eq!(page(9, "b").unwrap(), (vec!["c"], String::new()));
        assert!(page(-1, "").is_err());
    }
}
