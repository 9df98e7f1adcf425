//! GPU adapter of a test: opened, or the test is skipped; a failure where the environment requires an adapter.
//!
//! ```text
//! let Some(gpu) = adapter::open_or_skip(&GpuOpener::default()) else { return };
//! ```
//!
//! Every test that needs an adapter gets it here, so that "no adapter" is decided, printed and counted in one place. Not
//! chosen: `#[ignore]`, which is decided at compile time; counting `skipped:` in the output, which cargo-nextest hides for
//! tests that pass.

use std::{
    collections::BTreeSet, env, ffi::OsStr, fmt::Display, fs::OpenOptions, io::Write as _, path::PathBuf,
    sync::Mutex, thread,
};

use gpuforge_runtime::engine::{
    EngineError,
    gpu::{GpuEngine, GpuOpener},
};

/// `1`: a test without an adapter fails instead of being skipped.
pub const REQUIRE_VARIABLE: &str = "GPUFORGE_REQUIRE_ADAPTER";

/// Names a file to which each test appends `ran` or `skipped`, its binary and its name, separated by tabs.
pub const LOG_VARIABLE: &str = "GPUFORGE_ADAPTER_LOG";

/// What a test did about its adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum AdapterUse {
    Ran,
    Skipped,
}

/// Opens an adapter. `None`, with a line that says so, where there is none.
///
/// # Panics
/// If there is an adapter that cannot be opened, or none where [`REQUIRE_VARIABLE`] is `1`.
#[track_caller]
pub fn open_or_skip(opener: &GpuOpener) -> Option<GpuEngine> {
    match GpuEngine::open_with(opener) {
        Err(error) if !matches!(error, EngineError::Unavailable { .. }) => fail(&error.to_string()),
        opened => or_skip(opened),
    }
}

/// The same for what opened an adapter by other means: a runner, a session, a command in a child process.
///
/// # Panics
/// On an error where [`REQUIRE_VARIABLE`] is `1`.
#[track_caller]
pub fn or_skip<T, E: Display>(opened: Result<T, E>) -> Option<T> {
    match opened {
        Ok(adapter) => {
            record(AdapterUse::Ran);
            Some(adapter)
        }
        Err(error) if is_required(env::var_os(REQUIRE_VARIABLE).as_deref()) => fail(&format!(
            "no GPU adapter, and {REQUIRE_VARIABLE}=1 requires one: {error}\nhint: install a Vulkan driver (Debian: \
             mesa-vulkan-drivers); {REQUIRE_VARIABLE}=0 skips the tests that need one"
        )),
        Err(_) => {
            if record(AdapterUse::Skipped) {
                say(&format!("skipped: {} (no GPU adapter)", test_name()));
            }
            None
        }
    }
}

/// The tests run without an adapter unless the variable is `1`, like the other switches.
fn is_required(value: Option<&OsStr>) -> bool {
    value.is_some_and(|value| value == "1")
}

#[track_caller]
#[allow(clippy::panic, reason = "a test fails")]
fn fail(why: &str) -> ! {
    panic!("{}: {why}", test_name())
}

#[allow(clippy::print_stdout, reason = "the output of a test, captured by its runner")]
fn say(line: &str) {
    println!("{line}");
}

/// Appends to the log; false if this process has recorded the same before: a test may ask for its adapter in a loop.
fn record(adapter_use: AdapterUse) -> bool {
    static RECORDED: Mutex<BTreeSet<(AdapterUse, String)>> = Mutex::new(BTreeSet::new());
    let test = test_name();
    let mut recorded = RECORDED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if !recorded.insert((adapter_use, test.clone())) {
        return false;
    }
    drop(recorded);
    let Some(path) = env::var_os(LOG_VARIABLE).filter(|path| !path.is_empty()) else { return true };
    let word = match adapter_use {
        AdapterUse::Ran => "ran",
        AdapterUse::Skipped => "skipped",
    };
    let line = format!("{word}\t{}\t{test}\n", binary_name());
    let written = OpenOptions::new()
        .append(true)
        .create(true)
        .open(&path)
        .and_then(|mut f| f.write_all(line.as_bytes()));
    if let Err(error) = written {
        fail(&format!("{LOG_VARIABLE}: {}: {error}", PathBuf::from(path).display()));
    }
    true
}

/// Name of the running test: libtest names its thread after it. With `--test-threads=1` the thread is `main`, and a worker
/// of the test's own has any name or none; then the one test that the runner asked for, else `?`.
fn test_name() -> String {
    let asked = || env::args().skip_while(|argument| argument != "--exact").nth(1);
    let own = thread::current().name().filter(|name| *name != "main").map(str::to_owned);
    own.or_else(asked).unwrap_or_else(|| "?".to_owned())
}

/// The test binary, with the hash that tells it from one of the same name in another crate.
fn binary_name() -> String {
    let path = env::current_exe().unwrap_or_default();
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may fail")]
    use super::*;

    #[test]
    fn only_one_requires_an_adapter() {
        assert!(is_required(Some(OsStr::new("1"))));
        for value in [None, Some(""), Some("0"), Some("true")] {
            assert!(!is_required(value.map(OsStr::new)), "{value:?}");
        }
    }

    #[test]
    fn a_test_is_named_by_its_thread() {
        let named = thread::Builder::new().name("module::test".to_owned()).spawn(test_name).unwrap();
        assert_eq!(named.join().unwrap(), "module::test");
    }
}
