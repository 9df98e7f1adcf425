//! System view of a doctor check: a root directory, environment variables, a clock, and system queries.
//!
//! Every check is a function of a [`SystemView`], so that a simulated machine is a directory: kernel files, device nodes, libraries,
//! packages and tools are looked up under the root, the user in its `/proc/self/status`, names in its `/etc`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use gpuforge_detect::{
    probe::filesystem::FileSystem,
    snapshot::{MacosSnapshot, WindowsSnapshot},
};
use gpuforge_os::files::is_executable;

use super::{
    host_facts::HostFacts,
    system::{DiskSpace, NodePermissions, RealSystem, System},
    tool::{self, ToolOutput},
};
use crate::compat::{self, CompatTable};

/// Read limit: no file that a check reads is larger; longer ones are truncated.
const LIMIT: u64 = 1 << 20;

/// Max symlinks followed; a longer chain is a loop.
const MAX_SYMLINKS: usize = 16;

/// Deadline of a tool; below that of a check, so that the check can report the timeout.
pub const TOOL_LIMIT: Duration = Duration::from_millis(1500);

/// A machine as seen by a check.
pub struct SystemView {
    root: PathBuf,
    env: BTreeMap<String, String>,
    system: Box<dyn System>,
    now: SystemTime,
    tools: bool,
    table: OnceLock<CompatTable>,
    indexes: Option<Vec<String>>,
    offline: bool,
    deep: bool,
    host_facts: OnceLock<HostFacts>,
    windows: OnceLock<Option<WindowsSnapshot>>,
    macos: OnceLock<Option<MacosSnapshot>>,
}

/// Operating system of the viewed machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ViewOs {
    /// Linux, and every other system with kernel files.
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
}

impl SystemView {
    /// This machine, with the environment of this process.
    pub fn live() -> Self {
        // A variable that is not UTF-8 counts as unset.
        let env =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        SystemView::rooted_at("/", env.collect())
    }

    /// The machine whose files are under `root`, with these environment variables.
    pub fn rooted_at(root: impl Into<PathBuf>, env: BTreeMap<String, String>) -> Self {
        SystemView {
            root: root.into(),
            env,
            system: Box::new(RealSystem),
            now: SystemTime::now(),
            tools: true,
            table: OnceLock::new(),
            indexes: None,
            offline: false,
            deep: false,
            host_facts: OnceLock::new(),
            windows: OnceLock::new(),
            macos: OnceLock::new(),
        }
    }

    /// With other system queries; for simulated machines.
    pub fn with_system(self, system: impl System + 'static) -> Self {
        SystemView { system: Box::new(system), ..self }
    }

    /// With another clock.
    pub fn with_now(self, now: SystemTime) -> Self {
        SystemView { now, ..self }
    }

    /// With another compatibility table than the embedded one.
    pub fn with_table(self, table: CompatTable) -> Self {
        SystemView { table: OnceLock::from(table), ..self }
    }

    /// With these package index URLs instead of those of the table.
    pub fn with_indexes(self, indexes: Vec<String>) -> Self {
        SystemView { indexes: Some(indexes), ..self }
    }

    /// Without network access.
    pub fn offline(self, offline: bool) -> Self {
        SystemView { offline, ..self }
    }

    /// With frameworks imported, which takes seconds.
    pub fn deep(self, deep: bool) -> Self {
        SystemView { deep, ..self }
    }

    /// Without running programs: those under a foreign root are not trusted.
    pub fn without_tools(self) -> Self {
        SystemView { tools: false, ..self }
    }

    /// Current time.
    pub fn now(&self) -> SystemTime {
        self.now
    }

    /// Is network access disabled?
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Are frameworks imported?
    pub fn is_deep(&self) -> bool {
        self.deep
    }

    /// The compatibility table.
    pub fn table(&self) -> &CompatTable {
        self.table.get_or_init(compat::embedded)
    }

    /// URLs of the package indexes to test.
    pub fn indexes(&self) -> Vec<String> {
        let table = || {
            let named = self.table().framework.iter().filter_map(|f| f.index.clone());
            [self.table().default_index.clone()].into_iter().chain(named).collect()
        };
        self.indexes.clone().unwrap_or_else(table)
    }

    /// An environment variable; an empty one is `Some("")`.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// An environment variable, trimmed, if it is not empty.
    pub fn env_nonempty(&self, name: &str) -> Option<&str> {
        self.env(name).map(str::trim).filter(|v| !v.is_empty())
    }

    /// What Windows states about itself, read once; `None` on other systems and under a foreign root.
    pub fn windows(&self) -> Option<&WindowsSnapshot> {
        let here = || self.is_live() || self.system.is_simulated();
        self.windows.get_or_init(|| here().then(|| self.system.windows()).flatten()).as_ref()
    }

    /// What macOS states about itself, read once; `None` on other systems and under a foreign root.
    pub fn macos(&self) -> Option<&MacosSnapshot> {
        let here = || self.is_live() || self.system.is_simulated();
        self.macos.get_or_init(|| here().then(|| self.system.macos()).flatten()).as_ref()
    }

    /// The operating system.
    pub fn os(&self) -> ViewOs {
        match (self.windows(), self.macos()) {
            (Some(_), _) => ViewOs::Windows,
            (None, Some(_)) => ViewOs::Macos,
            (None, None) => ViewOs::Linux,
        }
    }

    /// An environment variable that names an absolute path, with forward slashes and without one at its end.
    pub fn env_path(&self, name: &str) -> Option<String> {
        self.absolute(self.env_nonempty(name)?)
    }

    /// An absolute path with forward slashes; `None` for a relative one. Windows takes both kinds of slashes.
    fn absolute(&self, path: &str) -> Option<String> {
        if self.os() != ViewOs::Windows {
            let trimmed = path.trim_end_matches('/');
            return path.starts_with('/').then(|| if trimmed.is_empty() { "/" } else { trimmed }.to_owned());
        }
        let path = path.trim_matches('"').replace('\\', "/");
        let drive = matches!(path.as_bytes(), [letter, b':', b'/', ..] if letter.is_ascii_alphabetic());
        drive.then(|| path.trim_end_matches('/').to_owned())
    }

    /// How a shell of this system unsets a variable.
    pub fn unset_command(&self, variable: &str) -> String {
        match self.os() {
            ViewOs::Windows => format!("Remove-Item Env:{variable}"),
            _ => format!("unset {variable}"),
        }
    }

    /// The home directory.
    pub fn home(&self) -> Option<String> {
        self.env_path(if self.os() == ViewOs::Windows { "USERPROFILE" } else { "HOME" })
    }

    /// First bytes of a file.
    pub fn head(&self, path: &str, bytes: u64) -> Option<Vec<u8>> {
        use std::io::Read as _;
        let real =
            Some(self.resolve_path(path)).filter(|r| std::fs::metadata(r).is_ok_and(|m| m.is_file()))?;
        let mut head = Vec::new();
        std::fs::File::open(real).ok()?.take(bytes).read_to_end(&mut head).ok()?;
        Some(head)
    }

    /// Facts shared by checks, read once from kernel files.
    pub fn host_facts(&self) -> &HostFacts {
        self.host_facts.get_or_init(|| HostFacts::read(self))
    }

    /// Maps a path of the viewed machine to this one. Absolute symlinks stay under the root.
    pub fn resolve_path(&self, path: &str) -> PathBuf {
        let under = |path: &str| self.root.join(path.trim_start_matches('/'));
        let mut resolved = under(path);
        if self.is_live() {
            return resolved;
        }
        for _ in 0..MAX_SYMLINKS {
            match std::fs::read_link(&resolved) {
                Ok(to) if to.is_absolute() => resolved = under(&to.to_string_lossy()),
                Ok(to) => resolved = resolved.parent().unwrap_or(&self.root).join(to),
                Err(_) => break,
            }
        }
        resolved
    }

    /// Is it the machine this process runs on?
    pub fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Is the path a file?
    pub fn is_file(&self, path: &str) -> bool {
        std::fs::metadata(self.resolve_path(path)).is_ok_and(|m| m.is_file())
    }

    /// Is the path a directory?
    pub fn is_dir(&self, path: &str) -> bool {
        std::fs::metadata(self.resolve_path(path)).is_ok_and(|m| m.is_dir())
    }

    /// The path and its symlink chain, as paths of the viewed machine.
    pub fn symlink_chain(&self, path: &str) -> Vec<String> {
        let mut chain = vec![path.to_owned()];
        for _ in 0..MAX_SYMLINKS {
            let Some(last) = chain.last() else { break };
            let at = self.root.join(last.trim_start_matches('/'));
            let Ok(to) = std::fs::read_link(&at) else { break };
            let dir = Path::new(last).parent().unwrap_or(Path::new("/"));
            chain.push(normalize(&dir.join(to)));
        }
        chain
    }

    /// Modification time.
    pub fn modified(&self, path: &str) -> Option<SystemTime> {
        std::fs::metadata(self.resolve_path(path)).ok()?.modified().ok()
    }

    /// Owner and permissions of a device node.
    pub fn node(&self, path: &str) -> Option<NodePermissions> {
        let node = self.system.node(path, &self.resolve_path(path))?;
        // The access rights of this process do not apply to another machine.
        Some(if self.is_live() { node } else { NodePermissions { opens: None, ..node } })
    }

    /// Disk space of the file system of the path, or of its nearest existing parent.
    pub fn space(&self, path: &str) -> Option<DiskSpace> {
        let mut at = Path::new(path);
        while !self.is_dir(&at.to_string_lossy()) {
            at = at.parent()?;
        }
        let at = at.to_string_lossy();
        self.system.space(&at, &self.resolve_path(&at))
    }

    /// TCP connect time to a host, or why it failed.
    pub fn connect(&self, host: &str, port: u16, limit: Duration) -> Result<Duration, String> {
        self.system.connect(host, port, limit)
    }

    /// A program on `PATH`, as a path of the viewed machine.
    pub fn find_program(&self, program: &str) -> Option<String> {
        let windows = self.os() == ViewOs::Windows;
        // Windows writes `Path`.
        let path = self.env("PATH").or_else(|| self.env("Path")).unwrap_or_default();
        let (separator, suffix) = if windows { (';', ".exe") } else { (':', "") };
        let dirs = path.split(separator).filter_map(|dir| self.absolute(dir.trim()));
        dirs.map(|dir| format!("{}/{program}{suffix}", dir.trim_end_matches('/')))
            .find(|p| is_executable(&self.resolve_path(p)))
    }

    /// Runs a program found by [`find_program`](Self::find_program) with the variables of this view; killed at the deadline.
    pub fn run_tool(&self, program: &str, args: &[&str], limit: Duration) -> ToolOutput {
        if !self.tools {
            return ToolOutput::Disabled;
        }
        tool::run(&self.resolve_path(program), args, &self.env, limit)
    }

    /// All environment variables.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.env
    }
}

/// Lexically normalises `.` and `..`.
fn normalize(path: &Path) -> String {
    let mut parts: Vec<String> = Vec::new();
    for part in path.components() {
        match part {
            std::path::Component::ParentDir => drop(parts.pop()),
            std::path::Component::Normal(name) => parts.push(name.to_string_lossy().into_owned()),
            _ => {}
        }
    }
    format!("/{}", parts.join("/"))
}

impl FileSystem for SystemView {
    fn read(&self, path: &str) -> Option<String> {
        use std::io::Read as _;
        // Reading a FIFO would block.
        let real =
            Some(self.resolve_path(path)).filter(|r| std::fs::metadata(r).is_ok_and(|m| m.is_file()))?;
        let mut bytes = Vec::new();
        std::fs::File::open(real).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.resolve_path(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        // A kernel symlink leads out of a copied root: only its last component is meaningful.
        let at = self.root.join(path.trim_start_matches('/'));
        std::fs::read_link(at).ok()?.file_name()?.to_str().map(str::to_owned)
    }

    fn exists(&self, path: &str) -> bool {
        self.resolve_path(path).exists()
    }

    fn mtime(&self, path: &str) -> Option<u128> {
        let since = self.modified(path)?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(since.as_nanos())
    }
}
