//! The engine inside Python: the wheel is built, installed, compared with its stubs, and tested by
//! the suite and the tour of crates/python.

use crate::setup;
use engine::{
    Column, Engine, FamilyId, Options, Owner, Timestamp, TreeId, TreeOptions, WriteBatch,
};
use std::path::Path;
use std::process::Command;

#[test]
fn the_python_module_works_and_is_as_its_stubs_say() {
    let Some((python, target)) = setup::python_for_the_module() else { return };
    let module = setup::sources().join("../../../python").canonicalize().unwrap();
    let wheels = tempfile::tempdir().unwrap();
    let mut build = Command::new(module.join("../../scripts/build-wheel"));
    build.arg("--debug").arg("--out").arg(wheels.path()).env("CARGO_TARGET_DIR", &target);
    run("the build of the wheel", &mut build);
    let wheel = std::fs::read_dir(wheels.path()).unwrap().next().expect("a wheel").unwrap();

    let mut install = Command::new(&python);
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
    install.args(["--no-index", "--no-deps", "--force-reinstall"]).arg(wheel.path());
    run("the wheel's installation", &mut install);

    let (tests, examples) = (module.join("tests"), module.join("examples"));
    let away = wheels.path();
    make_servers_store(&away.join(SERVERS_STORE));
    in_python(&python, away, &["pytest", "-q", "-x", "-p", "no:cacheprovider"], &[&tests]);
    // Names, arguments and defaults of the stubs in the wheel against those of its module, and
    // their types against how the suite and the tour use them.
    let allowed = tests.join("stubtest-allowlist.txt");
    in_python(&python, away, &["mypy.stubtest", "stele", "--allowlist"], &[&allowed]);
    in_python(&python, away, &["mypy", "--strict"], &[&tests, &examples]);
}

/// Where the suite finds a server's store: the module itself cannot make one.
const SERVERS_STORE: &str = "servers-store";

/// Makes the store of a server, with a cell in a tree.
fn make_servers_store(dir: &Path) {
    let tree = TreeId(16);
    let engine = Engine::open_with_env(base::env::Env::real(1), dir, Options::default()).unwrap();
    engine.claim(Owner::Server).unwrap();
    engine.create_tree(tree, TreeOptions::default()).unwrap();
    let mut batch = WriteBatch::new();
    batch.put(b"row", Column::of(FamilyId(1), b"q"), Timestamp(1), b"value");
    engine.tree(tree).unwrap().write(&batch).unwrap();
    engine.close().unwrap();
}

/// Runs a module of Python with `args` and `paths`, in `away`: not in the crate, whose stubs would
/// be found before those of the wheel.
fn in_python(python: &Path, away: &Path, args: &[&str], paths: &[&Path]) {
    let mut command = Command::new(python);
    command.arg("-m").args(args).args(paths).current_dir(away);
    command.env("SERVERS_STORE", away.join(SERVERS_STORE));
    run(&args.join(" "), command.env("PYTHONDONTWRITEBYTECODE", "1"));
}

fn run(what: &str, command: &mut Command) {
    if let Err(error) = setup::run(command) {
        panic!("{what}: {error}");
    }
}
