//! What can a check see? A root directory, variables, a clock, and the few facts that files do not tell.
//!
//! Every check is a function of a [`View`], so that a simulated machine is a directory: kernel files, device nodes, libraries,
//! packages and tools are looked up under the root, the user in its `/proc/self/status`, names in its `/etc`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::OnceLock,
    time::{Duration, SystemTime},
};

use gpuforge_detect::probe::filesystem::FileSystem;

use super::{
    facts::{Facts, Node, Real, Space},
    machine::Machine,
    tool::{self, Answer},
};
use crate::compat::{self, Compat};

/// No file that a check reads is larger; what is gets cut.
const LIMIT: u64 = 1 << 20;

/// Links that lead on for longer than this lead in a circle.
const LINKS: usize = 16;

/// How long a tool may take before it is killed; below what a check may take, so that the check can say so.
pub const TOOL_LIMIT: Duration = Duration::from_millis(1500);

/// A machine, as far as a check may look at it.
pub struct View {
    root: PathBuf,
    env: BTreeMap<String, String>,
    facts: Box<dyn Facts>,
    now: SystemTime,
    tools: bool,
    table: OnceLock<Compat>,
    indexes: Option<Vec<String>>,
    offline: bool,
    deep: bool,
    machine: OnceLock<Machine>,
}

impl View {
    /// This machine, as this process sees it.
    pub fn here() -> Self {
        // A variable that is not UTF-8 counts as unset, as everywhere in this program.
        let env =
            std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
        View::at("/", env.collect())
    }

    /// The machine whose files are under `root`, seen by a process with these variables.
    pub fn at(root: impl Into<PathBuf>, env: BTreeMap<String, String>) -> Self {
        View {
            root: root.into(),
            env,
            facts: Box::new(Real),
            now: SystemTime::now(),
            tools: true,
            table: OnceLock::new(),
            indexes: None,
            offline: false,
            deep: false,
            machine: OnceLock::new(),
        }
    }

    /// With other facts than the system's; for simulated machines.
    pub fn with_facts(self, facts: impl Facts + 'static) -> Self {
        View { facts: Box::new(facts), ..self }
    }

    /// At another time.
    pub fn with_now(self, now: SystemTime) -> Self {
        View { now, ..self }
    }

    /// With another table of builds than ours.
    pub fn with_table(self, table: Compat) -> Self {
        View { table: OnceLock::from(table), ..self }
    }

    /// With these package indexes (addresses) to be reached, instead of those of the table.
    pub fn with_indexes(self, indexes: Vec<String>) -> Self {
        View { indexes: Some(indexes), ..self }
    }

    /// Without a word to the network.
    pub fn offline(self, offline: bool) -> Self {
        View { offline, ..self }
    }

    /// With frameworks asked themselves, which takes seconds.
    pub fn deep(self, deep: bool) -> Self {
        View { deep, ..self }
    }

    /// Without running a program: those under a foreign root are not to be trusted.
    pub fn without_tools(self) -> Self {
        View { tools: false, ..self }
    }

    /// The clock.
    pub fn now(&self) -> SystemTime {
        self.now
    }

    /// May the network be used?
    pub fn is_offline(&self) -> bool {
        self.offline
    }

    /// Are frameworks asked?
    pub fn is_deep(&self) -> bool {
        self.deep
    }

    /// What is known about builds of frameworks.
    pub fn table(&self) -> &Compat {
        self.table.get_or_init(compat::embedded)
    }

    /// Addresses of package indexes to be reached.
    pub fn indexes(&self) -> Vec<String> {
        let table = || {
            let named = self.table().framework.iter().filter_map(|f| f.index.clone());
            [self.table().default_index.clone()].into_iter().chain(named).collect()
        };
        self.indexes.clone().unwrap_or_else(table)
    }

    /// A variable; one that is set to nothing is `Some("")`.
    pub fn env(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str)
    }

    /// A variable that is set to something.
    pub fn set(&self, name: &str) -> Option<&str> {
        self.env(name).map(str::trim).filter(|v| !v.is_empty())
    }

    /// The home directory.
    pub fn home(&self) -> Option<&str> {
        self.set("HOME").map(|home| home.trim_end_matches('/')).filter(|home| home.starts_with('/'))
    }

    /// What the kernel files say about GPUs and surroundings, read once.
    pub fn machine(&self) -> &Machine {
        self.machine.get_or_init(|| Machine::read(self))
    }

    /// Where a path of that machine is on this one. A link to an absolute path stays under the root.
    pub fn real(&self, path: &str) -> PathBuf {
        let under = |path: &str| self.root.join(path.trim_start_matches('/'));
        let mut real = under(path);
        if self.is_here() {
            return real;
        }
        for _ in 0..LINKS {
            match std::fs::read_link(&real) {
                Ok(to) if to.is_absolute() => real = under(&to.to_string_lossy()),
                Ok(to) => real = real.parent().unwrap_or(&self.root).join(to),
                Err(_) => break,
            }
        }
        real
    }

    /// Is it the machine that this process runs on?
    pub fn is_here(&self) -> bool {
        self.root == Path::new("/")
    }

    /// Is there a file, not a directory?
    pub fn is_file(&self, path: &str) -> bool {
        std::fs::metadata(self.real(path)).is_ok_and(|m| m.is_file())
    }

    /// Is there a directory?
    pub fn is_dir(&self, path: &str) -> bool {
        std::fs::metadata(self.real(path)).is_ok_and(|m| m.is_dir())
    }

    /// The path itself, and what it and its followers link to, as paths of that machine.
    pub fn links(&self, path: &str) -> Vec<String> {
        let mut chain = vec![path.to_owned()];
        for _ in 0..LINKS {
            let Some(last) = chain.last() else { break };
            let at = self.root.join(last.trim_start_matches('/'));
            let Ok(to) = std::fs::read_link(&at) else { break };
            let folder = Path::new(last).parent().unwrap_or(Path::new("/"));
            chain.push(tidy(&folder.join(to)));
        }
        chain
    }

    /// When it was last changed.
    pub fn modified(&self, path: &str) -> Option<SystemTime> {
        std::fs::metadata(self.real(path)).ok()?.modified().ok()
    }

    /// Owner and permissions of a device node.
    pub fn node(&self, path: &str) -> Option<Node> {
        let node = self.facts.node(path, &self.real(path))?;
        // What this process may open says nothing about a user of another machine.
        Some(if self.is_here() { node } else { Node { opens: None, ..node } })
    }

    /// Space of the file system that holds the path, or its nearest directory that exists.
    pub fn space(&self, path: &str) -> Option<Space> {
        let mut at = Path::new(path);
        while !self.is_dir(&at.to_string_lossy()) {
            at = at.parent()?;
        }
        let at = at.to_string_lossy();
        self.facts.space(&at, &self.real(&at))
    }

    /// How long it took to reach a host, or why it was not reached.
    pub fn connect(&self, host: &str, port: u16, limit: Duration) -> Result<Duration, String> {
        self.facts.connect(host, port, limit)
    }

    /// A program on `PATH`, as a path of that machine.
    pub fn find(&self, program: &str) -> Option<String> {
        let path = self.env("PATH").unwrap_or_default();
        let folders = path.split(':').filter(|folder| folder.starts_with('/'));
        folders
            .map(|folder| format!("{}/{program}", folder.trim_end_matches('/')))
            .find(|p| is_program(&self.real(p)))
    }

    /// Runs a program that `find` found, with the variables of this view; it is killed when the time is up.
    pub fn ask(&self, program: &str, args: &[&str], limit: Duration) -> Answer {
        if !self.tools {
            return Answer::Refused;
        }
        tool::run(&self.real(program), args, &self.env, limit)
    }

    /// Every variable; for what is written down about the machine.
    pub fn variables(&self) -> &BTreeMap<String, String> {
        &self.env
    }
}

/// Folds `.` and `..` without looking at the disk.
fn tidy(path: &Path) -> String {
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

fn is_program(path: &Path) -> bool {
    let Ok(meta) = std::fs::metadata(path) else { return false };
    #[cfg(unix)]
    let runs = std::os::unix::fs::PermissionsExt::mode(&meta.permissions()) & 0o111 != 0;
    #[cfg(not(unix))]
    let runs = true;
    meta.is_file() && runs
}

impl FileSystem for View {
    fn read(&self, path: &str) -> Option<String> {
        use std::io::Read as _;
        // A pipe that somebody put there would be waited for.
        let real = Some(self.real(path)).filter(|r| std::fs::metadata(r).is_ok_and(|m| m.is_file()))?;
        let mut bytes = Vec::new();
        std::fs::File::open(real).ok()?.take(LIMIT).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn list(&self, path: &str) -> Vec<String> {
        let Ok(entries) = std::fs::read_dir(self.real(path)) else { return Vec::new() };
        let mut names: Vec<String> =
            entries.flatten().filter_map(|e| e.file_name().into_string().ok()).collect();
        names.sort_unstable();
        names
    }

    fn link(&self, path: &str) -> Option<String> {
        // A link of the kernel's leads out of a copied root: only its last part means anything.
        let at = self.root.join(path.trim_start_matches('/'));
        std::fs::read_link(at).ok()?.file_name()?.to_str().map(str::to_owned)
    }

    fn exists(&self, path: &str) -> bool {
        self.real(path).exists()
    }

    fn mtime(&self, path: &str) -> Option<u128> {
        let since = self.modified(path)?.duration_since(std::time::UNIX_EPOCH).ok()?;
        Some(since.as_nanos())
    }
}
