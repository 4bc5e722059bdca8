//! The servers that are measured, each with its loader.

use super::secured::{self, Secured};
use super::{DoorArgs, Slice, Work};
use crate::AnyError;
use crate::server::{Server, cpu_of, rest_of};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// The sources of the Go programs: path within their module, text.
const SOURCES: [(&str, &str); 4] = [
    ("go.mod", include_str!("../../door/go.mod")),
    ("go.sum", include_str!("../../door/go.sum")),
    ("emulator/main.go", include_str!("../../door/emulator/main.go")),
    ("load/main.go", include_str!("../../door/load/main.go")),
];

/// A server and its loader.
pub(super) struct Target {
    name: String,
    server: Served,
    loader: Talk,
}

/// The process of a server.
enum Served {
    Stele(Box<Server>),
    Other(Box<Talk>),
}

/// A process that reads lines and answers lines. Ends when its input does; killed when dropped.
struct Talk {
    child: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

/// The loader's account of a phase.
#[derive(Deserialize)]
struct Answer {
    operations: u64,
    seconds: f64,
    p50_us: u64,
    p99_us: u64,
}

impl Talk {
    fn start(mut command: Command) -> Result<Self, AnyError> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let input = child.stdin.take().ok_or("no standard input")?;
        let output = child.stdout.take().ok_or("no standard output")?;
        Ok(Self { child, input, output: BufReader::new(output).lines() })
    }

    async fn line(&mut self) -> Result<String, AnyError> {
        Ok(self.output.next_line().await?.ok_or("a program ended early")?)
    }

    async fn ask(&mut self, line: &str) -> Result<Answer, AnyError> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        Ok(serde_json::from_str(&self.line().await?)?)
    }

    async fn end(mut self) -> Result<(), AnyError> {
        drop(self.input);
        self.child.wait().await?;
        Ok(())
    }
}

impl Served {
    fn pid(&self) -> Result<u32, AnyError> {
        match self {
            Self::Stele(server) => Ok(server.pid()),
            Self::Other(talk) => talk.child.id().ok_or_else(|| "a server ended early".into()),
        }
    }
}

impl Target {
    /// Starts the constant server, the emulator and the server binaries, with their data in `dir`,
    /// and fills their tables.
    pub(super) async fn start_all(args: &DoorArgs, dir: &Path) -> Result<Vec<Self>, AnyError> {
        let programs = build(dir).await?;
        let mut constant = Command::new(std::env::current_exe()?);
        constant.args(["door", "--answer-constants", "--value-bytes"]);
        constant.arg(args.value_bytes.to_string());
        let mut targets = vec![
            Self::other("constant", constant, &programs, args).await?,
            Self::other("emulator", Command::new(programs.join("emulator")), &programs, args)
                .await?,
        ];
        for (at, binary) in args.server.iter().enumerate() {
            let (binary, dir) = (binary.canonicalize()?, dir.join(at.to_string()));
            let name = match args.server.len() {
                1 => "stele".to_owned(),
                _ => binary.display().to_string(),
            };
            if args.secured {
                let files = secured::make(&binary, &dir.join("security"))?;
                let name = format!("{name}, secured");
                let dir = dir.join("secured");
                targets.push(Self::stele(name, &binary, &dir, &programs, args, &files)?);
            }
            let open = Secured { server: Vec::new(), loader: Vec::new() };
            targets.push(Self::stele(name, &binary, &dir, &programs, args, &open)?);
        }
        for target in &mut targets {
            target.loader.ask("fill").await?;
        }
        Ok(targets)
    }

    fn stele(
        name: String,
        binary: &Path,
        dir: &Path,
        programs: &Path,
        args: &DoorArgs,
        files: &Secured,
    ) -> Result<Self, AnyError> {
        let flags = [&args.server_flag[..], &files.server].concat();
        let server = Server::start(binary, dir, &flags)?;
        let loader = loader(server.address(), programs, args, true, &files.loader)?;
        Ok(Self { name, server: Served::Stele(Box::new(server)), loader })
    }

    async fn other(
        name: &str,
        server: Command,
        programs: &Path,
        args: &DoorArgs,
    ) -> Result<Self, AnyError> {
        let mut server = Talk::start(server)?;
        let address = server.line().await?;
        let loader = loader(&address, programs, args, name != "constant", &[])?;
        Ok(Self { name: name.to_owned(), server: Served::Other(Box::new(server)), loader })
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Waits until the server does nothing in the background.
    pub(super) async fn rest(&self) -> Result<(), AnyError> {
        rest_of(self.server.pid()?).await
    }

    /// Measures `work` for so many seconds.
    pub(super) async fn slice(&mut self, work: Work, seconds: u64) -> Result<Slice, AnyError> {
        let pid = self.server.pid()?;
        let before = cpu_of(pid)?;
        let answer = self.loader.ask(&format!("{} {seconds}", work.name())).await?;
        let cpu = cpu_of(pid)?.saturating_sub(before).max(Duration::from_millis(10));
        let Answer { operations, seconds, p50_us, p99_us } = answer;
        Ok(Slice { operations, seconds, cpu, p50_us, p99_us })
    }

    pub(super) async fn end(self) -> Result<(), AnyError> {
        self.loader.end().await?;
        match self.server {
            Served::Stele(mut server) => server.terminate().await,
            Served::Other(talk) => talk.end().await,
        }
    }
}

/// Starts a loader of the server at `address`.
fn loader(
    address: &str,
    programs: &Path,
    args: &DoorArgs,
    create: bool,
    more: &[String],
) -> Result<Talk, AnyError> {
    let mut command = Command::new(programs.join("load"));
    command.arg(format!("-address={address}")).arg(format!("-create={create}"));
    command.arg(format!("-goroutines={}", args.goroutines)).arg(format!("-rows={}", args.rows));
    command.arg(format!("-value-bytes={}", args.value_bytes)).args(more);
    Talk::start(command)
}

/// Builds the Go programs in `dir`; returns the directory of the binaries.
async fn build(dir: &Path) -> Result<PathBuf, AnyError> {
    let (sources, programs) = (dir.join("go"), dir.join("programs"));
    for (path, text) in SOURCES {
        let path = sources.join(path);
        path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        std::fs::write(path, text)?;
    }
    std::fs::create_dir_all(&programs)?;
    let mut go = Command::new("go");
    go.args(["build", "-o"]).arg(&programs).arg("./...").current_dir(&sources);
    let built =
        go.status().await.map_err(|error| format!("go, which builds the loader: {error}"))?;
    if built.success() { Ok(programs) } else { Err("the Go programs did not build".into()) }
}
