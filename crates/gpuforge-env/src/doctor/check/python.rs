//! Check `python-env`: the active Python environment (venv, conda, uv, system) and its site-packages. Reads files only.

use gpuforge_detect::probe::filesystem::FileSystem;

use crate::doctor::{Finding, Status, SystemView, ViewOs};

/// The active Python environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PythonEnv {
    /// Kind of environment.
    pub(super) kind: PythonEnvKind,
    /// Its directory.
    pub(super) prefix: String,
    /// `3.12`, where the executable's name states it.
    version: Option<String>,
}

/// Kinds of environments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PythonEnvKind {
    /// `VIRTUAL_ENV`, made by venv, virtualenv or uv.
    Venv,
    /// `CONDA_PREFIX`.
    Conda,
    /// `.venv` in the working directory, which `uv run` uses.
    Project,
    /// The first Python on `PATH`.
    System,
}

/// The active environment; an activated one wins over a project's `.venv`.
pub(super) fn active_env(view: &SystemView) -> Option<PythonEnv> {
    let active = |variable: &str| view.env_path(variable);
    let made = |kind, prefix: String| PythonEnv { kind, prefix, version: None };
    if let Some(prefix) = active("VIRTUAL_ENV") {
        return Some(made(PythonEnvKind::Venv, prefix));
    }
    if let Some(prefix) = active("CONDA_PREFIX") {
        return Some(made(PythonEnvKind::Conda, prefix));
    }
    let project = active("PWD").map(|dir| format!("{}/.venv", dir.trim_end_matches('/')));
    if let Some(prefix) = project.filter(|p| view.is_file(&format!("{p}/pyvenv.cfg"))) {
        return Some(made(PythonEnvKind::Project, prefix));
    }
    system(view)
}

/// The interpreter of a virtual environment.
fn venv_python(view: &SystemView, prefix: &str) -> String {
    match view.os() {
        ViewOs::Windows => format!("{prefix}/Scripts/python.exe"),
        _ => format!("{prefix}/bin/python"),
    }
}

/// The interpreter of a conda environment.
fn conda_python(view: &SystemView, prefix: &str) -> String {
    match view.os() {
        ViewOs::Windows => format!("{prefix}/python.exe"),
        _ => format!("{prefix}/bin/python"),
    }
}

/// The Store's placeholder on Windows: it opens the Store in place of a Python.
fn is_placeholder(path: &str) -> bool {
    path.to_ascii_lowercase().contains("/microsoft/windowsapps/")
}

fn system(view: &SystemView) -> Option<PythonEnv> {
    if view.os() == ViewOs::Windows {
        let found = view.find_program("python").filter(|p| !is_placeholder(p))?;
        let (dir, _) = found.rsplit_once('/')?;
        return Some(PythonEnv { kind: PythonEnvKind::System, prefix: dir.to_owned(), version: None });
    }
    let found = view.find_program("python3").or_else(|| view.find_program("python"))?;
    // pyenv shims are scripts; the selected version is in a file.
    if let Some((root, _)) = found.split_once("/shims/") {
        let file = view.read(&format!("{root}/version"));
        let version = view.env_nonempty("PYENV_VERSION").map(str::to_owned).or(file)?;
        let version = version.split([':', '\n']).next()?.trim().to_owned();
        return Some(PythonEnv {
            kind: PythonEnvKind::System,
            prefix: format!("{root}/versions/{version}"),
            version: None,
        });
    }
    let last = view.symlink_chain(&found).pop()?;
    let (dir, name) = last.rsplit_once('/')?;
    let version = name.strip_prefix("python").filter(|v| v.contains('.')).map(str::to_owned);
    let prefix = dir.strip_suffix("/bin").or_else(|| dir.strip_suffix("/sbin")).unwrap_or(dir);
    Some(PythonEnv { kind: PythonEnvKind::System, prefix: prefix.to_owned(), version })
}

/// site-packages directories of the active environment.
pub(super) fn site_packages(view: &SystemView) -> Vec<String> {
    let Some(used) = active_env(view) else { return Vec::new() };
    if view.os() == ViewOs::Windows {
        let site = format!("{}/Lib/site-packages", used.prefix);
        return Some(site).filter(|s| view.is_dir(s)).into_iter().collect();
    }
    let mut prefixes = vec![used.prefix.clone()];
    if used.kind == PythonEnvKind::System {
        prefixes.push("/usr/local".to_owned());
        // User site-packages come before the system's, and are not visible in virtual environments.
        prefixes.splice(0..0, view.home().map(|h| format!("{h}/.local")));
    }
    prefixes.dedup();
    let mut sites = Vec::new();
    for lib in prefixes.iter().flat_map(|p| [format!("{p}/lib"), format!("{p}/lib64")]) {
        for python in view.list(&lib).into_iter().filter(|n| n.starts_with("python")) {
            let other =
                used.version.as_ref().is_some_and(|v| python != format!("python{v}") && python != "python3");
            if other {
                continue;
            }
            let both = ["site-packages", "dist-packages"].map(|name| format!("{lib}/{python}/{name}"));
            sites.extend(both.into_iter().filter(|s| view.is_dir(s)));
        }
    }
    sites
}

/// The interpreter of the active environment.
pub(super) fn interpreter(view: &SystemView) -> Option<String> {
    let used = active_env(view)?;
    let own = [
        format!("{}/bin/python3", used.prefix),
        venv_python(view, &used.prefix),
        conda_python(view, &used.prefix),
    ];
    own.into_iter()
        .find(|p| view.is_file(p))
        .or_else(|| view.find_program("python3"))
        .or_else(|| view.find_program("python"))
}

/// `python-env`
pub(super) fn python_env(view: &SystemView) -> Finding {
    let Some(used) = active_env(view) else { return no_python(view) };
    let found = match used.kind {
        PythonEnvKind::Venv | PythonEnvKind::Project => venv(view, &used),
        PythonEnvKind::Conda => conda(view, &used),
        PythonEnvKind::System => outside(view, &used),
    };
    match view.env_nonempty("PYTHONHOME") {
        Some(home) => found.and(
            Finding::new(Status::Warning, format!("PYTHONHOME={home} redirects every Python"))
                .step(view.unset_command("PYTHONHOME"))
                .change("PYTHONHOME", None),
        ),
        None => found,
    }
}

fn no_python(view: &SystemView) -> Finding {
    let none = "no Python is on PATH and no environment is active";
    if view.os() != ViewOs::Windows {
        return Finding::new(Status::Warning, none)
            .step("install one: `uv python install`, or the system's package manager");
    }
    let found = match view.find_program("python").filter(|p| is_placeholder(p)) {
        Some(_) => {
            Finding::new(Status::Warning, "python.exe on PATH is the Store's placeholder, not a Python")
        }
        None => Finding::new(Status::Warning, none),
    };
    found.step("install one: `winget install Python.Python.3.12`, or `uv python install`")
}

fn venv(view: &SystemView, used: &PythonEnv) -> Finding {
    let prefix = &used.prefix;
    let python = if view.os() == ViewOs::Windows { "python" } else { "python3" };
    let renew = format!("recreate it: `uv venv` or `{python} -m venv`, then install its packages again");
    let broken = |why: String| Finding::new(Status::Error, why).step(renew.clone());
    if !view.is_dir(prefix) {
        return broken(format!("VIRTUAL_ENV={prefix}, and there is no such directory"));
    }
    let Some(settings) = view.read(&format!("{prefix}/pyvenv.cfg")) else {
        return broken(format!("{prefix} has no pyvenv.cfg: it is no virtual environment"));
    };
    let value = |key: &str| {
        let pairs = settings.lines().filter_map(|l| l.split_once('='));
        pairs.into_iter().find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_owned())
    };
    let home = value("home").unwrap_or_default();
    let python = venv_python(view, prefix);
    // On Windows the launcher of an environment survives the Python it was made with.
    let made_with = home.replace('\\', "/");
    let gone = view.os() == ViewOs::Windows && !made_with.is_empty() && !view.is_dir(&made_with);
    if gone || !view.is_file(&python) {
        return broken(format!("{python} does not resolve: the Python it was made with ({home}) is gone"));
    }
    let maker = if value("uv").is_some() { "uv's virtual environment" } else { "virtual environment" };
    let version =
        value("version_info").or_else(|| value("version")).unwrap_or_else(|| "of unknown version".to_owned());
    let found = Finding::healthy(format!("{maker} {prefix}, Python {version}"));
    if used.kind == PythonEnvKind::Project {
        return found;
    }
    let first = view.find_program("python").or_else(|| view.find_program("python3"));
    let shadowed = first.filter(|p| !p.starts_with(&format!("{prefix}/")));
    match (shadowed, view.env_nonempty("CONDA_PREFIX")) {
        (Some(python), conda) => {
            let who = conda.map(|c| format!(" (conda's {c} is active too)")).unwrap_or_default();
            let said = format!("PATH finds {python} before the environment's{who}");
            found.and(
                Finding::new(Status::Warning, said)
                    .step("conda deactivate, then activate the environment again"),
            )
        }
        (None, Some(conda)) => found.and(
            Finding::new(Status::Warning, format!("conda's {conda} is active in the same shell"))
                .step("conda deactivate; `conda config --set auto_activate_base false` keeps it away"),
        ),
        (None, None) => found,
    }
}

fn conda(view: &SystemView, used: &PythonEnv) -> Finding {
    let prefix = &used.prefix;
    if !view.is_dir(&format!("{prefix}/conda-meta")) {
        return Finding::new(
            Status::Error,
            format!("CONDA_PREFIX={prefix}, and there is no conda environment"),
        )
        .step("activate one that exists: `conda env list`");
    }
    if !view.is_file(&conda_python(view, prefix)) {
        return Finding::new(Status::Warning, format!("the conda environment {prefix} has no Python"))
            .step("conda install python");
    }
    match view.env_nonempty("CONDA_DEFAULT_ENV") {
        Some("base") => {
            Finding::healthy(format!("conda's base {prefix}: better leave it alone and make an environment"))
        }
        _ => Finding::healthy(format!("conda environment {prefix}")),
    }
}

fn outside(view: &SystemView, used: &PythonEnv) -> Finding {
    let version = used.version.clone().unwrap_or_default();
    let managed = [format!("/usr/lib/python{version}"), "/usr/lib/python3".to_owned()];
    let managed = managed.iter().any(|d| view.is_file(&format!("{d}/EXTERNALLY-MANAGED")));
    let note = if managed && used.prefix == "/usr" {
        "; it is the system's own: install into an environment"
    } else {
        ""
    };
    let said = format!("no environment is active; Python {version} in {}{note}", used.prefix);
    Finding::healthy(said.replace("Python  in", "Python in"))
}
