//! `GPUFORGE_TRACE=file`: records a trace without code changes.

use crate::{error::TraceError, profiler::Profiler};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Environment variable with the path of the trace file.
pub const TRACE_VARIABLE: &str = "GPUFORGE_TRACE";

/// Writes the trace of a profiler to a file when dropped.
///
/// Only binaries print, so a failure in drop is silent; call [`TraceGuard::finish`] to get the error.
#[derive(Debug)]
#[must_use = "the trace is written when the guard is dropped: keep it until the work is done"]
pub struct TraceGuard {
    profiler: Profiler,
    path: Option<PathBuf>,
}

/// Enables the global profiler if the variable is set; `env` looks up a variable.
///
/// The file name determines the format, see [`TraceFormat::of`](crate::TraceFormat::of).
pub fn trace_from_env(env: impl Fn(&str) -> Option<OsString>) -> Option<TraceGuard> {
    let path = env(TRACE_VARIABLE).filter(|value| !value.is_empty())?;
    Some(TraceGuard::new(Profiler::global().clone(), path.into()))
}

impl TraceGuard {
    /// Enables `profiler`; its trace is written to `path`.
    pub fn new(profiler: Profiler, path: PathBuf) -> TraceGuard {
        profiler.enable();
        TraceGuard { profiler, path: Some(path) }
    }

    /// Path of the trace file.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Disables the profiler and writes its trace now; returns the path.
    pub fn finish(mut self) -> Result<PathBuf, TraceError> {
        let path = self.path.take().unwrap_or_default();
        self.write(&path)?;
        Ok(path)
    }

    fn write(&self, path: &Path) -> Result<(), TraceError> {
        self.profiler.disable();
        // A snapshot: another consumer may still drain the spans.
        self.profiler.snapshot().write_file(path)
    }
}

impl Drop for TraceGuard {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // Errors cannot be returned from drop; `finish` returns them.
            self.write(&path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{category::Category, trace::Trace};

    #[test]
    fn unset_or_empty_variable_does_nothing() {
        assert!(trace_from_env(|_| None).is_none());
        assert!(trace_from_env(|_| Some(OsString::new())).is_none());
    }

    #[test]
    fn trace_is_written_on_drop_and_on_finish() {
        let directory = tempfile::tempdir().unwrap();
        let profiler = Profiler::new();
        let path = directory.path().join("a.json");
        let guard = TraceGuard::new(profiler.clone(), path.clone());
        assert_eq!(guard.path(), path);
        drop(profiler.span("work", Category::Cpu));
        drop(guard);
        assert!(!profiler.is_enabled());
        assert_eq!(Trace::read_file(&path).unwrap().spans.len(), 1);
        let path = directory.path().join("a.trace.json");
        assert_eq!(TraceGuard::new(profiler.clone(), path.clone()).finish().unwrap(), path);
        assert!(std::fs::read_to_string(&path).unwrap().contains("traceEvents"));
    }

    #[test]
    fn finish_returns_errors_and_drop_ignores_them() {
        let path = PathBuf::from("/nonexistent-directory/a.json");
        drop(TraceGuard::new(Profiler::new(), path.clone()));
        assert!(TraceGuard::new(Profiler::new(), path).finish().is_err());
    }

    #[test]
    fn trace_is_written_during_a_panic() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.json");
        let caught = std::panic::catch_unwind(|| {
            let profiler = Profiler::new();
            let _guard = TraceGuard::new(profiler.clone(), path.clone());
            let _span = profiler.span("doomed", Category::Cpu);
            panic!("on purpose");
        });
        assert!(caught.is_err());
        assert_eq!(Trace::read_file(&path).unwrap().names, ["doomed"]);
    }
}
