//! Makes the tools that the suites run with, once, below `target/clients`.
//!
//! 1. A tool is made under a lock file, so that test processes never make it at the same time.
//! 2. A stamp with everything that the tool depends on is written last; another stamp, or none,
//!    makes the tool anew. An interrupted set-up is therefore never used.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that a tool may take to be made, and a suite to run.
const PATIENCE: Duration = Duration::from_secs(900);
/// The release of `cbt` that is built where it can be had.
const CBT: &str = "cloud.google.com/go/cbt@v1.13.0";

/// The directory of this file: the suites' sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/clients")
}

/// A Python interpreter with the pinned requirements.
pub(crate) fn python() -> Option<PathBuf> {
    available(make_python())
}

/// A Python interpreter with what tests the Python module, and the target directory in which the
/// module can be built.
pub(crate) fn python_for_the_module() -> Option<(PathBuf, PathBuf)> {
    available(make_python_for_the_module())
}

/// A Python interpreter with readers and writers of the formats of exports.
pub(crate) fn python_for_exports() -> Option<PathBuf> {
    available(make_python_of("python-exports", "exports/requirements.txt"))
}

/// The Go suite as a program.
pub(crate) fn go() -> Option<PathBuf> {
    available(make_go())
}

/// The Node suite beside the client that it pins: the directory to run it in.
pub(crate) fn node() -> Option<PathBuf> {
    if_possible(make_node())
}

/// The browser suite beside what it pins, and the browser that it drives.
pub(crate) fn browser() -> Option<(PathBuf, PathBuf)> {
    required_by("STELE_REQUIRE_BROWSER", &["1"], make_browser())
}

/// The Java suite, compiled: the directory to run it in, and the class path of its clients.
pub(crate) fn java() -> Option<(PathBuf, String)> {
    if_possible(make_java())
}

/// A Python interpreter with clients of PostgreSQL.
pub(crate) fn python_for_sql() -> Option<PathBuf> {
    available(make_python_of("python-sql", "sql/python/requirements.txt"))
}

/// The Go suite of the door for SQL as a program.
pub(crate) fn go_for_sql() -> Option<PathBuf> {
    available(make_go_of("go-sql", "sql/go"))
}

/// The Node suite of the door for SQL: the directory to run it in.
pub(crate) fn node_for_sql() -> Option<PathBuf> {
    if_possible(make_suite_of_node("node-sql", "sql/node"))
}

/// The Java suite of the door for SQL: the directory to run it in, and the class path of its clients.
pub(crate) fn java_for_sql() -> Option<(PathBuf, String)> {
    if_possible(make_java_of("java-sql", "sql/java"))
}

/// A program of PostgreSQL that the environment names by `variable`, or that is on the path.
pub(crate) fn postgresql(variable: &str, name: &str) -> Option<PathBuf> {
    let named = std::env::var_os(variable).map(PathBuf::from).or_else(|| on_path(name));
    if_possible(named.ok_or_else(|| format!("no {name}: none on the path, none in {variable}")))
}

/// The `cbt` tool: the pinned release if the module proxy has it, else the one on the path.
pub(crate) fn cbt() -> Option<PathBuf> {
    let cbt = make_cbt().or_else(|error| {
        on_path("cbt").ok_or_else(|| format!("no cbt: none on the path, and {error}"))
    });
    available(cbt)
}

fn make_python() -> Result<PathBuf, String> {
    make_python_of("python", "python/requirements.txt")
}

/// Returns an interpreter in the environment `name` with what the file `requirements` lists.
fn make_python_of(name: &str, requirements: &str) -> Result<PathBuf, String> {
    let version = version("python3", &["--version"])?;
    let requirements = sources().join(requirements);
    let stamp = format!("{version}\n{}", std::fs::read_to_string(&requirements).unwrap());
    let dir = once(name, &stamp, |dir| make_environment(dir, &requirements))?;
    Ok(dir.join("bin/python"))
}

fn make_python_for_the_module() -> Result<(PathBuf, PathBuf), String> {
    let mut stamp = version("python3", &["--version"])?;
    let requirements = sources().join("../../../python/requirements-dev.txt");
    let build_wheel = sources().join("../../../../scripts/build-wheel");
    for file in [&requirements, &build_wheel] {
        stamp += &std::fs::read_to_string(file).unwrap();
    }
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let dir = once("python-module", &stamp, |dir| {
        make_environment(dir, &requirements)?;
        let mut tools = Command::new(&build_wheel);
        run(tools.arg("--tools-only").env("CARGO_TARGET_DIR", target)).map(drop)
    })?;
    Ok((dir.join("bin/python"), target.to_owned()))
}

/// Makes an environment of Python in `dir` with what `requirements` lists.
fn make_environment(dir: &Path, requirements: &Path) -> Result<(), String> {
    run(Command::new("python3").args(["-m", "venv"]).arg(dir))?;
    let mut pip = Command::new(dir.join("bin/python"));
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]);
    run(pip.arg(requirements)).map(drop)
}

fn make_go() -> Result<PathBuf, String> {
    make_go_of("go", "go")
}

/// Returns the suite of Go in the directory `at`, as a program.
fn make_go_of(name: &str, at: &str) -> Result<PathBuf, String> {
    let stamp = version("go", &["version"])? + &text_of(at);
    let dir = once(name, &stamp, |dir| {
        let mut build = Command::new("go");
        build.args(["test", "-c", "-mod=readonly", "-o"]).arg(dir.join("suite"));
        run(build.arg(".").current_dir(sources().join(at))).map(drop)
    })?;
    Ok(dir.join("suite"))
}

fn make_node() -> Result<PathBuf, String> {
    make_suite_of_node("node", "node")
}

/// Returns the directory of a suite of Node, with the packages that it pins.
fn make_suite_of_node(name: &str, at: &str) -> Result<PathBuf, String> {
    let (node, npm) = (version("node", &["--version"])?, version("npm", &["--version"])?);
    let dir = once(name, &format!("{node} {npm}\n{}", text_of(at)), |dir| {
        copy_suite(at, dir);
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        run(npm.current_dir(dir.join("suite"))).map(drop)
    })?;
    Ok(dir.join("suite"))
}

fn make_browser() -> Result<(PathBuf, PathBuf), String> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let browser = names.into_iter().find_map(on_path).ok_or("no Chromium on the path")?;
    Ok((make_suite_of_node("browser", "browser")?, browser))
}

fn make_java() -> Result<(PathBuf, String), String> {
    make_java_of("java", "java")
}

/// Returns the directory of a suite of Java, compiled, and the class path of its clients.
fn make_java_of(name: &str, at: &str) -> Result<(PathBuf, String), String> {
    let (java, maven) = (version("java", &["--version"])?, version("mvn", &["--version"])?);
    let dir = once(name, &format!("{java}\n{maven}\n{}", text_of(at)), |dir| {
        copy_suite(at, dir);
        let mut maven = Command::new("mvn");
        maven.args(["-B", "-q", "test-compile", "dependency:build-classpath"]);
        maven.arg("-Dmdep.outputFile=classpath").current_dir(dir.join("suite"));
        run(&mut maven).map(drop)
    })?;
    let clients = std::fs::read_to_string(dir.join("suite/classpath")).unwrap();
    Ok((dir.join("suite"), format!("target/test-classes:{}", clients.trim())))
}

/// Copies a suite to `dir/suite` and the scenario beside it: tools of the language write there.
fn copy_suite(language: &str, dir: &Path) {
    let from = sources().join(language);
    for file in files_below(&from) {
        let to = dir.join("suite").join(file.strip_prefix(&from).unwrap());
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::copy(&file, to).unwrap();
    }
    std::fs::copy(sources().join("scenario.json"), dir.join("scenario.json")).unwrap();
}

/// Returns the text of all files of a suite and of the scenario.
fn text_of(language: &str) -> String {
    let mut files = files_below(&sources().join(language));
    files.push(sources().join("scenario.json"));
    files.iter().map(|file| std::fs::read_to_string(file).unwrap()).collect()
}

/// Returns all files below `dir`, in order.
fn files_below(dir: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> = entries.collect();
    paths.sort();
    let below = |path: PathBuf| if path.is_dir() { files_below(&path) } else { vec![path] };
    paths.into_iter().flat_map(below).collect()
}

fn make_cbt() -> Result<PathBuf, String> {
    let version = version("go", &["version"])?;
    let dir = once("cbt", &format!("{CBT} {version}"), |dir| {
        run(Command::new("go").args(["install", CBT]).env("GOBIN", dir)).map(drop)
    })?;
    Ok(dir.join("cbt"))
}

/// The first file called `name` in the directories of the search path.
pub(crate) fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// The tool, or nothing after saying why; a failure if tools are required.
fn available<T>(tool: Result<T, String>) -> Option<T> {
    required_by("STELE_REQUIRE_CLIENTS", &["1", "all"], tool)
}

/// The tool, or nothing after saying why; a failure if even the tools are required that the checks of a
/// change do without.
fn if_possible<T>(tool: Result<T, String>) -> Option<T> {
    required_by("STELE_REQUIRE_CLIENTS", &["all"], tool)
}

/// The tool. Without one, a failure if `variable` is among `values`, else nothing.
fn required_by<T>(variable: &str, values: &[&str], tool: Result<T, String>) -> Option<T> {
    let error = match tool {
        Ok(tool) => return Some(tool),
        Err(error) => error,
    };
    let required = std::env::var(variable).unwrap_or_default();
    assert!(!values.contains(&&*required), "{variable}={required}, but {error}");
    // The test harness hides what a passing test prints by macro.
    std::io::stderr().write_all(format!("SKIPPED: {error}\n").as_bytes()).unwrap();
    None
}

/// What `program` says of its version; the error names it.
fn version(program: &str, args: &[&str]) -> Result<String, String> {
    match Command::new(program).args(args).stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(format!("{program} does not run: {}", output.status)),
        Err(error) => Err(format!("no {program}: {error}")),
    }
}

/// The directory that `make` filled when `stamp` was as it is now.
fn once(
    name: &str,
    stamp: &str,
    make: impl FnOnce(&Path) -> Result<(), String>,
) -> Result<PathBuf, String> {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("../clients");
    std::fs::create_dir_all(&root).unwrap();
    let root = root.canonicalize().unwrap();
    let lock = File::create(root.join(format!("{name}.lock"))).unwrap();
    lock.lock().unwrap();
    let (dir, stamped) = (root.join(name), root.join(format!("{name}.stamp")));
    if std::fs::read_to_string(&stamped).is_ok_and(|made| made == stamp) {
        return Ok(dir);
    }
    for old in [std::fs::remove_file(&stamped), std::fs::remove_dir_all(&dir)] {
        old.or_else(|error| match error.kind() {
            std::io::ErrorKind::NotFound => Ok(()),
            _ => Err(error),
        })
        .unwrap();
    }
    std::fs::create_dir_all(&dir).unwrap();
    make(&dir)?;
    std::fs::write(&stamped, stamp).unwrap();
    Ok(dir)
}

/// Runs `command` to its end, within [`PATIENCE`], and gives all that it printed; an error if it
/// failed.
pub(crate) fn run(command: &mut Command) -> Result<String, String> {
    Running::start(command)?.finish()
}

/// A program that runs, and the file with all that it prints.
pub(crate) struct Running {
    command: String,
    child: Child,
    output: tempfile::NamedTempFile,
}

impl Running {
    /// Starts `command`, with nothing to read; an error if there is no such program.
    pub(crate) fn start(command: &mut Command) -> Result<Self, String> {
        let output = tempfile::NamedTempFile::new().unwrap();
        let appended = File::options().append(true).open(output.path()).unwrap();
        command.stdin(Stdio::null()).stdout(appended.try_clone().unwrap()).stderr(appended);
        let child = command.spawn().map_err(|error| format!("{command:?}: {error}"))?;
        Ok(Self { command: format!("{command:?}"), child, output })
    }

    /// Returns if the program has come to its end.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Returns all that the program has printed so far.
    pub(crate) fn printed(&self) -> String {
        String::from_utf8_lossy(&std::fs::read(self.output.path()).unwrap()).into_owned()
    }

    /// Waits for its end, within [`PATIENCE`], and returns all that it printed; an error if it failed.
    pub(crate) fn finish(mut self) -> Result<String, String> {
        let deadline = Instant::now() + PATIENCE;
        let verdict = loop {
            match self.child.try_wait().unwrap() {
                Some(status) if status.success() => break Ok(()),
                Some(status) => break Err(status.to_string()),
                None if Instant::now() > deadline => {
                    self.child.kill().unwrap();
                    self.child.wait().unwrap();
                    break Err(format!("not done after {PATIENCE:?}"));
                }
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let (command, printed) = (&self.command, self.printed());
        verdict.map(|()| printed.clone()).map_err(|error| format!("{command}: {error}\n{printed}"))
    }
}
