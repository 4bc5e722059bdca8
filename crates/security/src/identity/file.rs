//! The file of identities, in TOML.
//!
//! ```toml
//! audiences = ["https://stele.example/"]
//!
//! [[token]]
//! name = "ci"
//! sha256 = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
//!
//! [[service_account]]
//! email = "app@stele"
//! key_id = "4f1c"
//! token_uri = "https://stele.example:8087/token"
//! public_key = """
//! -----BEGIN PUBLIC KEY-----
//! ...
//! -----END PUBLIC KEY-----
//! """
//!
//! [[issuer]]
//! name = "corp"
//! issuer = "https://accounts.example"
//! audiences = ["stele"]
//! jwks = "corp.jwks.json"
//! ```
//!
//! An account has an entry for each of its keys. `token_uri` is what its assertions name as their
//! audience. The file of an issuer's keys is beside this file unless
//! its path is absolute.

use super::TokenHash;
use super::access::fingerprint;
use super::hex::unhex;
use super::keys::{Key, keys_of_jwks, rsa_key_of_pem};
use crate::files::{self, Stamp};
use crate::{Error, Result};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Audiences that Google's libraries put into tokens of service accounts.
const GOOGLE_AUDIENCES: [&str; 4] = [
    "https://bigtable.googleapis.com",
    "https://bigtable.googleapis.com/",
    "https://bigtableadmin.googleapis.com",
    "https://bigtableadmin.googleapis.com/",
];
/// Audiences that some of Google's libraries put into assertions, wherever they send them.
const GOOGLE_TOKEN_URIS: [&str; 2] =
    ["https://oauth2.googleapis.com/token", "https://www.googleapis.com/oauth2/v4/token"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parsed {
    #[serde(default)]
    audiences: Vec<String>,
    #[serde(default)]
    token: Vec<Token>,
    #[serde(default)]
    service_account: Vec<ServiceAccount>,
    #[serde(default)]
    issuer: Vec<Issuer>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Token {
    name: String,
    sha256: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ServiceAccount {
    email: String,
    key_id: String,
    token_uri: Option<String>,
    public_key: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Issuer {
    name: String,
    issuer: String,
    audiences: Vec<String>,
    jwks: PathBuf,
}

/// Content of the file, checked.
#[derive(Debug)]
pub(super) struct Content {
    /// Files that it was read from, with their stamps of before.
    pub(super) files: Vec<(PathBuf, Stamp)>,
    pub(super) tokens: Vec<(TokenHash, Arc<str>)>,
    /// Signers by what stands as issuer in their tokens.
    pub(super) signers: BTreeMap<String, Signer>,
    /// Names of the service accounts by the fingerprints of their keys.
    pub(super) accounts: BTreeMap<TokenHash, Arc<str>>,
}

/// Holder of keys whose signed tokens are taken.
#[derive(Debug)]
pub(super) struct Signer {
    pub(super) kind: SignerKind,
    pub(super) keys: Vec<Key>,
    pub(super) audiences: BTreeSet<String>,
    /// Audiences of assertions; an issuer has none.
    pub(super) token_uris: BTreeSet<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum SignerKind {
    /// A service account, which signs for itself.
    Account,
    /// An issuer of this name, which signs for its users.
    Issuer(String),
}

/// Reads the file at `path` and the keys of its issuers.
pub(super) fn load(path: &Path) -> Result<Content> {
    let (text, stamp) = read(path)?;
    let text = std::str::from_utf8(&text).map_err(|error| Error::invalid(path, error))?;
    let parsed: Parsed = toml::from_str(text).map_err(|error| {
        // The message leaves out the lines of the file, which may hold secrets.
        Error::invalid(path, error.message())
    })?;
    let invalid = |text: String| Error::invalid(path, text);
    let mut content = Content {
        files: vec![(path.to_owned(), stamp)],
        tokens: tokens(&parsed.token).map_err(invalid)?,
        signers: BTreeMap::new(),
        accounts: BTreeMap::new(),
    };
    let mut audiences: BTreeSet<String> = parsed.audiences.into_iter().collect();
    audiences.extend(GOOGLE_AUDIENCES.map(str::to_owned));
    for account in parsed.service_account {
        add_account(&mut content, account, &audiences).map_err(invalid)?;
    }
    for issuer in parsed.issuer {
        let file = path.parent().unwrap_or(Path::new("")).join(&issuer.jwks);
        let (text, stamp) = read(&file)?;
        let keys = keys_of_jwks(&text).map_err(|what| Error::invalid(&file, what))?;
        content.files.push((file, stamp));
        add_issuer(&mut content.signers, issuer, keys).map_err(invalid)?;
    }
    Ok(content)
}

/// Reads a file. Returns its stamp of before, too: it tells of a change during the reading.
fn read(path: &Path) -> Result<(Vec<u8>, Stamp)> {
    let stamp = Stamp::of(path);
    Ok((files::read(path)?, stamp))
}

fn tokens(parsed: &[Token]) -> std::result::Result<Vec<(TokenHash, Arc<str>)>, String> {
    let mut names = BTreeSet::new();
    let token = |Token { name, sha256 }: &Token| {
        check_name("name", name)?;
        let hash = unhex(sha256)
            .ok_or_else(|| format!("sha256 of the token {name} is not 64 hexadecimal digits"))?;
        Ok((hash, format!("token:{name}").into()))
    };
    if let Some(twice) = parsed.iter().find(|token| !names.insert(&token.name)) {
        return Err(format!("the token {} is there twice", twice.name));
    }
    parsed.iter().map(token).collect()
}

fn add_account(
    content: &mut Content,
    account: ServiceAccount,
    audiences: &BTreeSet<String>,
) -> std::result::Result<(), String> {
    let email = account.email;
    check_name("email", &email)?;
    let key = rsa_key_of_pem(&account.key_id, &account.public_key)
        .map_err(|what| format!("public_key of {email}: {what}"))?;
    let name = format!("serviceAccount:{email}").into();
    content.accounts.insert(fingerprint(&email, &key), name);
    let signer = content.signers.entry(email).or_insert_with(|| Signer {
        kind: SignerKind::Account,
        keys: Vec::new(),
        audiences: audiences.clone(),
        token_uris: GOOGLE_TOKEN_URIS.map(str::to_owned).into(),
    });
    if let Some(uri) = account.token_uri {
        check_token_uri(&uri)?;
        signer.token_uris.insert(uri);
    }
    signer.keys.push(key);
    Ok(())
}

fn add_issuer(
    signers: &mut BTreeMap<String, Signer>,
    issuer: Issuer,
    keys: Vec<Key>,
) -> std::result::Result<(), String> {
    check_name("name", &issuer.name)?;
    if issuer.name.contains('/') {
        return Err(format!("the name {:?} of an issuer must not have a slash", issuer.name));
    }
    if issuer.audiences.is_empty() {
        return Err(format!("the issuer {} needs an audience", issuer.name));
    }
    let signer = Signer {
        kind: SignerKind::Issuer(issuer.name),
        keys,
        audiences: issuer.audiences.into_iter().collect(),
        token_uris: BTreeSet::new(),
    };
    match signers.insert(issuer.issuer.clone(), signer) {
        None => Ok(()),
        Some(_) => Err(format!("the issuer {:?} is there twice", issuer.issuer)),
    }
}

/// Refuses names that could be taken for another one in a policy or a log.
pub(super) fn check_name(field: &str, name: &str) -> std::result::Result<(), String> {
    let plain = |byte: u8| byte.is_ascii_graphic() && !b"\"\\'".contains(&byte);
    if !name.is_empty() && name.len() <= 256 && name.bytes().all(plain) {
        return Ok(());
    }
    Err(format!("{field} {name:?} must be 1 to 256 printable letters without spaces and quotes"))
}

/// Refuses what is no plain address of HTTP.
pub(super) fn check_token_uri(uri: &str) -> std::result::Result<(), String> {
    let rest = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"));
    if rest.is_some_and(|rest| !rest.is_empty() && !rest.starts_with('/')) {
        return check_name("token_uri", uri);
    }
    Err(format!("token_uri {uri:?} must be like https://HOST:PORT/token"))
}
