//! The `cbt` tool as an operator uses it, down to what it prints.

use crate::secured::{Secured, endpoint};
use crate::server::Server;
use crate::setup;
use std::path::Path;
use std::process::Command;

/// `cbt` against a server.
struct Cbt<'a> {
    program: &'a Path,
    home: &'a Path,
    server: &'a Server,
    /// Credentials for a server that wants some.
    secured: Option<&'a Secured>,
}

impl Cbt<'_> {
    fn try_run(&self, line: &str) -> Result<String, String> {
        let mut command = Command::new(self.program);
        command.args(["-project", "p", "-instance", "i"]);
        match self.secured {
            None => drop(command.env("BIGTABLE_EMULATOR_HOST", self.server.bigtable().to_string())),
            Some(secured) => {
                let address = endpoint(self.server);
                command.args(["-data-endpoint", &address, "-admin-endpoint", &address]);
                command.arg("-creds").arg(secured.key_file());
                command.arg("-cert-file").arg(secured.ca());
                // The roots for the address of the access token.
                command.env("SSL_CERT_FILE", secured.ca()).env_remove("BIGTABLE_EMULATOR_HOST");
            }
        }
        command.args(line.split(' '));
        // No search path: it would find gcloud and wait for it to say that nobody is logged in.
        command.env("HOME", self.home).env("TZ", "UTC").env("PATH", "");
        setup::run(&mut command)
    }

    /// What `cbt` prints for a command line, words split at single spaces.
    fn run(&self, line: &str) -> String {
        self.try_run(line).unwrap_or_else(|error| panic!("cbt {line}: {error}"))
    }

    fn refused(&self, line: &str, word: &str) {
        let error = self.try_run(line).expect_err(line);
        assert!(error.contains(word), "cbt {line}: {error}");
    }
}

/// The row keys of what `cbt read` printed.
fn keys(printed: &str) -> Vec<&str> {
    let lines: Vec<&str> = printed.lines().collect();
    lines.windows(2).filter(|two| two[0].starts_with("-----")).map(|two| two[1]).collect()
}

const ELM: &str = "\
----------------------------------------
tree#elm
  facts:height                             @ 1970/01/01-00:00:00.002000
    \"31\"
  facts:height                             @ 1970/01/01-00:00:00.001000
    \"30\"
  notes:text                               @ 1970/01/01-00:00:00.001000
    \"\\ta\u{e4}\"
  sums:seen                                @ 1970/01/01-00:00:00.001000
    \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\f\"
";

#[test]
fn cbt_makes_fills_reads_and_empties_tables() {
    let Some(program) = setup::cbt() else { return };
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let mut server = Server::start(dir.path(), &[]);
    let cbt = Cbt { program: &program, home: home.path(), server: &server, secured: None };
    fill(&cbt);
    read(&cbt);
    server.kill_9();
    server.restart();
    let cbt = Cbt { program: &program, home: home.path(), server: &server, secured: None };
    read(&cbt);
    empty(&cbt);
}

#[test]
fn cbt_gets_an_access_token_for_a_key_file_over_tls() {
    let Some(program) = setup::cbt() else { return };
    let (dir, home) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = Secured::make();
    let mut server = files.start(dir.path());
    let (program, home, secured) = (&*program, home.path(), Some(&files));
    let cbt = Cbt { program, home, server: &server, secured };
    fill(&cbt);
    read(&cbt);
    empty(&cbt);
    files.forget_the_account();
    assert!(server.terminate().success());
    server.restart();
    Cbt { program, home, server: &server, secured }.refused("ls", "invalid_grant");
}

fn fill(cbt: &Cbt<'_>) {
    cbt.run("createtable garden families=facts:maxversions=3,sums:never:intsum splits=m,t");
    cbt.run("createfamily garden notes");
    cbt.run("setgcpolicy garden notes maxage=36500d or maxversions=1");
    cbt.refused("createtable garden", "AlreadyExists");
    cbt.run("set garden tree#elm facts:height=30@1000 facts:height=31@2000");
    cbt.run("set garden tree#elm notes:text=old@0 notes:text=\ta\u{e4}@1000");
    cbt.run("addtocell garden tree#elm sums:seen=5@1000");
    cbt.run("addtocell garden tree#elm sums:seen=7@1000");
    cbt.run("set garden tree#oak facts:height=25@1000");
    cbt.run("set garden shrub#box facts:height=2@1000 facts:name=box@1000");
    cbt.refused("set garden tree#oak nothing:q=v", "nothing");
}

fn read(cbt: &Cbt<'_>) {
    assert!(cbt.run("ls").ends_with("garden\n"));
    let families = cbt.run("ls garden");
    for line in
        ["facts\t\tversions() > 3", "notes\t\t(age() > 36500d || versions() > 1)", "sums\t\t"]
    {
        assert!(families.contains(line), "{line} is not in\n{families}");
    }
    assert!(cbt.run("count garden").ends_with("3\n"));
    assert!(cbt.run("count garden prefix=tree").ends_with("2\n"));
    let elm = cbt.run("lookup garden tree#elm");
    assert!(elm.contains(ELM), "{elm}");
    for (options, want) in [
        ("", &["shrub#box", "tree#elm", "tree#oak"][..]),
        ("prefix=tree", &["tree#elm", "tree#oak"]),
        ("prefix=tree reversed=true", &["tree#oak", "tree#elm"]),
        ("prefix=tree count=1", &["tree#elm"]),
        ("reversed=true count=2", &["tree#oak", "tree#elm"]),
        ("start=s end=tree#f", &["shrub#box", "tree#elm"]),
        ("regex=.*#[bo].*", &["shrub#box", "tree#oak"]),
        ("columns=facts:name", &["shrub#box"]),
        ("columns=notes:text,facts:name", &["shrub#box", "tree#elm"]),
        ("keys-only=true prefix=shrub", &["shrub#box"]),
    ] {
        let printed = cbt.run(format!("read garden {options}").trim_end());
        assert_eq!(keys(&printed), want, "{options}");
    }
    let newest = cbt.run("read garden prefix=tree#elm columns=facts:height cells-per-column=1");
    assert!(newest.contains("\"31\"") && !newest.contains("\"30\""), "{newest}");
    cbt.refused("read missing", "tables/missing");
}

fn empty(cbt: &Cbt<'_>) {
    cbt.run("deletecolumn garden shrub#box facts name");
    assert!(!cbt.run("lookup garden shrub#box").contains("name"));
    cbt.run("deleterow garden tree#oak");
    assert_eq!(keys(&cbt.run("read garden")), ["shrub#box", "tree#elm"]);
    cbt.run("deletefamily garden notes");
    assert!(!cbt.run("lookup garden tree#elm").contains("notes"));
    cbt.run("deleteallrows garden");
    assert!(cbt.run("count garden").ends_with("0\n"));
    cbt.run("deletetable garden");
    cbt.refused("ls garden", "NotFound");
}
