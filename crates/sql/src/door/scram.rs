//! Secrets of roles, and the server's side of SCRAM-SHA-256 (RFC 5802, RFC 7677).
//!
//! The catalog holds what verifies a password, never the password: a reader of the catalog cannot log in
//! with it. The text form is the one that PostgreSQL stores and that `ALTER ROLE` takes.
//!
//! Invariants:
//! 1. The answer to an unknown role differs from that to a wrong password in nothing that a client sees.
//! 2. Proofs are compared in constant time.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use pgwire::api::auth::sasl::scram::gen_salted_password;
use ring::rand::{SecureRandom, SystemRandom};
use ring::{digest, hmac};
use subtle::ConstantTimeEq;

/// Name of the mechanism, as clients are offered it.
pub(crate) const MECHANISM: &str = "SCRAM-SHA-256";
const ITERATIONS: u32 = 4096;
/// Most iterations that a secret may ask clients for.
const ITERATIONS_MAX: u32 = 10_000_000;
const KEY_LEN: usize = 32;
const SALT_LEN: usize = 16;

/// The verifier of a role's password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret {
    iterations: u32,
    salt: Vec<u8>,
    stored_key: [u8; KEY_LEN],
    server_key: [u8; KEY_LEN],
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// The client did not follow the mechanism, or its proof is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Malformed,
    WrongProof,
}

impl Secret {
    /// Makes the secret of `password`, with a new salt. Fails if the system gives no random numbers.
    pub(crate) fn of_password(password: &str) -> Option<Self> {
        let mut salt = [0; SALT_LEN];
        SystemRandom::new().fill(&mut salt).ok()?;
        Some(Self::with_salt(password, &salt, ITERATIONS))
    }

    fn with_salt(password: &str, salt: &[u8], iterations: u32) -> Self {
        let salted = gen_salted_password(password, salt, iterations as usize);
        let stored_key = sha256(&hmac_sha256(&salted, b"Client Key"));
        let server_key = hmac_sha256(&salted, b"Server Key");
        Self { iterations, salt: salt.to_vec(), stored_key, server_key }
    }

    /// Returns a secret that no password has, the same for the same `name` and `pepper`.
    fn of_nobody(name: &str, pepper: &[u8]) -> Self {
        let salt = hmac_sha256(pepper, name.as_bytes());
        let key = hmac_sha256(pepper, &salt);
        let salt = salt[..SALT_LEN].to_vec();
        Self { iterations: ITERATIONS, salt, stored_key: key, server_key: key }
    }

    /// Reads the text form, if `text` has it.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (head, keys) = text.strip_prefix("SCRAM-SHA-256$")?.split_once('$')?;
        let (iterations, salt) = head.split_once(':')?;
        let (stored, server) = keys.split_once(':')?;
        let key = |text: &str| STANDARD.decode(text).ok()?.try_into().ok();
        let iterations: u32 = iterations.parse().ok()?;
        (1..=ITERATIONS_MAX).contains(&iterations).then_some(())?;
        Some(Self {
            iterations,
            salt: STANDARD.decode(salt).ok()?,
            stored_key: key(stored)?,
            server_key: key(server)?,
        })
    }

    /// Returns the text form that the catalog keeps.
    pub(crate) fn to_text(&self) -> String {
        let of = |bytes: &[u8]| STANDARD.encode(bytes);
        let (salt, stored, server) = (of(&self.salt), of(&self.stored_key), of(&self.server_key));
        format!("{MECHANISM}${}:{salt}${stored}:{server}", self.iterations)
    }
}

/// An exchange after the server's first message.
pub(crate) struct Exchange {
    secret: Secret,
    /// False for a role without a password: no proof is right.
    is_known: bool,
    gs2_header: String,
    client_first_bare: String,
    server_first: String,
    nonce: String,
}

impl Exchange {
    /// Starts with the client's first message. Returns the exchange, whose first message
    /// [`Exchange::server_first`] is. `pepper` is a secret of the database: all that serve it show the same salt for
    /// a role without a password, today and later.
    pub(crate) fn start(
        client_first: &[u8],
        secret: Option<&Secret>,
        user: &str,
        pepper: &[u8],
    ) -> Result<Self, Refused> {
        let mut random = [0; 18];
        SystemRandom::new().fill(&mut random).map_err(|_| Refused::Malformed)?;
        Self::with_nonce(client_first, secret, user, pepper, &STANDARD.encode(random))
    }

    fn with_nonce(
        client_first: &[u8],
        secret: Option<&Secret>,
        user: &str,
        pepper: &[u8],
        server_nonce: &str,
    ) -> Result<Self, Refused> {
        let text = std::str::from_utf8(client_first).map_err(|_| Refused::Malformed)?;
        let mut parts = text.splitn(3, ',');
        let (flag, name, bare) = (parts.next(), parts.next(), parts.next());
        let (Some(flag @ ("n" | "y")), Some(name), Some(bare)) = (flag, name, bare) else {
            return Err(Refused::Malformed);
        };
        let client_nonce = bare.split(',').find_map(|part| part.strip_prefix("r="));
        let client_nonce = client_nonce.filter(|nonce| !nonce.is_empty());
        let nonce = format!("{}{server_nonce}", client_nonce.ok_or(Refused::Malformed)?);
        let is_known = secret.is_some();
        let secret = secret.cloned().unwrap_or_else(|| Secret::of_nobody(user, pepper));
        let salt = STANDARD.encode(&secret.salt);
        Ok(Self {
            server_first: format!("r={nonce},s={salt},i={}", secret.iterations),
            gs2_header: format!("{flag},{name},"),
            client_first_bare: bare.to_owned(),
            secret,
            is_known,
            nonce,
        })
    }

    /// Returns the server's first message.
    pub(crate) fn server_first(&self) -> &str {
        &self.server_first
    }

    /// Checks the client's final message. Returns the server's.
    pub(crate) fn finish(&self, client_final: &[u8]) -> Result<String, Refused> {
        let text = std::str::from_utf8(client_final).map_err(|_| Refused::Malformed)?;
        let (without_proof, proof) = text.rsplit_once(",p=").ok_or(Refused::Malformed)?;
        let proof = STANDARD.decode(proof).map_err(|_| Refused::Malformed)?;
        let mut parts = without_proof.split(',');
        let binding = parts.next().and_then(|part| part.strip_prefix("c="));
        let nonce = parts.next().and_then(|part| part.strip_prefix("r="));
        let is_bound = binding == Some(STANDARD.encode(&self.gs2_header).as_str());
        if !is_bound || nonce != Some(&self.nonce) || proof.len() != KEY_LEN {
            return Err(Refused::Malformed);
        }
        let signed = format!("{},{},{without_proof}", self.client_first_bare, self.server_first);
        let signature = hmac_sha256(&self.secret.stored_key, signed.as_bytes());
        let client_key: Vec<u8> = proof.iter().zip(signature).map(|(a, b)| a ^ b).collect();
        let is_right = bool::from(sha256(&client_key).ct_eq(&self.secret.stored_key));
        if !is_right || !self.is_known {
            return Err(Refused::WrongProof);
        }
        let signature = hmac_sha256(&self.secret.server_key, signed.as_bytes());
        Ok(format!("v={}", STANDARD.encode(signature)))
    }
}

fn hmac_sha256(key: &[u8], text: &[u8]) -> [u8; KEY_LEN] {
    array(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text).as_ref())
}

fn sha256(text: &[u8]) -> [u8; KEY_LEN] {
    array(digest::digest(&digest::SHA256, text).as_ref())
}

fn array(bytes: &[u8]) -> [u8; KEY_LEN] {
    bytes.try_into().expect("a SHA-256 sum has 32 bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    // The example of RFC 7677, section 3.
    const CLIENT_FIRST: &str = "n,,n=user,r=rOprNGfwEbeRWgbNEkqO";
    const SERVER_NONCE: &str = "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0";
    const CLIENT_FINAL: &str = "c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,\
         p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=";

    fn secret(password: &str) -> Secret {
        let salt = STANDARD.decode("W22ZaJ0SNY7soEsUEjb6gQ==").unwrap();
        Secret::with_salt(password, &salt, 4096)
    }

    fn exchange(secret: Option<&Secret>) -> Exchange {
        Exchange::with_nonce(CLIENT_FIRST.as_bytes(), secret, "user", b"pepper", SERVER_NONCE)
            .unwrap()
    }

    #[test]
    fn the_example_of_the_standard_passes() {
        let exchange = exchange(Some(&secret("pencil")));
        assert_eq!(
            exchange.server_first(),
            "r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
        );
        let last = exchange.finish(CLIENT_FINAL.as_bytes()).unwrap();
        assert_eq!(last, "v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=");
    }

    #[test]
    fn a_wrong_password_and_an_unknown_role_look_alike() {
        for secret in [Some(secret("pencils")), None] {
            let exchange = exchange(secret.as_ref());
            assert!(exchange.server_first().ends_with(",i=4096"));
            let answer = exchange.finish(CLIENT_FINAL.as_bytes());
            assert_eq!(answer, Err(Refused::WrongProof));
        }
        let (a, b) = (exchange(None), exchange(None));
        assert_eq!(a.server_first(), b.server_first());
    }

    #[test]
    fn malformed_messages_are_refused() {
        let secret = secret("pencil");
        for first in ["", "n,,", "n,,n=user", "p=tls-exporter,,n=,r=x", "n,,n=,r=", "x,,n=,r=a"] {
            let got = Exchange::start(first.as_bytes(), Some(&secret), "user", b"pepper");
            assert_eq!(got.err(), Some(Refused::Malformed), "{first:?}");
        }
        let exchange = exchange(Some(&secret));
        for last in ["", "c=biws", "c=biws,r=x,p=AAAA", &CLIENT_FINAL.replace("biws", "eSws")] {
            let got = exchange.finish(last.as_bytes());
            assert_eq!(got, Err(Refused::Malformed), "{last:?}");
        }
    }

    #[test]
    fn the_text_form_is_read_as_it_was_written() {
        let secret = Secret::of_password("pass word").unwrap();
        let text = secret.to_text();
        assert!(text.starts_with("SCRAM-SHA-256$4096:") && !text.contains("pass word"));
        assert_eq!(Secret::parse(&text), Some(secret));
        for wrong in ["", "md5abc", "SCRAM-SHA-256$4096:AA$AA", "SCRAM-SHA-256$0:AA==$AA==:AA=="] {
            assert_eq!(Secret::parse(wrong), None, "{wrong}");
        }
    }
}
