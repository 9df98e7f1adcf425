//! Read-only file system interface of the probes: the real one, a recording of one, and a recorder.

use std::{collections::BTreeMap, io, path::Path};

/// Read-only access to small kernel files. Every tier-0 probe goes through it, so that a recording can be replayed.
pub trait FileSystem: Sync {
    /// The text of a file; `None` when it cannot be read. Text that is not UTF-8 is read lossily.
    fn read(&self, path: &str) -> Option<String>;
    /// Names in a directory, sorted; empty when it cannot be read.
    fn list(&self, path: &str) -> Vec<String>;
    /// Last component of a symlink's target.
    fn link(&self, path: &str) -> Option<String>;
    /// Does the path exist?
    fn exists(&self, path: &str) -> bool;
    /// Modification time as an opaque number; only equality is meaningful.
    fn mtime(&self, path: &str) -> Option<u128>;
}

/// Read limit: no kernel file that a probe reads is larger; longer ones are truncated.
const LIMIT: u64 = 1 << 20;

/// The real file system.
#[derive(Debug, Default, Clone, Copy)]
pub struct RealFs;

impl FileSystem for RealFs {
    fn read(&self, path: &str) -> Option<String> {
        read_limited(Path::new(path)).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(path) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        std::fs::read_link(path).ok()?.file_name()?.to_str().map(str::to_owned)
    }

    fn exists(&self, path: &str) -> bool {
        Path::new(path).exists()
    }

    fn mtime(&self, path: &str) -> Option<u128> {
        let changed = std::fs::metadata(path).ok()?.modified().ok()?;
        changed.duration_since(std::time::UNIX_EPOCH).ok().map(|d| d.as_nanos())
    }
}

fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LIMIT).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A recorded file system: files and symlinks by absolute path. Directories are implied.
#[derive(Debug, Default, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct RecordedFs {
    /// Text by path.
    pub files: BTreeMap<String, String>,
    /// Last component of each link's target, by path.
    pub links: BTreeMap<String, String>,
}

impl RecordedFs {
    /// A recording of `(path, text)` pairs; for tests.
    pub fn of(files: &[(&str, &str)]) -> Self {
        let files = files.iter().map(|(p, t)| ((*p).to_owned(), (*t).to_owned())).collect();
        RecordedFs { files, links: BTreeMap::new() }
    }

    fn children(&self, path: &str) -> impl Iterator<Item = &str> {
        let prefix = format!("{}/", path.trim_end_matches('/'));
        let of = move |p: &str| p.starts_with(&prefix).then_some(prefix.len());
        self.files.keys().chain(self.links.keys()).filter_map(move |p| {
            let start = of(p)?;
            p.get(start..)?.split('/').next()
        })
    }
}

impl FileSystem for RecordedFs {
    fn read(&self, path: &str) -> Option<String> {
        self.files.get(path).cloned()
    }

    fn list(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = self.children(path).map(str::to_owned).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        self.links.get(path).cloned()
    }

    fn exists(&self, path: &str) -> bool {
        self.files.contains_key(path) || self.links.contains_key(path) || self.children(path).next().is_some()
    }

    fn mtime(&self, path: &str) -> Option<u128> {
        self.exists(path).then_some(0)
    }
}

/// Records everything that is read through it.
pub struct RecordingFs<'a> {
    inner: &'a dyn FileSystem,
    kept: std::sync::Mutex<RecordedFs>,
}

impl<'a> RecordingFs<'a> {
    /// Records what is read from `inner`.
    pub fn new(inner: &'a dyn FileSystem) -> Self {
        RecordingFs { inner, kept: std::sync::Mutex::default() }
    }

    /// Everything that was read so far.
    pub fn into_recording(self) -> RecordedFs {
        self.kept.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn keep(&self, change: impl FnOnce(&mut RecordedFs)) {
        change(&mut self.kept.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

impl FileSystem for RecordingFs<'_> {
    fn read(&self, path: &str) -> Option<String> {
        let text = self.inner.read(path)?;
        self.keep(|kept| drop(kept.files.insert(path.to_owned(), text.clone())));
        Some(text)
    }

    fn list(&self, path: &str) -> Vec<String> {
        let names = self.inner.list(path);
        // An entry that is never read must still be listed: it is recorded as an empty file.
        self.keep(|kept| {
            for name in &names {
                let entry = format!("{}/{name}", path.trim_end_matches('/'));
                if kept.children(&entry).next().is_none() {
                    kept.files.entry(entry).or_default();
                }
            }
        });
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        let target = self.inner.link(path)?;
        self.keep(|kept| drop(kept.links.insert(path.to_owned(), target.clone())));
        Some(target)
    }

    fn exists(&self, path: &str) -> bool {
        let there = self.inner.exists(path);
        if there {
            self.keep(|kept| {
                kept.files.entry(path.to_owned()).or_default();
            });
        }
        there
    }

    fn mtime(&self, path: &str) -> Option<u128> {
        self.inner.mtime(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_a_recording_are_implied() {
        let files = RecordedFs::of(&[("/sys/a/x", "1"), ("/sys/a/y/z", "2"), ("/sys/ab", "3")]);
        assert_eq!(files.list("/sys/a"), ["x", "y"]);
        assert!(files.exists("/sys/a/y") && !files.exists("/sys/a/q"));
        assert_eq!(files.read("/sys/ab").as_deref(), Some("3"));
    }
}
