//! Which parts did earlier runs use? A short history that decides what is worth warming up.

use std::{collections::VecDeque, fs, io::Write as _};

use gpuforge_runtime::memory;
use serde::{Deserialize, Serialize};

use crate::settings::Places;

/// Version of the file.
const VERSION: u32 = 1;
/// Runs that are remembered.
const RUNS: usize = 20;
const FILE: &str = "usage.json";
const MEMORY_FILE: &str = "memory.json";

/// Parts used by each of the last runs, the newest last.
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

/// Parts that at least half of the remembered runs used, most used first; pure.
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

/// What is remembered; nothing when there is no file or it does not parse. It only speeds things up, so that nobody
/// needs to be told.
pub fn load(places: &Places) -> History {
    let text = fs::read_to_string(places.data_dir.join(FILE)).unwrap_or_default();
    serde_json::from_str::<History>(&text).ok().filter(|h| h.version == VERSION).unwrap_or_default()
}

/// Adds a run. Two at once may lose one of them: a history needs no more.
pub fn remember(places: &Places, used: Vec<String>) {
    write(places, FILE, &load(places).with(used));
}

/// Buffers that earlier runs needed at once, for making them ahead.
pub fn load_memory(places: &Places) -> memory::History {
    let text = fs::read_to_string(places.data_dir.join(MEMORY_FILE)).unwrap_or_default();
    let kept = serde_json::from_str::<Versioned<memory::History>>(&text).ok();
    kept.filter(|k| k.version == VERSION).map(|k| k.data).unwrap_or_default()
}

/// Adds what a run needed at once.
pub fn remember_memory(places: &Places, peaks: &[memory::ClassPeak]) {
    let data = load_memory(places).learn(peaks);
    write(places, MEMORY_FILE, &Versioned { version: VERSION, data });
}

#[derive(Serialize, Deserialize)]
struct Versioned<T> {
    version: u32,
    data: T,
}

/// Writes whole files only. A folder that cannot be written costs the prediction, nothing else.
fn write(places: &Places, name: &str, value: &impl Serialize) {
    let written = || -> std::io::Result<()> {
        fs::create_dir_all(&places.data_dir)?;
        let mut file = tempfile::NamedTempFile::new_in(&places.data_dir)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.persist(places.data_dir.join(name)).map_err(|e| e.error)?;
        Ok(())
    };
    let _ = written();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_half_of_the_runs_used_is_predicted() {
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
    fn it_is_kept_and_a_broken_file_is_an_empty_history() {
        let dir = tempfile::tempdir().unwrap();
        let places = Places {
            config_file: dir.path().join("c"),
            cache_dir: dir.path().join("cache"),
            data_dir: dir.path().join("data"),
        };
        remember(&places, vec!["device".into()]);
        assert_eq!(predict(&load(&places)), ["device"]);
        fs::write(places.data_dir.join(FILE), "{").unwrap();
        assert_eq!(load(&places), History::default());
        let peak = memory::ClassPeak {
            class: memory::BlockClass::Storage,
            size: gpuforge_runtime::units::Bytes::kib(4),
            peak: 3,
        };
        remember_memory(&places, &[peak]);
        assert_eq!(load_memory(&places).peaks, [peak]);
        fs::write(places.data_dir.join(MEMORY_FILE), [0xff; 9]).unwrap();
        assert_eq!(load_memory(&places), memory::History::default());
    }
}
