//! Usage history: components and buffer peaks of earlier runs, for warm-up prediction.

use std::{collections::VecDeque, fs, io::Write as _};

use gpuforge_runtime::memory;
use serde::{Deserialize, Serialize};

use crate::settings::UserPaths;

/// Version of the file.
const VERSION: u32 = 1;
/// Length of the history.
const RUNS: usize = 20;
const FILE: &str = "usage.json";
const MEMORY_FILE: &str = "memory.json";

/// Components used by each of the last runs, the newest last.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct History {
    version: u32,
    runs: VecDeque<Vec<String>>,
}

impl History {
    /// With one more run; the oldest beyond the limit goes.
    fn with(mut self, used: Vec<String>) -> Self {
        self.version = VERSION;
        self.runs.push_back(used);
        while self.runs.len() > RUNS {
            self.runs.pop_front();
        }
        self
    }
}

/// Components that at least half of the runs used, most used first; pure.
pub fn predict(history: &History) -> Vec<String> {
    let mut counts: Vec<(usize, String)> = Vec::new();
    for name in history.runs.iter().flatten() {
        match counts.iter_mut().find(|(_, known)| known == name) {
            Some((count, _)) => *count += 1,
            None => counts.push((1, name.clone())),
        }
    }
    counts.retain(|(count, _)| count * 2 >= history.runs.len());
    counts.sort_by_key(|(count, _)| std::cmp::Reverse(*count));
    counts.into_iter().map(|(_, name)| name).collect()
}

/// Loads the history; empty if there is no file or it does not parse. It is only an optimisation, so errors are ignored.
pub fn load(paths: &UserPaths) -> History {
    let text = fs::read_to_string(paths.data_dir.join(FILE)).unwrap_or_default();
    serde_json::from_str::<History>(&text).ok().filter(|h| h.version == VERSION).unwrap_or_default()
}

/// Appends a run. Concurrent writers may lose one: acceptable for a history.
pub fn remember(paths: &UserPaths, used: Vec<String>) {
    write(paths, FILE, &load(paths).with(used));
}

/// Buffer peaks of earlier runs, for preallocation.
pub fn load_memory(paths: &UserPaths) -> memory::AllocationHistory {
    let text = fs::read_to_string(paths.data_dir.join(MEMORY_FILE)).unwrap_or_default();
    let kept = serde_json::from_str::<Versioned<memory::AllocationHistory>>(&text).ok();
    kept.filter(|k| k.version == VERSION).map(|k| k.data).unwrap_or_default()
}

/// Adds the buffer peaks of a run.
pub fn remember_memory(paths: &UserPaths, peaks: &[memory::ClassPeak]) {
    let data = load_memory(paths).learn(peaks);
    write(paths, MEMORY_FILE, &Versioned { version: VERSION, data });
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    data: T,
}

/// Atomic write (temporary file and rename). An unwritable directory only costs the prediction.
fn write(paths: &UserPaths, name: &str, value: &impl Serialize) {
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(&paths.data_dir)?;
        let mut file = tempfile::NamedTempFile::new_in(&paths.data_dir)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.persist(paths.data_dir.join(name)).map_err(|e| e.error)?;
        Ok(())
    };
    let _ = written();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_of_half_of_the_runs_are_predicted() {
        let used = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
        let history = History::default()
            .with(used(&["a"]))
            .with(used(&["b", "a"]))
            .with(used(&["a", "c"]))
            .with(used(&["b"]));
        assert_eq!(predict(&history), ["a", "b"]);
        assert_eq!(predict(&History::default()), Vec::<String>::new());
        let long = (0..50).fold(History::default(), |h, _| h.with(used(&["x"])));
        assert_eq!(long.runs.len(), RUNS);
    }

    #[test]
    fn history_persists_and_a_corrupt_file_is_empty() {
        let dir = tempfile::tempdir().unwrap();
        let paths = UserPaths {
            config_file: dir.path().join("c"),
            cache_dir: dir.path().join("cache"),
            data_dir: dir.path().join("data"),
        };
        remember(&paths, vec!["device".into()]);
        assert_eq!(predict(&load(&paths)), ["device"]);
        fs::write(paths.data_dir.join(FILE), "{").unwrap();
        assert_eq!(load(&paths), History::default());
        let peak = memory::ClassPeak {
            class: memory::BlockClass::Storage,
            size: gpuforge_runtime::units::Bytes::kib(4),
            peak: 3,
        };
        remember_memory(&paths, &[peak]);
        assert_eq!(load_memory(&paths).peaks, [peak]);
        fs::write(paths.data_dir.join(MEMORY_FILE), [0xff; 9]).unwrap();
        assert_eq!(load_memory(&paths), memory::AllocationHistory::default());
    }
}
