//! Signed tokens (JWT): who signed it, for whom, for how long.
//!
//! 1. The issuer that a token names says whose keys are tried. A token with an unknown issuer costs no
//!    verification.
//! 2. A key takes signatures of its own algorithm only, whatever the token says.
//! 3. Service accounts sign for themselves: for an hour at most, for an audience of ours, or, where
//!    Google's libraries leave the audience out, for a scope that includes Bigtable.
//! 4. An assertion, for which an access token is given, has an audience of its own. It is no token, and
//!    no token is an assertion.

use super::access::fingerprint;
use super::file::{Content, Signer, SignerKind, check_name};
use super::keys::{Key, install_verifier};
use super::{Refusal, TokenHash};
use jsonwebtoken::dangerous::insecure_decode_claims;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Validation, decode, decode_header};
use serde::Deserialize;

/// Seconds by which clocks may differ.
const LEEWAY: i64 = 60;
/// Longest life of a token that its holder signed, in seconds.
const SELF_SIGNED_MAX: i64 = 3_600;
/// Scopes of Google's that include the data or the administration of Bigtable.
const SCOPES: [&str; 2] = [
    "https://www.googleapis.com/auth/bigtable.",
    "https://www.googleapis.com/auth/cloud-bigtable.",
];
const ALL_SCOPES: &str = "https://www.googleapis.com/auth/cloud-platform";

/// The claims that are looked at.
#[derive(Debug, Deserialize)]
struct Claims {
    iss: String,
    sub: Option<String>,
    aud: Option<Audience>,
    /// Seconds since 1970, which some issuers write with a fraction.
    exp: f64,
    nbf: Option<f64>,
    iat: Option<f64>,
    scope: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Audience {
    One(String),
    Many(Vec<String>),
}

impl Audience {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Many(names) => names,
        }
    }
}

#[derive(Debug, Deserialize)]
struct OnlyIssuer {
    iss: String,
}

/// A token that is good.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) name: String,
    pub(super) ends_at: i64,
}

/// Assertion of a service account.
#[derive(Debug)]
pub(super) struct Asserted {
    /// Fingerprint of the account and the key that signed it.
    pub(super) account: TokenHash,
    pub(super) ends_at: i64,
}

/// Verifies a token at the second `now` since 1970.
pub(super) fn verify(content: &Content, token: &str, now: i64) -> Result<Verified, Refusal> {
    let signed = check_signature(content, token)?;
    check_claims(signed.signer, &signed.claims, now)
}

/// Verifies an assertion at the second `now` since 1970.
pub(super) fn verify_assertion(
    content: &Content,
    assertion: &str,
    now: i64,
) -> Result<Asserted, Refusal> {
    let Signed { signer, key, claims } = check_signature(content, assertion)?;
    if signer.kind != SignerKind::Account {
        return Err(Refusal::UnknownKey);
    }
    check_times(&claims, now)?;
    check_self_signed(&claims, now)?;
    if !audiences(&claims).iter().any(|name| signer.token_uris.contains(name)) {
        return Err(Refusal::Audience);
    }
    if claims.scope.as_ref().is_some_and(|scope| !scope.is_empty()) && !has_scope(&claims) {
        return Err(Refusal::Scope);
    }
    Ok(Asserted { account: fingerprint(&claims.iss, key), ends_at: seconds(claims.exp) })
}

/// A token with a good signature.
struct Signed<'a> {
    signer: &'a Signer,
    key: &'a Key,
    claims: Claims,
}

/// Returns the claims of a token if a key of its issuer signed it. Times and audiences are checked
/// later, by our clock and rules.
fn check_signature<'a>(content: &'a Content, token: &str) -> Result<Signed<'a>, Refusal> {
    install_verifier();
    let header = decode_header(token).map_err(|_| Refusal::Malformed)?;
    let claimed: OnlyIssuer = insecure_decode_claims(token).map_err(|_| Refusal::Malformed)?;
    let signer = content.signers.get(&claimed.iss).ok_or(Refusal::UnknownKey)?;
    let named = |key: &&Key| header.kid.is_none() || key.id.is_none() || key.id == header.kid;
    let mut refusal = Refusal::UnknownKey;
    for key in signer.keys.iter().filter(named).filter(|key| key.algorithm == header.alg) {
        match claims_signed_by(token, key) {
            Ok(claims) => return Ok(Signed { signer, key, claims }),
            Err(why) => refusal = why,
        }
    }
    Err(refusal)
}

/// Returns the claims of a token if `key` signed it.
fn claims_signed_by(token: &str, key: &Key) -> Result<Claims, Refusal> {
    let mut rules = Validation::new(key.algorithm);
    rules.validate_exp = false;
    rules.validate_aud = false;
    rules.required_spec_claims.clear();
    match decode::<Claims>(token, &key.key, &rules) {
        Ok(decoded) => Ok(decoded.claims),
        Err(error) if *error.kind() == ErrorKind::InvalidSignature => Err(Refusal::Signature),
        Err(_) => Err(Refusal::Malformed),
    }
}

/// Checks when a token begins and ends. Returns the second from which on it is refused.
fn check_times(claims: &Claims, now: i64) -> Result<i64, Refusal> {
    let ends_at = seconds(claims.exp).saturating_add(LEEWAY);
    if now >= ends_at {
        return Err(Refusal::Expired);
    }
    let starts = [claims.nbf, claims.iat].into_iter().flatten().map(seconds);
    if starts.into_iter().any(|start| start > now.saturating_add(LEEWAY)) {
        return Err(Refusal::Time);
    }
    Ok(ends_at)
}

/// Refuses what a service account signed for too long, or for another account.
fn check_self_signed(claims: &Claims, now: i64) -> Result<(), Refusal> {
    if seconds(claims.exp) > now.saturating_add(SELF_SIGNED_MAX + LEEWAY) {
        return Err(Refusal::Time);
    }
    match &claims.sub {
        Some(subject) if *subject != claims.iss => Err(Refusal::Malformed),
        _ => Ok(()),
    }
}

fn check_claims(signer: &Signer, claims: &Claims, now: i64) -> Result<Verified, Refusal> {
    let ends_at = check_times(claims, now)?;
    let audiences = audiences(claims);
    let for_us = audiences.iter().any(|name| signer.audiences.contains(name));
    let name = match &signer.kind {
        SignerKind::Account => {
            check_self_signed(claims, now)?;
            // Go's library writes an empty audience where it has none.
            let by_scope = audiences.iter().all(String::is_empty) && has_scope(claims);
            if !for_us && !by_scope {
                return Err(Refusal::Audience);
            }
            format!("serviceAccount:{}", claims.iss)
        }
        SignerKind::Issuer(issuer) => {
            if !for_us {
                return Err(Refusal::Audience);
            }
            let subject = claims.sub.as_deref().ok_or(Refusal::Malformed)?;
            check_name("sub", subject).map_err(|_| Refusal::Malformed)?;
            format!("jwt:{issuer}/{subject}")
        }
    };
    Ok(Verified { name, ends_at })
}

fn audiences(claims: &Claims) -> &[String] {
    claims.aud.as_ref().map_or(&[][..], Audience::names)
}

fn has_scope(claims: &Claims) -> bool {
    let scopes = claims.scope.as_deref().unwrap_or_default().split(' ');
    scopes
        .into_iter()
        .any(|scope| scope == ALL_SCOPES || SCOPES.iter().any(|family| scope.starts_with(family)))
}

/// Returns whole seconds; what no clock shows becomes the nearest that one does.
fn seconds(number: f64) -> i64 {
    number as i64
}
