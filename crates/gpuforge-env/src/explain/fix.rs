//! What can be done about a cause without asking an administrator, and how is it undone?
//!
//! A plan is data: what will be done, in words, and what would undo it. Plans come only from the embedded table; they
//! install packages into the active environment or change its activation script. Nothing is ever deleted: undoing
//! restores a text, or installs the versions that were there.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::{
    Knowledge,
    table::{Automatic, FixClass},
};

/// The file in the data directory that remembers what was done.
pub const RECORDS: &str = "fixes.json";
const VERSION: u32 = 1;

/// The environment that the user has activated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Environment {
    root: PathBuf,
    conda: bool,
}

/// One thing that is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Action {
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

/// What would be done about a cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The cause.
    pub id: String,
    /// What is done.
    pub action: Action,
    /// What would undo it, in order.
    pub undo: Vec<Action>,
}

/// Something that was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The cause it was done for.
    pub id: String,
    /// What was done.
    pub done: String,
    /// What undoes it.
    pub undo: Vec<Action>,
}

#[derive(Default, Serialize, Deserialize)]
struct Records {
    version: u32,
    fixes: Vec<Record>,
}

/// Why nothing is done.
#[derive(Debug, thiserror::Error)]
pub enum FixError {
    /// The table is the user's.
    #[error("fixes are run only from the patterns that came with the program; {} replaces them", .0.display())]
    NotOurs(PathBuf),
    /// It is not for a program to do.
    #[error("{id} needs {}", match class { FixClass::Admin => "an administrator", _ => "a person" })]
    NotAllowed {
        /// The cause.
        id: String,
        /// Who may.
        class: FixClass,
    },
    /// The right command depends on more than the log.
    #[error("{0} has no automatic fix: follow its steps")]
    NoneKnown(String),
    /// No environment is active.
    #[error("no environment is active: nothing else is ever changed")]
    NoEnvironment,
    /// The environment has no shell script to change.
    #[error("{} has no activation script that can be changed", .0.display())]
    NoScript(PathBuf),
    /// The file is not as it was left.
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

impl Environment {
    /// The one that VIRTUAL_ENV or CONDA_PREFIX names, the former first: it is activated on top.
    pub fn active(env: &dyn Fn(&str) -> Option<String>) -> Option<Environment> {
        let named = |name: &str| env(name).map(PathBuf::from).filter(|p| p.is_absolute() && p.is_dir());
        let venv = named("VIRTUAL_ENV").map(|root| Environment { root, conda: false });
        venv.or_else(|| named("CONDA_PREFIX").map(|root| Environment { root, conda: true }))
    }

    fn python(&self) -> PathBuf {
        let unix = self.root.join("bin").join("python");
        let windows = self.root.join(if self.conda { "python.exe" } else { "Scripts\\python.exe" });
        if cfg!(windows) { windows } else { unix }
    }

    /// The script that sets variables: a file of our own for conda, the one there is for a venv.
    fn script(&self, id: &str) -> PathBuf {
        match self.conda {
            true => self.root.join("etc/conda/activate.d").join(format!("gpuforge-{id}.sh")),
            false => self.root.join("bin").join("activate"),
        }
    }

    /// The installed version of a package, by the directory that its installer left.
    fn version(&self, package: &str) -> Option<String> {
        let folders = fs::read_dir(self.root.join("lib")).into_iter().flatten().flatten();
        let mut sites: Vec<PathBuf> = folders.map(|f| f.path().join("site-packages")).collect();
        sites.push(self.root.join("Lib").join("site-packages"));
        let entries = sites.iter().flat_map(|site| fs::read_dir(site).into_iter().flatten().flatten());
        let mut names = entries.filter_map(|e| e.file_name().into_string().ok());
        names.find_map(|name| {
            let (found, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
            (normal(found) == normal(package)).then(|| version.to_owned())
        })
    }
}

/// Package names differ in case and in dashes only by habit.
fn normal(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

impl Action {
    /// What is done, as a person would type it.
    pub fn show(&self) -> String {
        match self {
            Action::Run { program, args } => {
                let quoted = |word: &str| match word.contains(['<', '>', '[', ' ', '*', '&', '|']) {
                    true => format!("\"{word}\""),
                    false => word.to_owned(),
                };
                let mut words = vec![quoted(&program.display().to_string())];
                words.extend(args.iter().map(|a| quoted(a)));
                words.join(" ")
            }
            Action::Write { path, before, after } => {
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

/// What could be done about the cause `id`.
pub fn plan(known: &Knowledge, id: &str, environment: Option<&Environment>) -> Result<Plan, FixError> {
    if let crate::data::Source::File(path) = known.source() {
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
        Automatic::Pip { packages } => install(environment, packages),
        Automatic::Variable { name, value } => variable(environment, id, name, value.as_deref())?,
    };
    Ok(Plan { id: id.to_owned(), action, undo })
}

fn pip(environment: &Environment, verb: &[&str], words: impl IntoIterator<Item = String>) -> Action {
    let mut args: Vec<String> = ["-m", "pip"].iter().chain(verb).map(|w| (*w).to_owned()).collect();
    args.extend(words);
    Action::Run { program: environment.python(), args }
}

fn install(environment: &Environment, packages: &[String]) -> (Action, Vec<Action>) {
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
    environment: &Environment,
    id: &str,
    name: &str,
    value: Option<&str>,
) -> Result<(Action, Vec<Action>), FixError> {
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
    let undo = Action::Write { path: path.clone(), before: Some(after.clone()), after: former };
    Ok((Action::Write { path, before, after }, vec![undo]))
}

fn text(path: &Path) -> Result<Option<String>, FixError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(FixError::Io { path: path.to_owned(), error }),
    }
}

/// Does one thing; `run` starts a program and says whether it ended well.
pub fn perform(
    action: &Action,
    run: &mut dyn FnMut(&Path, &[String]) -> io::Result<bool>,
) -> Result<(), FixError> {
    match action {
        Action::Run { program, args } => match run(program, args) {
            Ok(true) => Ok(()),
            Ok(false) => Err(FixError::Failed(action.show())),
            Err(error) => Err(FixError::Io { path: program.clone(), error }),
        },
        Action::Write { path, before, after } => {
            if text(path)? != *before {
                return Err(FixError::Changed(path.clone()));
            }
            write(path, after).map_err(|error| FixError::Io { path: path.clone(), error })
        }
    }
}

/// Keeps what undoes a plan; call it before the plan is carried out, so that a half-done one can be undone too.
pub fn remember(data_dir: &Path, plan: &Plan) -> Result<(), FixError> {
    let mut records = records(data_dir)?;
    records.fixes.push(Record { id: plan.id.clone(), done: plan.action.show(), undo: plan.undo.clone() });
    store(data_dir, &records)
}

/// What was done last and not undone.
pub fn last(data_dir: &Path) -> Result<Record, FixError> {
    records(data_dir)?.fixes.pop().ok_or(FixError::NothingToUndo)
}

/// Forgets what was done last.
pub fn forget(data_dir: &Path) -> Result<(), FixError> {
    let mut records = records(data_dir)?;
    records.fixes.pop();
    store(data_dir, &records)
}

fn records(data_dir: &Path) -> Result<Records, FixError> {
    let path = data_dir.join(RECORDS);
    let Some(text) = text(&path)? else { return Ok(Records::default()) };
    let records: Records = serde_json::from_str(&text)
        .map_err(|error| FixError::Io { path: path.clone(), error: error.into() })?;
    match records.version {
        VERSION => Ok(records),
        _ => Err(FixError::Io { path, error: io::Error::other("written by another version") }),
    }
}

fn store(data_dir: &Path, records: &Records) -> Result<(), FixError> {
    let path = data_dir.join(RECORDS);
    let records = serde_json::json!({ "version": VERSION, "fixes": records.fixes });
    write(&path, &format!("{records:#}\n")).map_err(|error| FixError::Io { path, error })
}

/// Whole or not at all, with the permissions the file had.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::Builder::new().prefix(".gpuforge-").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    if let Ok(there) = fs::metadata(path) {
        file.as_file().set_permissions(there.permissions())?;
    }
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}
