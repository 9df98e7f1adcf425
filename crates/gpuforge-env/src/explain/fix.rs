//! Automatic fixes (`explain --fix`) with undo: plans, applies and records changes to the active Python environment.
//!
//! A plan is data: the action and the actions that undo it. Plans come only from the embedded table; they install packages
//! into the active environment or change its activation script. Nothing is ever deleted: undo restores the previous text
//! or installs the previous versions.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    PatternDb,
    table::{AutoFix, FixClass},
};

/// The fix log in the data directory.
pub const FIX_LOG: &str = "fixes.json";
const VERSION: u32 = 1;

/// The active Python environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ActiveEnv {
    root: PathBuf,
    conda: bool,
}

/// One action of a fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FixAction {
    /// A program runs.
    Run {
        /// It.
        program: PathBuf,
        /// Its arguments.
        args: Vec<String>,
    },
    /// A file gets a new text.
    Write {
        /// It.
        path: PathBuf,
        /// What must be in it before; `None`: it must not be there.
        before: Option<String>,
        /// What is in it afterwards.
        after: String,
    },
}

/// Planned fix of a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixPlan {
    /// The cause.
    pub id: String,
    /// What is done.
    pub action: FixAction,
    /// What would undo it, in order.
    pub undo: Vec<FixAction>,
}

/// An applied fix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FixRecord {
    /// The cause it was done for.
    pub id: String,
    /// What was done.
    pub done: String,
    /// What undoes it.
    pub undo: Vec<FixAction>,
}

#[derive(Default, Serialize, Deserialize)]
struct FixLog {
    version: u32,
    fixes: Vec<FixRecord>,
}

/// Why a fix cannot be applied.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// The table is the user's.
    #[error("fixes are run only from the patterns that came with the program; {} replaces them", .0.display())]
    NotOurs(PathBuf),
    /// It needs an administrator or a person.
    #[error("{id} needs {}", match class { FixClass::Admin => "an administrator", _ => "a person" })]
    NotAllowed {
        /// The cause.
        id: String,
        /// Who may.
        class: FixClass,
    },
    /// There is no automatic fix.
    #[error("{0} has no automatic fix: follow its steps")]
    NoneKnown(String),
    /// No environment is active.
    #[error("no environment is active: nothing else is ever changed")]
    NoEnvironment,
    /// The environment has no shell script to change.
    #[error("{} has no activation script that can be changed", .0.display())]
    NoScript(PathBuf),
    /// The file was modified since.
    #[error("{} has been changed since", .0.display())]
    Changed(PathBuf),
    /// A file cannot be read or written.
    #[error("{}: {error}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A program failed.
    #[error("`{0}` failed")]
    Failed(String),
    /// Nothing was recorded.
    #[error("nothing to undo")]
    NothingToUndo,
}

impl FixError {
    /// What to do next.
    pub fn hint(&self) -> &'static str {
        match self {
            FixError::NotOurs(_) => "follow the steps by hand",
            FixError::NotAllowed { .. } | FixError::NoneKnown(_) => "the steps above say what to do",
            FixError::NoEnvironment => "activate the environment (venv, uv or conda) and run it again",
            FixError::NoScript(_) => "set the variable yourself, as the steps say",
            FixError::Changed(_) => "undo it by hand: the block that is marked with gpuforge",
            FixError::Io { .. } => "check that the file is yours",
            FixError::Failed(_) => "give its output to `gpuforge explain`",
            FixError::NothingToUndo => "only what `explain --fix` did can be undone",
        }
    }
}

impl ActiveEnv {
    /// The environment of VIRTUAL_ENV, else of CONDA_PREFIX: a venv is activated on top of conda.
    pub fn active(env: &dyn Fn(&str) -> Option<String>) -> Option<ActiveEnv> {
        let named = |name: &str| env(name).map(PathBuf::from).filter(|p| p.is_absolute() && p.is_dir());
        let venv = named("VIRTUAL_ENV").map(|root| ActiveEnv { root, conda: false });
        venv.or_else(|| named("CONDA_PREFIX").map(|root| ActiveEnv { root, conda: true }))
    }

    fn python(&self) -> PathBuf {
        let unix = self.root.join("bin").join("python");
        let windows = self.root.join(if self.conda { "python.exe" } else { "Scripts\\python.exe" });
        if cfg!(windows) { windows } else { unix }
    }

    /// The activation script that sets variables: a file of our own for conda, `bin/activate` for a venv.
    fn script(&self, id: &str) -> PathBuf {
        match self.conda {
            true => self.root.join("etc/conda/activate.d").join(format!("gpuforge-{id}.sh")),
            false => self.root.join("bin").join("activate"),
        }
    }

    /// The installed version of a package, by the directory that its installer left.
    fn version(&self, package: &str) -> Option<String> {
        let dirs = fs::read_dir(self.root.join("lib")).into_iter().flatten().flatten();
        let mut sites: Vec<PathBuf> = dirs.map(|f| f.path().join("site-packages")).collect();
        sites.push(self.root.join("Lib").join("site-packages"));
        let entries = sites.iter().flat_map(|site| fs::read_dir(site).into_iter().flatten().flatten());
        let mut names = entries.filter_map(|e| e.file_name().into_string().ok());
        names.find_map(|name| {
            let (found, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
            (normal(found) == normal(package)).then(|| version.to_owned())
        })
    }
}

/// Normalised package name (PEP 503).
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

impl FixAction {
    /// The action as a shell command or description.
    pub fn show(&self) -> String {
        match self {
            FixAction::Run { program, args } => {
                let quoted = |word: &str| match word.contains(['<', '>', '[', ' ', '*', '&', '|']) {
                    true => format!("\"{word}\""),
                    false => word.to_owned(),
                };
                let mut words = vec![quoted(&program.display().to_string())];
                words.extend(args.iter().map(|a| quoted(a)));
                words.join(" ")
            }
            FixAction::Write { path, before, after } => {
                let old = before.as_deref().unwrap_or_default();
                let new = after.strip_prefix(old).unwrap_or(after).trim();
                format!(
                    "write into {}: {}",
                    path.display(),
                    if new.is_empty() { "its former text" } else { new }
                )
            }
        }
    }
}

/// Plans the fix of cause `id`.
pub fn plan_fix(known: &PatternDb, id: &str, environment: Option<&ActiveEnv>) -> Result<FixPlan, FixError> {
    if let crate::data::TableSource::File(path) = known.source() {
        return Err(FixError::NotOurs(path.clone()));
    }
    let none = || FixError::NoneKnown(id.to_owned());
    let pattern = known.table().find(id).ok_or_else(none)?;
    if !matches!(pattern.fix, FixClass::Safe | FixClass::Env) {
        return Err(FixError::NotAllowed { id: id.to_owned(), class: pattern.fix });
    }
    let automatic = pattern.automatic.as_ref().ok_or_else(none)?;
    let environment = environment.ok_or(FixError::NoEnvironment)?;
    let (action, undo) = match automatic {
        AutoFix::Pip { packages } => install(environment, packages),
        AutoFix::Variable { name, value } => variable(environment, id, name, value.as_deref())?,
    };
    Ok(FixPlan { id: id.to_owned(), action, undo })
}

fn pip(environment: &ActiveEnv, verb: &[&str], words: impl IntoIterator<Item = String>) -> FixAction {
    let mut args: Vec<String> = ["-m", "pip"].iter().chain(verb).map(|w| (*w).to_owned()).collect();
    args.extend(words);
    FixAction::Run { program: environment.python(), args }
}

fn install(environment: &ActiveEnv, packages: &[String]) -> (FixAction, Vec<FixAction>) {
    let action = pip(environment, &["install"], packages.iter().cloned());
    let names = packages
        .iter()
        .filter(|p| !p.starts_with('-'))
        .filter_map(|p| p.split(['<', '>', '=', '[', '!', '~', ' ']).next().filter(|name| !name.is_empty()));
    let (mut back, mut new) = (Vec::new(), Vec::new());
    for name in names {
        match environment.version(name) {
            Some(version) => back.push(format!("{name}=={version}")),
            None => new.push(name.to_owned()),
        }
    }
    let mut undo = Vec::new();
    if !back.is_empty() {
        undo.push(pip(environment, &["install"], back));
    }
    if !new.is_empty() {
        undo.push(pip(environment, &["uninstall", "--yes"], new));
    }
    (action, undo)
}

fn variable(
    environment: &ActiveEnv,
    id: &str,
    name: &str,
    value: Option<&str>,
) -> Result<(FixAction, Vec<FixAction>), FixError> {
    let path = environment.script(id);
    if cfg!(windows) {
        return Err(FixError::NoScript(environment.root.clone()));
    }
    let before = text(&path)?;
    if before.is_none() && !environment.conda {
        return Err(FixError::NoScript(environment.root.clone()));
    }
    let line = match value {
        Some(value) => format!("export {name}={value}"),
        None => format!("unset {name}"),
    };
    let block = format!("\n# gpuforge {id}\n{line}\n# gpuforge {id} end\n");
    let after = format!("{}{block}", before.as_deref().unwrap_or_default());
    let former = before.clone().unwrap_or_else(|| format!("# gpuforge {id}: undone\n"));
    let undo = FixAction::Write { path: path.clone(), before: Some(after.clone()), after: former };
    Ok((FixAction::Write { path, before, after }, vec![undo]))
}

fn text(path: &Path) -> Result<Option<String>, FixError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FixError::Io { path: path.to_owned(), error }),
    }
}

/// Applies one action; `run` runs a program and returns whether it succeeded.
pub fn apply(
    action: &FixAction,
    run: &mut dyn FnMut(&Path, &[String]) -> io::Result<bool>,
) -> Result<(), FixError> {
    match action {
        FixAction::Run { program, args } => match run(program, args) {
            Ok(true) => Ok(()),
            Ok(false) => Err(FixError::Failed(action.show())),
            Err(error) => Err(FixError::Io { path: program.clone(), error }),
        },
        FixAction::Write { path, before, after } => {
            if text(path)? != *before {
                return Err(FixError::Changed(path.clone()));
            }
            write(path, after).map_err(|error| FixError::Io { path: path.clone(), error })
        }
    }
}

/// Records how to undo a plan; call it before applying the plan, so that a partial one can be undone too.
pub fn push_record(data_dir: &Path, plan: &FixPlan) -> Result<(), FixError> {
    let mut records = records(data_dir)?;
    records.fixes.push(FixRecord { id: plan.id.clone(), done: plan.action.show(), undo: plan.undo.clone() });
    store(data_dir, &records)
}

/// The last fix that was not undone.
pub fn last_record(data_dir: &Path) -> Result<FixRecord, FixError> {
    records(data_dir)?.fixes.pop().ok_or(FixError::NothingToUndo)
}

/// Removes the last record.
pub fn pop_record(data_dir: &Path) -> Result<(), FixError> {
    let mut records = records(data_dir)?;
    records.fixes.pop();
    store(data_dir, &records)
}

fn records(data_dir: &Path) -> Result<FixLog, FixError> {
    let path = data_dir.join(FIX_LOG);
    let Some(text) = text(&path)? else { return Ok(FixLog::default()) };
    let records: FixLog = serde_json::from_str(&text)
        .map_err(|error| FixError::Io { path: path.clone(), error: error.into() })?;
    match records.version {
        VERSION => Ok(records),
        _ => Err(FixError::Io { path, error: io::Error::other("written by another version") }),
    }
}

fn store(data_dir: &Path, records: &FixLog) -> Result<(), FixError> {
    let path = data_dir.join(FIX_LOG);
    let records = serde_json::json!({ "version": VERSION, "fixes": records.fixes });
    write(&path, &format!("{records:#}\n")).map_err(|error| FixError::Io { path, error })
}

/// Atomic replace, keeping the file's permissions.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let mut file = tempfile::Builder::new().prefix(".gpuforge-").tempfile_in(dir)?;
    file.write_all(text.as_bytes())?;
    if let Ok(there) = fs::metadata(path) {
        file.as_file().set_permissions(there.permissions())?;
    }
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}
