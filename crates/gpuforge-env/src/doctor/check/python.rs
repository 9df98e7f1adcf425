//! Is the Python environment whole, and where are its packages? By files alone: no interpreter is started.

use gpuforge_detect::probe::filesystem::FileSystem;

use crate::doctor::{Finding, Status, View};

/// The environment that a `python` typed now would use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Used {
    /// What kind it is.
    pub(super) kind: Kind,
    /// Its directory.
    pub(super) prefix: String,
    /// `3.12`, where a name says so.
    version: Option<String>,
}

/// Kinds of environments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// `VIRTUAL_ENV`, made by venv, virtualenv or uv.
    Venv,
    /// `CONDA_PREFIX`.
    Conda,
    /// `.venv` in the working directory, which `uv run` uses.
    Project,
    /// The first Python on `PATH`.
    System,
}

/// Which environment is in use? What is activated wins over what lies about.
pub(super) fn used(view: &View) -> Option<Used> {
    let active = |variable: &str| view.set(variable).filter(|v| v.starts_with('/')).map(str::to_owned);
    let made =
        |kind, prefix: String| Used { kind, prefix: prefix.trim_end_matches('/').to_owned(), version: None };
    if let Some(prefix) = active("VIRTUAL_ENV") {
        return Some(made(Kind::Venv, prefix));
    }
    if let Some(prefix) = active("CONDA_PREFIX") {
        return Some(made(Kind::Conda, prefix));
    }
    let project = active("PWD").map(|dir| format!("{}/.venv", dir.trim_end_matches('/')));
    if let Some(prefix) = project.filter(|p| view.is_file(&format!("{p}/pyvenv.cfg"))) {
        return Some(made(Kind::Project, prefix));
    }
    system(view)
}

fn system(view: &View) -> Option<Used> {
    let found = view.find("python3").or_else(|| view.find("python"))?;
    // pyenv's shims are scripts; the version that they start is in a file.
    if let Some((root, _)) = found.split_once("/shims/") {
        let file = view.read(&format!("{root}/version"));
        let version = view.set("PYENV_VERSION").map(str::to_owned).or(file)?;
        let version = version.split([':', '\n']).next()?.trim().to_owned();
        return Some(Used {
            kind: Kind::System,
            prefix: format!("{root}/versions/{version}"),
            version: None,
        });
    }
    let last = view.links(&found).pop()?;
    let (folder, name) = last.rsplit_once('/')?;
    let version = name.strip_prefix("python").filter(|v| v.contains('.')).map(str::to_owned);
    let prefix = folder.strip_suffix("/bin").or_else(|| folder.strip_suffix("/sbin")).unwrap_or(folder);
    Some(Used { kind: Kind::System, prefix: prefix.to_owned(), version })
}

/// Directories with packages of the environment in use.
pub(super) fn sites(view: &View) -> Vec<String> {
    let Some(used) = used(view) else { return Vec::new() };
    let mut prefixes = vec![used.prefix.clone()];
    if used.kind == Kind::System {
        prefixes.push("/usr/local".to_owned());
        // A user's own packages come before the system's, and are not seen by environments.
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

/// The interpreter of the environment in use.
pub(super) fn interpreter(view: &View) -> Option<String> {
    let used = used(view)?;
    let own = ["python3", "python"].map(|name| format!("{}/bin/{name}", used.prefix));
    own.into_iter().find(|p| view.is_file(p)).or_else(|| view.find("python3")).or_else(|| view.find("python"))
}

/// `python-env`
pub(super) fn health(view: &View) -> Finding {
    let Some(used) = used(view) else {
        return Finding::new(Status::Warning, "no Python is on PATH and no environment is active")
            .step("install one: `uv python install`, or the system's package manager");
    };
    let found = match used.kind {
        Kind::Venv | Kind::Project => venv(view, &used),
        Kind::Conda => conda(view, &used),
        Kind::System => outside(view, &used),
    };
    match view.set("PYTHONHOME") {
        Some(home) => found.and(
            Finding::new(Status::Warning, format!("PYTHONHOME={home} redirects every Python"))
                .step("unset PYTHONHOME")
                .change("PYTHONHOME", None),
        ),
        None => found,
    }
}

fn venv(view: &View, used: &Used) -> Finding {
    let prefix = &used.prefix;
    let renew = "make it anew: `uv venv` or `python3 -m venv`, then install its packages again";
    let broken = |why: String| Finding::new(Status::Error, why).step(renew);
    if !view.is_dir(prefix) {
        return broken(format!("VIRTUAL_ENV={prefix}, and there is no such folder"));
    }
    let Some(settings) = view.read(&format!("{prefix}/pyvenv.cfg")) else {
        return broken(format!("{prefix} has no pyvenv.cfg: it is no virtual environment"));
    };
    let value = |key: &str| {
        let pairs = settings.lines().filter_map(|l| l.split_once('='));
        pairs.into_iter().find(|(k, _)| k.trim() == key).map(|(_, v)| v.trim().to_owned())
    };
    let home = value("home").unwrap_or_default();
    if !view.is_file(&format!("{prefix}/bin/python")) {
        return broken(format!(
            "{prefix}/bin/python leads nowhere: the Python it was made with ({home}) is gone"
        ));
    }
    let maker = if value("uv").is_some() { "uv's virtual environment" } else { "virtual environment" };
    let version =
        value("version_info").or_else(|| value("version")).unwrap_or_else(|| "of unknown version".to_owned());
    let found = Finding::healthy(format!("{maker} {prefix}, Python {version}"));
    if used.kind == Kind::Project {
        return found;
    }
    let first = view.find("python").or_else(|| view.find("python3"));
    let shadowed = first.filter(|p| !p.starts_with(&format!("{prefix}/")));
    match (shadowed, view.set("CONDA_PREFIX")) {
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

fn conda(view: &View, used: &Used) -> Finding {
    let prefix = &used.prefix;
    if !view.is_dir(&format!("{prefix}/conda-meta")) {
        return Finding::new(
            Status::Error,
            format!("CONDA_PREFIX={prefix}, and there is no conda environment"),
        )
        .step("activate one that exists: `conda env list`");
    }
    if !view.is_file(&format!("{prefix}/bin/python")) {
        return Finding::new(Status::Warning, format!("the conda environment {prefix} has no Python"))
            .step("conda install python");
    }
    match view.set("CONDA_DEFAULT_ENV") {
        Some("base") => {
            Finding::healthy(format!("conda's base {prefix}: better leave it alone and make an environment"))
        }
        _ => Finding::healthy(format!("conda environment {prefix}")),
    }
}

fn outside(view: &View, used: &Used) -> Finding {
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
