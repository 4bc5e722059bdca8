//! The secret of a database: random bytes that stay over restarts, and that all nodes of a cluster have.
//!
//! ```text
//! row `p` of tree 2:  version u8 = 1 | 32 bytes
//! ```

use super::{CATALOG_TREE, Store, TreeKeys};
use crate::error::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};

/// Length of a secret in bytes.
pub(super) const SECRET_LEN: usize = 32;
const ROW: &[u8] = b"p";
const VERSION: u8 = 1;

/// Returns the secret of the database whose catalog has `keys`, which is made if it is missing. Blocks. XX001 if it is
/// damaged.
pub(super) fn read_or_make(keys: &TreeKeys, store: &Store) -> Result<[u8; SECRET_LEN]> {
    if let Some(record) = keys.get(None, ROW, <[u8]>::to_vec)? {
        return decode(&record);
    }
    let mut secret = [0; SECRET_LEN];
    let random = SystemRandom::new().fill(&mut secret);
    random.map_err(|_| Error::internal("the system gives no random numbers"))?;
    let mut batches = store.batches();
    batches.put(CATALOG_TREE.0, ROW, &[&[VERSION][..], &secret].concat());
    store.write_blocking(batches)?;
    Ok(secret)
}

fn decode(record: &[u8]) -> Result<[u8; SECRET_LEN]> {
    let secret = match record.split_first() {
        Some((&VERSION, secret)) => secret.try_into().ok(),
        _ => None,
    };
    secret.ok_or_else(|| Error::corrupted("tree 2, row 'p': the secret of the database"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_of_another_form_is_damage() {
        let record: Vec<u8> = (1..=33).collect();
        assert_eq!(decode(&record).unwrap().as_slice(), &record[1..]);
        for other in [&record[..32], &[], &[2; 33], &[&record[..], &[0]].concat()] {
            assert_eq!(decode(other).unwrap_err().state.code(), "XX001", "{other:?}");
        }
    }
}
