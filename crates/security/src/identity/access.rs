//! Access tokens: this process gives them to clients that ask for a token with an assertion
//! (RFC 7523), and do not sign one for each server by themselves.
//!
//! A token is `stele_access.END.ACCOUNT.TAG`: the second since 1970 at which it ends, the fingerprint of
//! the account and its key, and the HMAC-SHA256 of both.
//!
//! Invariants:
//! 1. Nothing in a token is looked at before its tag is verified, in constant time.
//! 2. The key of the tags is random and in the memory of one process. A restart ends all tokens.
//! 3. A token names the key that signed its assertion. It ends when the file of identities has no such key.
//! 4. A token ends with its assertion, [`LIFE_MIN`] after it is given at the earliest. An assertion that
//!    is shown again gives no more time.

use super::hex::{hex, unhex};
use super::keys::Key;
use super::{Refusal, TokenHash, hash};
use jsonwebtoken::DecodingKeyKind;
use ring::hmac;
use ring::rand::SystemRandom;

/// Every access token begins with this.
pub(super) const PREFIX: &str = "stele_access.";
/// Seconds for which a token is good, whatever the clocks of client and server say.
const LIFE_MIN: i64 = 60;
/// Seconds for which a token is good at most.
const LIFE_MAX: i64 = 3_600;

/// Key that makes and verifies tags.
#[derive(Debug, Clone)]
pub(super) struct AccessKey(hmac::Key);

impl AccessKey {
    /// Makes a random key for this process.
    pub(super) fn random() -> Result<Self, ring::error::Unspecified> {
        hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).map(Self)
    }

    /// Makes a token for `account`, which ends with an assertion that ends at `ends_at`. Returns its
    /// seconds beside it.
    pub(super) fn sign(&self, account: &TokenHash, ends_at: i64, now: i64) -> (String, i64) {
        let seconds = ends_at.saturating_sub(now).clamp(LIFE_MIN, LIFE_MAX);
        let claims = format!("{}.{}", now.saturating_add(seconds), hex(account));
        let tag = hmac::sign(&self.0, claims.as_bytes());
        (format!("{PREFIX}{claims}.{}", hex(tag.as_ref())), seconds)
    }

    /// Returns the account of a token, of which `rest` follows the prefix.
    pub(super) fn verify(&self, rest: &str, now: i64) -> Result<TokenHash, Refusal> {
        let (claims, tag) = rest.rsplit_once('.').ok_or(Refusal::Malformed)?;
        let tag = unhex(tag).ok_or(Refusal::Malformed)?;
        hmac::verify(&self.0, claims.as_bytes(), &tag).map_err(|_| Refusal::Signature)?;
        let (ends_at, account) = claims.split_once('.').ok_or(Refusal::Malformed)?;
        let ends_at: i64 = ends_at.parse().map_err(|_| Refusal::Malformed)?;
        if now >= ends_at {
            return Err(Refusal::Expired);
        }
        unhex(account).ok_or(Refusal::Malformed)
    }
}

/// Returns the fingerprint of an account and one of its keys. No name has a zero byte.
pub(super) fn fingerprint(email: &str, key: &Key) -> TokenHash {
    let numbers: [&[u8]; 2] = match key.key.kind() {
        DecodingKeyKind::RsaModulusExponent { n, e } => [n, e],
        DecodingKeyKind::SecretOrDer(point) => [point, &[]],
    };
    hash(&[email.as_bytes(), &[0], numbers[0], numbers[1]].concat())
}
