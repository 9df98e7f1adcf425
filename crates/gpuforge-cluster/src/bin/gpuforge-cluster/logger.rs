//! Logger for DataFusion and Ballista: to stderr, when asked for.

use std::io::{self, Write as _};

use log::{LevelFilter, Log, Metadata, Record};

struct Stderr;

impl Log for Stderr {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &Record<'_>) {
        let level = record.level().as_str().to_lowercase();
        let _ = writeln!(io::stderr(), "{level}: {}: {}", record.target(), record.args());
    }

    fn flush(&self) {}
}

/// Off unless verbose: failures reach the user as errors, once.
pub(crate) fn start(verbose: bool) {
    if log::set_logger(&Stderr).is_ok() {
        log::set_max_level(if verbose { LevelFilter::Info } else { LevelFilter::Off });
    }
}
