//! How does a user ask for a trace without changing code? `GPUFORGE_TRACE=file` in the environment.

use crate::{error::TraceError, profiler::Profiler};
use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

/// Names the file a trace goes to.
pub const TRACE_VARIABLE: &str = "GPUFORGE_TRACE";

/// Writes the trace of a profiler to a file when dropped.
///
/// Only binaries print, so a failure in drop is silent; call [`TraceGuard::finish`] to learn of it.
#[derive(Debug)]
#[must_use = "the trace is written when the guard is dropped: keep it until the work is done"]
pub struct TraceGuard {
    profiler: Profiler,
    path: Option<PathBuf>,
}

/// Switches the global profiler on if the environment names a file; `env` looks a variable up.
///
/// The form of the file follows its name, see [`Format::of`](crate::Format::of).
pub fn trace_from_env(env: impl Fn(&str) -> Option<OsString>) -> Option<TraceGuard> {
    let path = env(TRACE_VARIABLE).filter(|value| !value.is_empty())?;
    Some(TraceGuard::new(Profiler::global().clone(), path.into()))
}

impl TraceGuard {
    /// Switches `profiler` on; its trace goes to `path`.
    pub fn new(profiler: Profiler, path: PathBuf) -> TraceGuard {
        profiler.enable();
        TraceGuard { profiler, path: Some(path) }
    }

    /// Where the trace will go.
    pub fn path(&self) -> &Path {
        self.path.as_deref().unwrap_or(Path::new(""))
    }

    /// Switches the profiler off and writes its trace now; says where it is, or what went wrong.
    pub fn finish(mut self) -> Result<PathBuf, TraceError> {
        let path = self.path.take().unwrap_or_default();
        self.write(&path)?;
        Ok(path)
    }

    fn write(&self, path: &Path) -> Result<(), TraceError> {
        self.profiler.disable();
        // A snapshot: somebody else may still want the spans.
        self.profiler.snapshot().write_file(path)
    }
}

impl Drop for TraceGuard {
    fn drop(&mut self) {
        if let Some(path) = self.path.take() {
            // Nobody is left to tell; `finish` is for those who want to know.
            self.write(&path).ok();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{category::Category, trace::Trace};

    #[test]
    fn nothing_happens_without_the_variable_or_with_an_empty_one() {
        assert!(trace_from_env(|_| None).is_none());
        assert!(trace_from_env(|_| Some(OsString::new())).is_none());
    }

    #[test]
    fn the_trace_is_written_on_drop_and_on_finish() {
        let folder = tempfile::tempdir().unwrap();
        let profiler = Profiler::new();
        let path = folder.path().join("a.json");
        let guard = TraceGuard::new(profiler.clone(), path.clone());
        assert_eq!(guard.path(), path);
        drop(profiler.span("work", Category::Cpu));
        drop(guard);
        assert!(!profiler.is_enabled());
        assert_eq!(Trace::read_file(&path).unwrap().spans.len(), 1);
        let path = folder.path().join("a.trace.json");
        assert_eq!(TraceGuard::new(profiler.clone(), path.clone()).finish().unwrap(), path);
        assert!(std::fs::read_to_string(&path).unwrap().contains("traceEvents"));
    }

    #[test]
    fn a_failure_is_told_by_finish_and_swallowed_by_drop() {
        let path = PathBuf::from("/nonexistent-folder/a.json");
        drop(TraceGuard::new(Profiler::new(), path.clone()));
        assert!(TraceGuard::new(Profiler::new(), path).finish().is_err());
    }

    #[test]
    fn a_panic_still_leaves_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
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
