//! Tokens that the holder of a key file signs for itself, as Google's libraries do (RFC 7519).

use super::create::KeyFile;
use crate::files;
use crate::{Error, Result};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use parking_lot::Mutex;
use ring::rand::SystemRandom;
use ring::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::pki_types::pem::PemObject;
use serde_json::json;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Life of a token in seconds, the longest that servers accept.
const LIFE: i64 = 3_600;
/// Seconds before the end of a token from which on a new one is signed.
const RENEW_BEFORE: i64 = 600;
/// Scope that includes the data and the administration of Bigtable.
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// A service account with its private key.
pub struct ServiceAccount {
    path: PathBuf,
    email: String,
    key_id: String,
    key: RsaKeyPair,
    /// Last token, with the second since 1970 from which on it is renewed.
    last: Mutex<Option<(Arc<str>, i64)>>,
}

impl fmt::Debug for ServiceAccount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServiceAccount").field("email", &self.email).finish_non_exhaustive()
    }
}

impl ServiceAccount {
    /// Reads a key file, as `stele identity create` and Google make them.
    pub fn load(path: &Path) -> Result<Self> {
        let invalid = |what: &str| Error::invalid(path, what);
        let file: KeyFile = serde_json::from_slice(&files::read(path)?)
            .map_err(|_| invalid("is no key file of a service account"))?;
        let der = PrivatePkcs8KeyDer::from_pem_slice(file.private_key.as_bytes())
            .map_err(|_| invalid("has no private key in PEM"))?;
        let key = RsaKeyPair::from_pkcs8(der.secret_pkcs8_der())
            .map_err(|_| invalid("has no RSA key of 2048 to 4096 bits"))?;
        let (email, key_id) = (file.client_email, file.private_key_id);
        Ok(Self { path: path.to_owned(), email, key_id, key, last: Mutex::new(None) })
    }

    /// Returns a token that is good at the second `now` since 1970, and for some minutes more.
    pub fn token(&self, now: i64) -> Result<Arc<str>> {
        let mut last = self.last.lock();
        if let Some((token, renew_at)) = &*last
            // A clock that was set back has signed for later.
            && (*renew_at - LIFE + RENEW_BEFORE..*renew_at).contains(&now)
        {
            return Ok(Arc::clone(token));
        }
        let token: Arc<str> = self.sign(now)?.into();
        *last = Some((Arc::clone(&token), now.saturating_add(LIFE - RENEW_BEFORE)));
        Ok(token)
    }

    fn sign(&self, now: i64) -> Result<String> {
        let header = json!({ "alg": "RS256", "typ": "JWT", "kid": self.key_id });
        let claims = json!({
            "iss": self.email, "sub": self.email, "scope": SCOPE,
            "iat": now, "exp": now.saturating_add(LIFE),
        });
        let part = |value: serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let mut signature = vec![0; self.key.public().modulus_len()];
        let random = SystemRandom::new();
        self.key
            .sign(&RSA_PKCS1_SHA256, &random, message.as_bytes(), &mut signature)
            .map_err(|_| Error::invalid(&self.path, "has a key that signs nothing"))?;
        Ok(format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature)))
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Identities, create_service_account};
    use super::*;

    const NOW: i64 = 1_800_000_000;

    #[test]
    fn a_server_knows_the_holder_of_a_key_file_by_its_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let (file, key) = (dir.path().join("identities"), dir.path().join("key.json"));
        create_service_account(&file, "app@stele", "p", &key, "https://h:1/token").unwrap();
        let (server, account) =
            (Identities::load(&file).unwrap(), ServiceAccount::load(&key).unwrap());
        let token = account.token(NOW).unwrap();
        assert_eq!(&*server.identify(&token, NOW).unwrap(), "serviceAccount:app@stele");
        // The same token is shown again until it is old, and by no clock for longer than it is good.
        assert_eq!(account.token(NOW + LIFE - RENEW_BEFORE - 1).unwrap(), token);
        for later in [NOW + LIFE - RENEW_BEFORE, NOW + 10 * LIFE, NOW - LIFE] {
            let renewed = account.token(later).unwrap();
            assert_ne!(renewed, token);
            assert!(server.identify(&renewed, later).is_ok());
        }
        assert!(!format!("{account:?}").contains("PRIVATE"));
    }

    #[test]
    fn files_that_are_no_key_files_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key.json");
        let key = |private: &str| {
            json!({
                "type": "service_account", "project_id": "p", "private_key_id": "k",
                "private_key": private, "client_email": "e", "client_id": "0", "token_uri": "u",
            })
        };
        let empty = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (content, reason) in [
            ("{}".to_owned(), "is no key file"),
            (key("x").to_string(), "no private key in PEM"),
            (key(empty).to_string(), "no RSA key"),
        ] {
            std::fs::write(&path, content).unwrap();
            let error = ServiceAccount::load(&path).unwrap_err().to_string();
            assert!(error.contains(reason) && error.contains("key.json"), "{error}");
        }
        assert!(ServiceAccount::load(&dir.path().join("missing")).is_err());
    }
}
