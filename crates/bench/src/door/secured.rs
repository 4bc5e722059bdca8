//! Servers that speak TLS and know their callers: the files of one, and the flags that use them.

use crate::AnyError;
use std::path::Path;
use std::process::{Command, Stdio};

/// Name of the token of the loader.
const TOKEN: &str = "bench";
/// Lets the loader do everything, so that each call is looked up.
const POLICY: &str = r#"[[bindings]]
role = "roles/bigtable.admin"
members = ["token:bench"]
resource = "projects/bench"
"#;

/// Flags for a server and for its loader.
pub(super) struct Secured {
    pub(super) server: Vec<String>,
    pub(super) loader: Vec<String>,
}

/// Lets `binary` make certificates and a token in `dir`; returns the flags that use them.
pub(super) fn make(binary: &Path, dir: &Path) -> Result<Secured, AnyError> {
    std::fs::create_dir_all(dir)?;
    let file = |name: &str| dir.join(name).display().to_string();
    run(binary, &["cert", "dev", &file("certs")])?;
    let token = run(binary, &["identity", "token", TOKEN, "--identities", &file("identities")])?;
    std::fs::write(file("token"), token)?;
    std::fs::write(file("policy"), POLICY)?;
    let flag = |flag: &str, name: &str| format!("{flag}={}", file(name));
    Ok(Secured {
        server: vec![
            flag("--tls-cert", "certs/server.pem"),
            flag("--tls-key", "certs/server-key.pem"),
            flag("--identities", "identities"),
            flag("--policy", "policy"),
        ],
        loader: vec![flag("-ca", "certs/ca.pem"), flag("-token-file", "token")],
    })
}

/// Runs `binary` to its end; returns what it says.
fn run(binary: &Path, args: &[&str]) -> Result<Vec<u8>, AnyError> {
    let output = Command::new(binary).args(args).stderr(Stdio::inherit()).output()?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(format!("{} {}: {}", binary.display(), args.join(" "), output.status).into()),
    }
}
