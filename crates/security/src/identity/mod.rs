//! Identities: who a caller is, by the token that comes with a request.
//!
//! `file.rs` reads the file of identities, `jwt.rs` verifies signed tokens, `keys.rs` takes their keys
//! apart, `access.rs` gives and takes access tokens, and `create.rs` makes tokens and key files.
//! `sign.rs` is the side of a client that holds a key file.
//!
//! Invariants:
//! 1. A token is compared and remembered by its hash only. No message and no log holds a token.
//! 2. A file of identities has its own memory of verified tokens, so that a token that a new file does
//!    not know is refused at once.
//! 3. Only verified tokens are remembered, [`REMEMBERED_MAX`] at most, none longer than it is valid.

mod access;
mod create;
mod file;
mod hex;
mod jwt;
mod keys;
mod sign;

pub use create::{KeyFile, create_service_account, create_token};
pub use sign::ServiceAccount;

use crate::{Error, Result, Stamp};
use access::AccessKey;
use file::Content;
use parking_lot::Mutex;
use ring::digest::{SHA256, digest};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// Longest token that is looked at.
const TOKEN_BYTES_MAX: usize = 16 << 10;
/// Verified tokens that are remembered.
const REMEMBERED_MAX: usize = 10_000;

/// SHA-256 of a whole token.
type TokenHash = [u8; 32];

/// Reason for which a token is refused. It tells nothing of the token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// No token of the file, and not a signed one.
    Unknown,
    /// A signed token that cannot be read, or is too long.
    Malformed,
    /// No registered identity has such a key.
    UnknownKey,
    /// The signature is not that of the key.
    Signature,
    /// The time of the token is over.
    Expired,
    /// The token is not valid yet, or for longer than an hour if its holder signed it.
    Time,
    /// The token is for another server.
    Audience,
    /// The assertion asks for nothing of Bigtable.
    Scope,
}

/// A token that the server gave.
pub struct AccessToken {
    /// Name of the account that holds it.
    pub name: Arc<str>,
    /// To be told to its holder alone.
    pub token: String,
    /// Seconds for which it is good.
    pub expires_in: i64,
}

/// Everybody who may call, as one file says.
#[derive(Debug)]
pub struct Identities {
    content: Content,
    access: AccessKey,
    remembered: Mutex<HashMap<TokenHash, Remembered>>,
}

#[derive(Debug, Clone)]
struct Remembered {
    name: Arc<str>,
    /// Second since 1970 from which on the token is refused.
    ends_at: i64,
}

impl Identities {
    /// Reads the file of identities, and the files that it names.
    pub fn load(path: &Path) -> Result<Self> {
        let random = |_| Error::invalid(path, "the system gives no random numbers");
        Self::with_key(path, AccessKey::random().map_err(random)?)
    }

    /// Reads the same files again. Access tokens stay good while their keys are there.
    pub fn load_again(&self, path: &Path) -> Result<Self> {
        Self::with_key(path, self.access.clone())
    }

    fn with_key(path: &Path, access: AccessKey) -> Result<Self> {
        let content = file::load(path)?;
        Ok(Self { content, access, remembered: Mutex::new(HashMap::new()) })
    }

    /// Returns every file that was read, with its stamp of just before.
    pub fn files(&self) -> &[(PathBuf, Stamp)] {
        &self.content.files
    }

    /// Returns the name of the holder of `token` at the second `now` since 1970: `token:NAME`,
    /// `serviceAccount:EMAIL` or `jwt:ISSUER/SUBJECT`.
    pub fn identify(&self, token: &str, now: i64) -> std::result::Result<Arc<str>, Refusal> {
        if token.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::Malformed);
        }
        let hash = hash(token.as_bytes());
        if let Some(known) = self.remembered.lock().get(&hash)
            && now < known.ends_at
        {
            return Ok(Arc::clone(&known.name));
        }
        if let Some(name) = self.static_token(&hash) {
            return Ok(name);
        }
        if let Some(rest) = token.strip_prefix(access::PREFIX) {
            let account = self.access.verify(rest, now)?;
            return self.content.accounts.get(&account).cloned().ok_or(Refusal::UnknownKey);
        }
        if !token.contains('.') {
            return Err(Refusal::Unknown);
        }
        let verified = jwt::verify(&self.content, token, now)?;
        let name: Arc<str> = verified.name.into();
        self.remember(hash, Remembered { name: Arc::clone(&name), ends_at: verified.ends_at }, now);
        Ok(name)
    }

    /// Gives an access token for an assertion that a service account signed, at the second `now` since
    /// 1970. An assertion can be shown again while it is valid (RFC 7523, section 3, allows it).
    pub fn grant(&self, assertion: &str, now: i64) -> std::result::Result<AccessToken, Refusal> {
        if assertion.len() > TOKEN_BYTES_MAX {
            return Err(Refusal::Malformed);
        }
        let asserted = jwt::verify_assertion(&self.content, assertion, now)?;
        let name = self.content.accounts.get(&asserted.account).ok_or(Refusal::UnknownKey)?;
        let (token, expires_in) = self.access.sign(&asserted.account, asserted.ends_at, now);
        Ok(AccessToken { name: Arc::clone(name), token, expires_in })
    }

    /// Compares a hash with the hash of every static token, in a time that does not depend on them.
    fn static_token(&self, hash: &TokenHash) -> Option<Arc<str>> {
        let mut found = None;
        for (known, name) in &self.content.tokens {
            if bool::from(known.ct_eq(hash)) {
                found = Some(Arc::clone(name));
            }
        }
        found
    }

    fn remember(&self, hash: TokenHash, token: Remembered, now: i64) {
        let mut remembered = self.remembered.lock();
        if remembered.len() >= REMEMBERED_MAX {
            remembered.retain(|_, token| now < token.ends_at);
        }
        if remembered.len() >= REMEMBERED_MAX {
            remembered.clear();
        }
        remembered.insert(hash, token);
    }
}

fn hash(token: &[u8]) -> TokenHash {
    let mut hash = TokenHash::default();
    hash.copy_from_slice(digest(&SHA256, token).as_ref());
    hash
}

#[cfg(test)]
mod tests;
