//! A server with TLS and a policy, and what its clients need to sign in: the CA and a key file, with
//! which Google's libraries sign their tokens by themselves.

use crate::server::{Server, stele};
use std::path::{Path, PathBuf};

/// The account of the key file.
const ACCOUNT: &str = "clients@stele";

/// Files of a server that knows its clients.
pub(crate) struct Secured {
    dir: tempfile::TempDir,
}

impl Secured {
    /// Makes certificates, and an account that administers everything.
    pub(crate) fn make() -> Self {
        let secured = Self { dir: tempfile::tempdir().unwrap() };
        run(&["cert", "dev", text(&secured.path("certs"))]);
        let identities = secured.path("identities");
        let key = secured.key_file();
        run(&[
            "identity",
            "create",
            ACCOUNT,
            "--identities",
            text(&identities),
            "--key-file",
            text(&key),
        ]);
        let policy = format!(
            "[[bindings]]\nrole = 'bigtable.admin'\nmembers = ['serviceAccount:{ACCOUNT}']\n\
             resource = '*'\n"
        );
        std::fs::write(secured.path("policy"), policy).unwrap();
        secured
    }

    /// Starts a server on `dir` that answers the account alone.
    pub(crate) fn start(&self, dir: &Path) -> Server {
        let flag = |option: &str, name: &str| format!("--{option}={}", text(&self.path(name)));
        let flags = [
            flag("tls-cert", "certs/server.pem"),
            flag("tls-key", "certs/server-key.pem"),
            flag("identities", "identities"),
            flag("policy", "policy"),
        ];
        Server::start(dir, &flags.each_ref().map(String::as_str))
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.path("key.json")
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("certs/ca.pem")
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

/// Returns the address as the certificate has it.
pub(crate) fn endpoint(server: &Server) -> String {
    format!("localhost:{}", server.bigtable().port())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn run(args: &[&str]) {
    let output = stele().args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
