//! What every end-to-end test needs: the binary in a sandbox of its own.

use std::{
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

/// Temporary directory with settings, cache and data of one test.
pub(crate) struct Sandbox {
    dir: tempfile::TempDir,
}

impl Sandbox {
    pub(crate) fn new() -> Self {
        Sandbox { dir: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The binary, isolated from the caller's environment.
    pub(crate) fn gpuforge(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpuforge"));
        command.args(args).stdin(std::process::Stdio::null());
        for variable in
            ["CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "NO_COLOR", "COLUMNS"]
        {
            command.env_remove(variable);
        }
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|n| n.starts_with("GPUFORGE_")) {
                command.env_remove(name);
            }
        }
        command
            .env("GPUFORGE_CONFIG", self.path("config.toml"))
            .env("GPUFORGE_CACHE_DIR", self.path("cache"))
            .env("GPUFORGE_DATA_DIR", self.path("data"));
        command
    }
}

/// Output and exit code of a run.
#[allow(dead_code, reason = "each test file uses its own part of this module")]
pub(crate) struct RunOutput {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(command: &mut Command) -> RunOutput {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    RunOutput { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

#[allow(dead_code, reason = "each test file uses its own part of this module")]
impl RunOutput {
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout:\n{}\nstderr:\n{}", self.stdout, self.stderr);
        self
    }

    pub(crate) fn json(self) -> Value {
        let ran = self.ok();
        serde_json::from_str(&ran.stdout).unwrap_or_else(|e| panic!("{e}:\n{}", ran.stdout))
    }
}

/// A recording of a small machine's kernel files.
#[allow(dead_code, reason = "each test file uses its own part of this module")]
pub(crate) fn recording(dir: &Path, files: &[(&str, &str)], links: &[(&str, &str)]) {
    let map = |pairs: &[(&str, &str)]| -> Value {
        pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), Value::from(*v)))
            .collect::<serde_json::Map<_, _>>()
            .into()
    };
    let recording = serde_json::json!({
        "version": 1, "written_by": "test", "os": "linux", "arch": "x86_64",
        "files": {"files": map(files), "links": map(links)},
        "reports": [], "warnings": [], "env": {}, "affinity": null,
    });
    std::fs::create_dir_all(dir).unwrap();
    std::fs::write(dir.join("recording.json"), recording.to_string()).unwrap();
}
