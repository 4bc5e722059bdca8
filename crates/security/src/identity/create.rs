//! New tokens, and key files in the shape of a service account's.

use super::file::{check_name, check_token_uri, load};
use super::hash;
use super::hex::hex;
use crate::files::{self, Readers};
use crate::{Error, Result};
use ring::rand::{SecureRandom, SystemRandom};
use rsa::pkcs8::{EncodePrivateKey, EncodePublicKey, LineEnding};
use rsa::{Generate, PrivateKey};
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

/// A key file, as Google's libraries read it.
#[derive(Debug, Serialize, Deserialize)]
pub struct KeyFile {
    /// Always `service_account`, by which libraries know the form.
    pub r#type: String,
    /// Project that clients take if they are told none.
    pub project_id: String,
    /// Id by which tokens name the key.
    pub private_key_id: String,
    /// RSA key as PKCS#8 in PEM.
    pub private_key: String,
    /// Name of the service account.
    pub client_email: String,
    /// Not used; the libraries want it.
    pub client_id: String,
    /// Address where libraries that do not sign a token for each server get one for an assertion.
    pub token_uri: String,
}

/// Makes a random token, and adds its hash to the file of identities under `name`. Returns the token,
/// which is nowhere else.
pub fn create_token(identities: &Path, name: &str) -> Result<String> {
    check_name("name", name).map_err(|what| Error::invalid(identities, what))?;
    let token = format!("stele_{}", hex(&random::<32>(identities)?));
    let entry =
        format!("[[token]]\nname = \"{name}\"\nsha256 = \"{}\"\n", hex(&hash(token.as_bytes())));
    append(identities, &entry)?;
    Ok(token)
}

/// Makes a key for the account `email`, writes it to `key_file`, which must not exist, and adds its
/// public half to the file of identities. Libraries get access tokens at `token_uri`.
pub fn create_service_account(
    identities: &Path,
    email: &str,
    project: &str,
    key_file: &Path,
    token_uri: &str,
) -> Result<()> {
    let invalid = |what: String| Error::invalid(identities, what);
    check_name("email", email).map_err(invalid)?;
    check_token_uri(token_uri).map_err(invalid)?;
    let key = PrivateKey::generate();
    let private = key.to_pkcs8_pem(LineEnding::LF).map_err(|error| invalid(error.to_string()))?;
    let public = key.to_public_key().to_public_key_pem(LineEnding::LF);
    let public = public.map_err(|error| invalid(error.to_string()))?;
    let key_id = hex(&random::<20>(identities)?);
    let content = KeyFile {
        r#type: "service_account".to_owned(),
        project_id: project.to_owned(),
        private_key_id: key_id.clone(),
        private_key: private.to_string(),
        client_email: email.to_owned(),
        client_id: "0".to_owned(),
        token_uri: token_uri.to_owned(),
    };
    let mut json =
        serde_json::to_vec_pretty(&content).map_err(|error| invalid(error.to_string()))?;
    json.push(b'\n');
    files::create(key_file, &json, Readers::Owner)?;
    append(
        identities,
        &format!(
            "[[service_account]]\nemail = \"{email}\"\nkey_id = \"{key_id}\"\n\
             token_uri = \"{token_uri}\"\npublic_key = \"\"\"\n{public}\"\"\"\n"
        ),
    )
}

/// Adds an entry to the file of identities, which is made if it is missing. One that cannot be read
/// afterwards is set back to what it was.
fn append(path: &Path, entry: &str) -> Result<()> {
    let io = |error| Error::io(path, error);
    let before = std::fs::metadata(path).map_or(0, |file| file.len());
    let mut file = OpenOptions::new().create(true).append(true).open(path).map_err(io)?;
    let gap = if before == 0 { "" } else { "\n" };
    file.write_all(format!("{gap}{entry}").as_bytes())
        .and_then(|()| file.sync_all())
        .map_err(io)?;
    load(path).map(drop).inspect_err(|_| {
        // The error of the new entry is what the caller has to know.
        let _ = file.set_len(before);
    })
}

fn random<const N: usize>(path: &Path) -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let filled = SystemRandom::new().fill(&mut bytes);
    filled.map_err(|_| Error::invalid(path, "the system gives no random numbers"))?;
    Ok(bytes)
}
