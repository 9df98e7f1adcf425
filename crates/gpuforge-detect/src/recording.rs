//! Record/replay: everything the probes read, as one JSON file to replay on another machine, with personal data redacted.
//!
//! The file is `recording.json` in the directory that the user names. Omitted or redacted: serial numbers, device UUIDs,
//! host and user names, mount paths and cgroup names.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use crate::{
    model::{ProbeReport, Warning},
    overrides::Env,
    probe::{Tier1, filesystem::RecordedFs},
};

/// Version of the file.
const VERSION: u32 = 1;
/// Name of the file in the directory.
pub const FILE: &str = "recording.json";
/// Environment variables that change the inventory; no other is recorded.
const VARIABLES: [&str; 8] = [
    "CUDA_VISIBLE_DEVICES",
    "HIP_VISIBLE_DEVICES",
    "ROCR_VISIBLE_DEVICES",
    "GPUFORGE_DEVICE",
    "GPUFORGE_CPU_ONLY",
    "KUBERNETES_SERVICE_HOST",
    "container",
    "APPTAINER_CONTAINER",
];

/// Input of a detection: kernel files, tier-1 reports, environment variables.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recording {
    /// Version of this format.
    pub version: u32,
    /// Version of the program that wrote it.
    pub written_by: String,
    /// `linux`, `macos`, `windows`.
    pub os: String,
    /// Instruction set.
    pub arch: String,
    /// Kernel files.
    pub files: RecordedFs,
    /// Tier-1 probe reports.
    pub reports: Vec<ProbeReport>,
    /// Tier-1 warnings.
    pub warnings: Vec<Warning>,
    /// Environment variables that affect the inventory.
    pub env: BTreeMap<String, String>,
    /// CPUs in the affinity mask of the process.
    pub affinity: Option<u32>,
}

/// Why a recording cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The file system says no.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// What it said.
        source: io::Error,
    },
    /// It is not a recording.
    #[error("{} is not a recording of `gpuforge detect --record`: {why}", path.display())]
    Format {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: String,
    },
}

impl Recording {
    /// Builds a recording and redacts personal data.
    pub fn new(files: RecordedFs, tier1: &Tier1, affinity: Option<u32>, env: Env<'_>) -> Self {
        let mut reports = tier1.reports.clone();
        for gpu in reports.iter_mut().flat_map(|r| r.gpus.iter_mut()) {
            gpu.uuid = None;
        }
        let kept = |name: &&str| env(name).map(|value| ((*name).to_owned(), mask_words(&value)));
        Recording {
            version: VERSION,
            written_by: env!("CARGO_PKG_VERSION").to_owned(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            files: mask_files(files),
            reports,
            warnings: tier1.warnings.clone(),
            env: VARIABLES.iter().filter_map(kept).collect(),
            affinity,
        }
    }

    /// Writes it into `dir`, which is created; an earlier recording is replaced atomically.
    pub fn save(&self, dir: &Path) -> Result<PathBuf, RecordError> {
        let path = dir.join(FILE);
        let io = |source| RecordError::Io { path: path.clone(), source };
        fs::create_dir_all(dir).map_err(io)?;
        let mut file = tempfile::NamedTempFile::new_in(dir).map_err(io)?;
        serde_json::to_writer_pretty(&mut file, self).map_err(|e| io(e.into()))?;
        file.persist(&path).map_err(|e| io(e.error))?;
        Ok(path)
    }

    /// Reads the one in `dir` (or the file itself).
    pub fn load(dir: &Path) -> Result<Self, RecordError> {
        let path = if dir.is_dir() { dir.join(FILE) } else { dir.to_owned() };
        let bytes = fs::read(&path).map_err(|source| RecordError::Io { path: path.clone(), source })?;
        let format = |why: String| RecordError::Format { path: path.clone(), why };
        let recording: Recording = serde_json::from_slice(&bytes).map_err(|e| format(e.to_string()))?;
        if recording.version > VERSION {
            return Err(format(format!(
                "it has version {}, this program reads up to {VERSION}",
                recording.version
            )));
        }
        Ok(recording)
    }
}

/// Redacts users, hosts and device identifiers in kernel files.
fn mask_files(files: RecordedFs) -> RecordedFs {
    let groups = group_names(files.files.get("/proc/self/cgroup").map_or("", String::as_str));
    let mut masked = RecordedFs { files: BTreeMap::new(), links: files.links };
    let mut serials = BTreeMap::new();
    for (path, text) in files.files {
        let text = match path.as_str() {
            "/proc/self/cgroup" | "/proc/1/cgroup" => rename_parts(&text, &groups),
            "/proc/self/mountinfo" => rename_parts(&only_cgroups(&text), &groups),
            "/proc/version" => text.split_whitespace().take(3).collect::<Vec<_>>().join(" "),
            _ if path.ends_with("/information") => mask_lines(&text, &["GPU UUID"]),
            _ if path.contains("/kfd/") => mask_unique_ids(&text, &mut serials),
            _ => text,
        };
        let path = if path.starts_with("/sys/fs/cgroup") { rename_parts(&path, &groups) } else { path };
        masked.files.insert(path, text);
    }
    masked
}

/// Cgroup path components may name a user or a container; each becomes an ordinal.
fn group_names(cgroup: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for line in cgroup.lines() {
        let path = line.splitn(3, ':').nth(2).unwrap_or("");
        for part in path.split('/').filter(|p| !p.is_empty() && *p != "..") {
            let next = format!("group{}", names.len() + 1);
            names.entry(part.to_owned()).or_insert(next);
        }
    }
    names
}

fn rename_parts(text: &str, names: &BTreeMap<String, String>) -> String {
    let is_end = |c: char| c == '/' || c.is_whitespace();
    let mut out = String::with_capacity(text.len());
    for piece in text.split_inclusive(is_end) {
        let word = piece.trim_end_matches(is_end);
        out.push_str(names.get(word).map_or(word, String::as_str));
        out.push_str(piece.get(word.len()..).unwrap_or(""));
    }
    out
}

/// Mount points reveal users and paths; only cgroup mounts are kept.
fn only_cgroups(mountinfo: &str) -> String {
    mountinfo.lines().filter(|l| l.contains(" - cgroup")).map(|l| format!("{l}\n")).collect()
}

fn mask_lines(text: &str, keys: &[&str]) -> String {
    let line = |line: &str| match keys.iter().find(|key| line.trim_start().starts_with(**key)) {
        Some(key) => format!("{key}: \t masked\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// Serial numbers of AMD cards become ordinals: two nodes with the same serial are partitions of one card.
fn mask_unique_ids(text: &str, serials: &mut BTreeMap<String, usize>) -> String {
    let mut line = |line: &str| match line.trim().strip_prefix("unique_id ") {
        Some("0") | None => format!("{line}\n"),
        Some(serial) => {
            let next = serials.len() + 1;
            format!("unique_id {}\n", serials.entry(serial.to_owned()).or_insert(next))
        }
    };
    text.lines().map(&mut line).collect()
}

/// A variable may name a device by its UUID.
fn mask_words(value: &str) -> String {
    let word = |w: &str| {
        if w.starts_with("GPU-") || w.starts_with("MIG-") { "masked".to_owned() } else { w.to_owned() }
    };
    value.split(',').map(word).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn personal_data_is_redacted_and_limits_survive() {
        let files = RecordedFs::of(&[
            ("/proc/self/cgroup", "0::/user.slice/alice.scope\n"),
            ("/sys/fs/cgroup/user.slice/alice.scope/cpu.max", "200000 100000\n"),
            (
                "/proc/self/mountinfo",
                "1 2 0:3 / /home/alice rw - ext4 /dev/a rw\n9 2 0:4 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
            ),
            ("/proc/driver/nvidia/gpus/0/information", "Model: \t X\nGPU UUID: \t GPU-123\n"),
            ("/sys/class/kfd/kfd/topology/nodes/1/properties", "simd_count 8\nunique_id 991\n"),
            ("/sys/class/kfd/kfd/topology/nodes/2/properties", "simd_count 8\nunique_id 991\n"),
            ("/proc/version", "Linux version 6.1.0 (root@buildhost) gcc\n"),
        ]);
        let masked = mask_files(files);
        let all = format!("{masked:?}");
        for word in ["alice", "GPU-123", "991", "buildhost"] {
            assert!(!all.contains(word), "{word} in {all}");
        }
        assert_eq!(masked.files["/sys/fs/cgroup/group1/group2/cpu.max"], "200000 100000\n");
        assert_eq!(masked.files["/proc/self/cgroup"], "0::/group1/group2\n");
        let node = |n: u8| &masked.files[&format!("/sys/class/kfd/kfd/topology/nodes/{n}/properties")];
        assert_eq!(node(1), node(2));
        assert_eq!(mask_words("0,GPU-55"), "0,masked");
    }
}
