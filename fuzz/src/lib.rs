//! Shared by the fuzz targets: panic policy, and the file that a reader opens.
//!
//! Readers run third-party decoders under `catch_unwind` and turn a panic into an error of the file. libFuzzer's own hook would
//! abort on those, so targets of readers install [`allow_decoder_panics`]: a panic in another crate may be caught, one in a
//! gpuforge crate is a finding even if it is, and one that nobody catches ends the process.

#[cfg(feature = "frame")]
pub mod reader;

use std::panic;

/// Source paths of our own crates in panic locations.
const OURS: &str = "crates/gpuforge";

/// Panics in third-party crates may be caught; those in our own abort.
pub fn allow_decoder_panics() {
    // Instead of libFuzzer's hook, which aborts at once.
    panic::set_hook(Box::new(|info| {
        if info.location().is_none_or(|at| at.file().contains(OURS)) {
            eprintln!("{info}\n{}", std::backtrace::Backtrace::force_capture());
            std::process::abort();
        }
    }));
}

/// Runs a target; a panic that nobody caught is printed and aborts.
pub fn must_not_panic<T>(work: impl FnOnce() -> T + panic::UnwindSafe) -> T {
    panic::catch_unwind(work).unwrap_or_else(|payload| {
        let words = payload.downcast_ref::<String>().map(String::as_str);
        let words = words.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
        eprintln!("a panic was not caught: {words}");
        std::process::abort();
    })
}
