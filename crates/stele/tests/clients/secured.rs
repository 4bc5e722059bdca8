//! A server with TLS and a policy, and what its clients need to sign in: the CA and a key file, with
//! which Google's libraries sign their tokens by themselves.

use crate::server::{Server, stele};
use crate::setup;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The account of the key file.
const ACCOUNT: &str = "clients@stele";

/// Files of a server that knows its clients.
pub(crate) struct Secured {
    dir: tempfile::TempDir,
}

impl Secured {
    /// Makes certificates, and a policy by which the account administers everything.
    pub(crate) fn make() -> Self {
        let secured = Self { dir: tempfile::tempdir().unwrap() };
        run(&["cert", "dev", text(&secured.path("certs"))]);
        let policy = format!(
            "[[bindings]]\nrole = 'bigtable.admin'\nmembers = ['serviceAccount:{ACCOUNT}']\n\
             resource = '*'\n"
        );
        std::fs::write(secured.path("policy"), policy).unwrap();
        std::fs::write(secured.path("identities"), "").unwrap();
        secured
    }

    /// Starts a server on `dir` that answers the account alone. The account is made when the ports of
    /// the server are known, for a key file and the file of identities name them.
    pub(crate) fn start(&self, dir: &Path) -> Server {
        let flag = |option: &str, name: &str| format!("--{option}={}", text(&self.path(name)));
        let flags = [
            flag("tls-cert", "certs/server.pem"),
            flag("tls-key", "certs/server-key.pem"),
            flag("identities", "identities"),
            flag("policy", "policy"),
        ];
        let mut server = Server::start(dir, &flags.each_ref().map(String::as_str));
        assert!(server.terminate().success());
        self.make_account(&server);
        server.restart();
        server
    }

    /// Returns the flags of a server with the certificate, whose clients are not checked otherwise.
    pub(crate) fn tls_flags(&self) -> [String; 2] {
        let flag = |option: &str, name: &str| format!("--{option}={}", text(&self.path(name)));
        [flag("tls-cert", "certs/server.pem"), flag("tls-key", "certs/server-key.pem")]
    }

    fn make_account(&self, server: &Server) {
        let identities = self.path("identities");
        // HBase's tokens are for the service that the client calls.
        let service = |name| format!("'https://{}/google.bigtable.{name}'", endpoint(server));
        let services = ["v2.Bigtable", "admin.v2.BigtableTableAdmin"].map(service);
        let audiences = format!("audiences = [{}]\n", services.join(", "));
        std::fs::write(&identities, audiences).unwrap();
        let [identities, key] = [identities, self.key_file()];
        let token_uri = format!("https://localhost:{}/token", server.http().port());
        let mut args = vec!["identity", "create", ACCOUNT, "--identities", text(&identities)];
        args.extend(["--key-file", text(&key), "--token-uri", &token_uri]);
        run(&args);
    }

    /// Takes the key of the account out of the file of identities.
    pub(crate) fn forget_the_account(&self) {
        std::fs::write(self.path("identities"), "").unwrap();
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.path("key.json")
    }

    pub(crate) fn ca(&self) -> PathBuf {
        self.path("certs/ca.pem")
    }

    /// Returns the CA as a trust store of Java, made by the JDK's tool.
    pub(crate) fn trust_store(&self) -> PathBuf {
        let (ca, store) = (self.ca(), self.path("trust.p12"));
        let mut keytool = Command::new("keytool");
        keytool.args(["-importcert", "-noprompt", "-alias", "stele", "-storetype", "PKCS12"]);
        keytool.args(["-storepass", "changeit", "-file", text(&ca), "-keystore", text(&store)]);
        if !store.exists() {
            setup::run(&mut keytool).unwrap();
        }
        store
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
