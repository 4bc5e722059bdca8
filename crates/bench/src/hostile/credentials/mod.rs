//! Credentials of the honest client, of attackers, and of intruders whom a server must not let in.

mod forged;

use super::tables::INSTANCE;
use crate::AnyError;
use base::env::{Clock, SystemClock};
use forged::Signer;
use security::identity::{create_service_account, create_token};
use serde::{Deserialize, Serialize};
use std::path::Path;

const ACCOUNT: &str = "app@hostile";
const ISSUER: &str = "https://accounts.hostile.example";
const ISSUER_AUDIENCE: &str = "hostile";
/// Audience of assertions, for which a server gives access tokens.
const TOKEN_URI: &str = "https://localhost:8087/token";
const IDENTITIES: &str = "identities.toml";
const POLICY: &str = "policy.toml";

/// Tokens by their holders. The process of the attackers reads them from a file.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Credentials {
    /// A token that may do everything with the tables.
    pub(super) honest: String,
    /// A token that may read and write rows.
    pub(super) attacker: String,
    /// A token that may read rows and nothing else.
    pub(super) reader: String,
    /// A token that may do everything in another instance.
    pub(super) elsewhere: String,
    /// Credentials that are good for nothing.
    pub(super) forged: Vec<Forgery>,
}

/// Credentials that a server must refuse.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Forgery {
    /// The fault of the credentials in words.
    pub(super) fault: String,
    /// Value of the header `authorization`; nothing for a request without it.
    pub(super) header: Option<String>,
}

impl Credentials {
    /// Makes identities and a policy in `dir`, and the tokens that go with them.
    pub(super) fn make(dir: &Path) -> Result<Self, AnyError> {
        std::fs::create_dir_all(dir)?;
        let identities = dir.join(IDENTITIES);
        let token = |name| create_token(&identities, name);
        let (honest, attacker) = (token("honest")?, token("attacker")?);
        let (reader, elsewhere) = (token("reader")?, token("elsewhere")?);
        let account = key(&identities, ACCOUNT, &dir.join("account.json"))?;
        let issuer = key(&dir.join("unused.toml"), ISSUER, &dir.join("issuer.json"))?;
        std::fs::write(dir.join("issuer.jwks.json"), issuer.jwks())?;
        let text = std::fs::read_to_string(&identities)?;
        let public_key = public_key(&text).ok_or("no public key")?.to_owned();
        let entry = format!(
            "\n[[issuer]]\nname = 'corp'\nissuer = '{ISSUER}'\naudiences = ['{ISSUER_AUDIENCE}']\n\
             jwks = 'issuer.jwks.json'\n"
        );
        std::fs::write(&identities, text + &entry)?;
        std::fs::write(dir.join(POLICY), policy())?;
        let now = SystemClock.now_micros() / 1_000_000;
        let forged = forged::all(&account, &issuer, &public_key, &honest, now)?;
        Ok(Self { honest, attacker, reader, elsewhere, forged })
    }

    /// Returns the flags of a server that knows these identities.
    pub(super) fn flags(dir: &Path) -> Vec<String> {
        let flag = |name: &str, file: &str| format!("--{name}={}", dir.join(file).display());
        vec![flag("identities", IDENTITIES), flag("policy", POLICY), flag("audit-log", "audit.log")]
    }
}

/// Makes the key of an account and registers it.
fn key(identities: &Path, email: &str, file: &Path) -> Result<Signer, AnyError> {
    create_service_account(identities, email, "hostile", file, TOKEN_URI)?;
    Signer::of(&serde_json::from_slice(&std::fs::read(file)?)?)
}

/// Returns the public key that stands in a file of identities, in PEM.
fn public_key(identities: &str) -> Option<&str> {
    let from = &identities[identities.find("-----BEGIN PUBLIC KEY-----")?..];
    Some(&from[..from.find("\"\"\"")?])
}

fn policy() -> String {
    let elsewhere = INSTANCE.replace("instances/", "instances/not-");
    let binding = |role: &str, members: &str, resource: &str| {
        format!(
            "[[bindings]]\nrole = 'roles/bigtable.{role}'\nmembers = [{members}]\n\
             resource = '{resource}'\n"
        )
    };
    [
        binding("admin", &format!("'token:honest', 'serviceAccount:{ACCOUNT}'"), INSTANCE),
        binding("user", "'token:attacker'", INSTANCE),
        binding("reader", "'token:reader'", INSTANCE),
        binding("admin", "'token:elsewhere'", &elsewhere),
    ]
    .concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use forged::Claims;
    use security::identity::Identities;
    use security::policy::{Allowed, Policy};

    #[test]
    fn good_credentials_are_taken_and_forged_ones_refused() {
        let dir = tempfile::tempdir().unwrap();
        let made = Credentials::make(dir.path()).unwrap();
        let known = Identities::load(&dir.path().join(IDENTITIES)).unwrap();
        let policy = Policy::load(&dir.path().join(POLICY)).unwrap();
        let now = SystemClock.now_micros() / 1_000_000;
        let name = |token: &str| known.identify(token, now).unwrap();
        let table = format!("{INSTANCE}/tables/t");
        let may = |token: &str, what: &str| {
            let permission = format!("bigtable.tables.{what}");
            policy.allowed(&name(token), &permission, &table) == Allowed::Everything
        };
        for (token, reads, writes, deletes) in [
            (&made.honest, true, true, true),
            (&made.attacker, true, true, false),
            (&made.reader, true, false, false),
            (&made.elsewhere, false, false, false),
        ] {
            let is = (may(token, "readRows"), may(token, "mutateRows"), may(token, "delete"));
            assert_eq!(is, (reads, writes, deletes), "{}", name(token));
        }
        for forgery in &made.forged {
            let header = forgery.header.as_deref().unwrap_or_default();
            let token = header.strip_prefix("Bearer ").unwrap_or_default();
            assert!(known.identify(token, now).is_err(), "{}", forgery.fault);
        }
        // Without their faults the forged tokens would be good.
        for (file, iss, aud, want) in [
            ("account.json", ACCOUNT, forged::ACCOUNT_AUDIENCE, "serviceAccount:app@hostile"),
            ("issuer.json", ISSUER, ISSUER_AUDIENCE, "jwt:corp/ann"),
        ] {
            let file = std::fs::read(dir.path().join(file)).unwrap();
            let signer = Signer::of(&serde_json::from_slice(&file).unwrap()).unwrap();
            let sub = if iss == ACCOUNT { ACCOUNT } else { "ann" };
            let claims = Claims { iss, sub, aud, iat: now, nbf: now, exp: now + 600 };
            let token = signer.sign(&signer.header("RS256"), &claims).unwrap();
            assert_eq!(&*known.identify(&token, now).unwrap(), want);
        }
    }
}
