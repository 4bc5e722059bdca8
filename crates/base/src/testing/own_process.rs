//! Tests that need a process of their own.
//!
//! The tests of one binary share the process: its epochs, its descriptors, its memory. A thread of
//! another test that the system stopped while it was pinned keeps evicted blocks from being freed,
//! so a test that counts blocks or bytes would depend on the others and on the load of the machine.

use std::any::type_name_of_val;
use std::process::Command;

/// Set in the processes that [`in_own_process`] starts.
const ALONE: &str = "STELE_TEST_ALONE";

/// Runs `test`, which is a closure in the body of a test function, in a process in which no other
/// test runs: the test's own binary, started again for this test alone. Under Miri, which starts no
/// processes, it runs here.
///
/// Panics with the output of that process if the test fails there, or if it ran no test.
pub fn in_own_process(test: impl FnOnce()) {
    if cfg!(miri) || std::env::var_os(ALONE).is_some() {
        return test();
    }
    let name = test_of(type_name_of_val(&test));
    let binary = std::env::current_exe().expect("a process knows its binary");
    let output = Command::new(binary)
        .args(["--exact", &name, "--test-threads=1", "--nocapture"])
        .env(ALONE, "1")
        .output()
        .expect("a test's binary can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    let passed = output.status.success() && text.contains("1 passed");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(passed, "{name}, in a process of its own: {}\n{text}{errors}", output.status);
}

/// The test's name as the harness has it, of the name of a closure's type: without the crate and
/// without the closure.
fn test_of(closure: &str) -> String {
    let path = closure.split_once("::").map_or(closure, |(_, path)| path);
    path.split("::{{closure}}").next().unwrap_or(path).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_test_runs_once_in_another_process() {
        let here = std::process::id();
        // Of the process that the test begins in, its child is told by the environment.
        in_own_process(|| {
            assert!(std::env::var_os(ALONE).is_some(), "not in {here}");
        });
    }

    #[test]
    fn a_failure_there_is_a_failure_here() {
        if std::env::var_os(ALONE).is_some() {
            in_own_process(|| panic!("as it should"));
        }
        let failed = std::panic::catch_unwind(|| in_own_process(|| ()));
        let message = failed.expect_err("the child fails");
        let message = message.downcast_ref::<String>().expect("a message");
        assert!(message.contains("as it should"), "{message}");
    }
}
