//! Tokens that are expired, for others, or signed by the wrong hand.

use super::{ACCOUNT, Forgery, ISSUER, ISSUER_AUDIENCE, TOKEN_URI};
use crate::AnyError;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::hmac;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use security::identity::KeyFile;
use serde::Serialize;
use serde_json::{Value, json};

/// Audience that tokens of service accounts have.
pub(super) const ACCOUNT_AUDIENCE: &str = "https://bigtable.googleapis.com/";
const HOUR: i64 = 3_600;
/// Letters of a word that is no token, and short enough for a header.
const LONG: usize = 8 << 10;

/// The claims of a token.
#[derive(Debug, Clone, Copy, Serialize)]
pub(super) struct Claims<'a> {
    pub(super) iss: &'a str,
    pub(super) sub: &'a str,
    pub(super) aud: &'a str,
    pub(super) iat: i64,
    pub(super) nbf: i64,
    pub(super) exp: i64,
}

/// Holder of a private key.
pub(super) struct Signer {
    pair: RsaKeyPair,
    key_id: String,
}

impl Signer {
    /// Returns the holder of a key file.
    pub(super) fn of(file: &KeyFile) -> Result<Self, AnyError> {
        let base64: String =
            file.private_key.lines().filter(|line| !line.starts_with("-----")).collect();
        let pair =
            RsaKeyPair::from_pkcs8(&STANDARD.decode(base64)?).map_err(|error| error.to_string())?;
        Ok(Self { pair, key_id: file.private_key_id.clone() })
    }

    /// Returns the public key as a set of one JSON Web Key.
    pub(super) fn jwks(&self) -> String {
        let PublicKeyComponents::<Vec<u8>> { n, e } = self.pair.public().into();
        let [n, e] = [n, e].map(|number| URL_SAFE_NO_PAD.encode(number));
        let key = json!({"kty": "RSA", "alg": "RS256", "kid": self.key_id, "n": n, "e": e});
        json!({"keys": [key]}).to_string()
    }

    /// Returns the header of a token that names this key.
    pub(super) fn header(&self, algorithm: &str) -> Value {
        json!({"alg": algorithm, "typ": "JWT", "kid": self.key_id})
    }

    /// Signs a token with RS256, whatever its header says.
    pub(super) fn sign(&self, header: &Value, claims: &Claims<'_>) -> Result<String, AnyError> {
        let message = message(header, claims)?;
        let mut signature = vec![0; self.pair.public().modulus_len()];
        let random = SystemRandom::new();
        let signed = self.pair.sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature);
        signed.map_err(|error| error.to_string())?;
        Ok(format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature)))
    }
}

/// Returns the part of a token that is signed.
fn message(header: &Value, claims: &Claims<'_>) -> Result<String, AnyError> {
    let header = URL_SAFE_NO_PAD.encode(header.to_string());
    Ok(format!("{header}.{}", URL_SAFE_NO_PAD.encode(serde_json::to_string(claims)?)))
}

/// Returns the headers of a request without a token, and with tokens of every fault. `account` and
/// `issuer` hold keys that the server takes; `token` is a good static one.
pub(super) fn all(
    account: &Signer,
    issuer: &Signer,
    public_key: &str,
    token: &str,
    now: i64,
) -> Result<Vec<Forgery>, AnyError> {
    let mut all = vec![Forgery { fault: "no token".to_owned(), header: None }];
    let mut add = |fault: &str, header: String| {
        all.push(Forgery { fault: fault.to_owned(), header: Some(header) });
    };
    add("an empty token", "Bearer".to_owned());
    add("an unknown token", format!("Bearer stele_{}", "7".repeat(64)));
    let zeros = "0".repeat(64);
    add("an access token of nobody", format!("Bearer stele_access.{}.{zeros}.{zeros}", now + HOUR));
    add("a token cut short", format!("Bearer {}", &token[..token.len() - 1]));
    add("a token in capitals", format!("Bearer {}", token.to_uppercase()));
    add("another scheme", format!("Basic {token}"));
    add("a long token", format!("Bearer {}", "x.".repeat(LONG / 2)));
    for (fault, token) in signed_ones(account, issuer, now)?
        .into_iter()
        .chain(unsigned_ones(account, public_key, now)?)
    {
        add(fault, format!("Bearer {token}"));
    }
    Ok(all)
}

/// Returns the claims of a good token of the account.
fn good(now: i64) -> Claims<'static> {
    let (iat, exp) = (now, now + HOUR);
    Claims { iss: ACCOUNT, sub: ACCOUNT, aud: ACCOUNT_AUDIENCE, iat, nbf: iat, exp }
}

/// Returns tokens that a key signed properly and that are not good by their claims or their key.
fn signed_ones(
    account: &Signer,
    issuer: &Signer,
    now: i64,
) -> Result<Vec<(&'static str, String)>, AnyError> {
    let good = good(now);
    let long_ago = now - 2 * HOUR;
    let past = Claims { iat: long_ago, nbf: long_ago, exp: now - HOUR, ..good };
    let user = Claims { iss: ISSUER, sub: "ann", aud: ISSUER_AUDIENCE, ..good };
    let user_past = Claims { iss: ISSUER, sub: "ann", aud: ISSUER_AUDIENCE, ..past };
    let of_account = [
        ("an expired token", past),
        ("a token of tomorrow", Claims { nbf: now + 24 * HOUR, ..good }),
        ("a token for a year", Claims { exp: now + 365 * 24 * HOUR, ..good }),
        ("another audience", Claims { aud: "https://storage.googleapis.com/", ..good }),
        ("an assertion in place of a token", Claims { aud: TOKEN_URI, ..good }),
        ("an unknown issuer", Claims { iss: "root@hostile", sub: "root@hostile", ..good }),
        ("the subject of another", Claims { sub: "root@hostile", ..good }),
        ("an issuer's token by an account", user),
    ];
    let of_issuer = [
        ("an expired token of an issuer", user_past),
        ("an issuer's token for others", Claims { aud: ACCOUNT_AUDIENCE, ..user }),
        ("an account's token by an issuer", good),
    ];
    let sign = |signer: &Signer, (fault, claims): (&'static str, Claims<'_>)| {
        Ok::<_, AnyError>((fault, signer.sign(&signer.header("RS256"), &claims)?))
    };
    let mut tokens = Vec::new();
    for row in of_account {
        tokens.push(sign(account, row)?);
    }
    for row in of_issuer {
        tokens.push(sign(issuer, row)?);
    }
    // Names the key of the account and is signed by another.
    tokens.push(("the signature of another", issuer.sign(&account.header("RS256"), &good)?));
    Ok(tokens)
}

/// Returns tokens with the claims of a good one, without a signature of its key.
fn unsigned_ones(
    account: &Signer,
    public_key: &str,
    now: i64,
) -> Result<Vec<(&'static str, String)>, AnyError> {
    let good = good(now);
    let none = message(&json!({"alg": "none"}), &good)?;
    let by_public_key = message(&account.header("HS256"), &good)?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, public_key.as_bytes());
    let tag = URL_SAFE_NO_PAD.encode(hmac::sign(&key, by_public_key.as_bytes()));
    let signed = account.sign(&account.header("RS256"), &good)?;
    let (_, signature) = signed.rsplit_once('.').ok_or("no signature")?;
    let changed = message(&account.header("RS256"), &Claims { exp: now + 24 * HOUR, ..good })?;
    Ok(vec![
        ("no algorithm", format!("{none}.")),
        ("no algorithm and a signature", format!("{none}.{signature}")),
        ("no signature", format!("{}.", message(&account.header("RS256"), &good)?)),
        ("a signature by the public key", format!("{by_public_key}.{tag}")),
        ("claims changed after the signature", format!("{changed}.{signature}")),
    ])
}
