//! Fix scripts (`doctor --fix`): a shell script that changes environment variables, and one that undoes it.
//!
//! A program cannot change the variables of its parent shell, so nothing changes before the user sources the script; the
//! second script restores the previous values. Nothing is deleted, installed or run.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::view::SystemView;

/// An environment variable to set or unset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnvVarChange {
    /// Name.
    pub variable: String,
    /// New value; `None` unsets it.
    pub value: Option<String>,
}

/// The two scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FixScripts {
    /// Applies the changes.
    pub apply: String,
    /// Restores the previous values.
    pub undo: String,
}

impl FixScripts {
    /// Scripts for a POSIX shell; `None` where there is nothing to change.
    pub fn of(changes: &[EnvVarChange], view: &SystemView) -> Option<FixScripts> {
        if changes.is_empty() {
            return None;
        }
        let mut scripts = FixScripts {
            apply: "# To be sourced: changes variables of this shell only.\n".to_owned(),
            undo: "# To be sourced: restores the variables as gpuforge doctor found them.\n".to_owned(),
        };
        for change in changes {
            scripts.apply.push_str(&line(&change.variable, change.value.as_deref()));
            scripts.undo.push_str(&line(&change.variable, view.env(&change.variable)));
        }
        Some(scripts)
    }

    /// Writes `doctor-fix.sh` and `doctor-undo.sh` into `dir`, which is created; returns both paths.
    pub fn save(&self, dir: &Path) -> io::Result<(PathBuf, PathBuf)> {
        fs::create_dir_all(dir)?;
        let write = |name: &str, text: &str| -> io::Result<PathBuf> {
            let path = dir.join(name);
            let mut file = tempfile::Builder::new().prefix(".doctor-").tempfile_in(dir)?;
            file.write_all(text.as_bytes())?;
            file.persist(&path).map_err(|e| e.error)?;
            Ok(path)
        };
        // The undo script is written first.
        let undo = write("doctor-undo.sh", &self.undo)?;
        Ok((write("doctor-fix.sh", &self.apply)?, undo))
    }
}

/// `export NAME='value'`, or `unset NAME`. Names come from our tables; values are untrusted and quoted.
fn line(variable: &str, value: Option<&str>) -> String {
    match value {
        Some(value) => format!("export {variable}='{}'\n", value.replace('\'', r"'\''")),
        None => format!("unset {variable}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn changes_can_be_undone() {
        let env = BTreeMap::from([
            ("CUDA_VISIBLE_DEVICES".to_owned(), "-1".to_owned()),
            ("LD_LIBRARY_PATH".to_owned(), "/a b:/it's $(here)".to_owned()),
        ]);
        let view = SystemView::rooted_at("/", env);
        let changes = [
            EnvVarChange { variable: "CUDA_VISIBLE_DEVICES".to_owned(), value: None },
            EnvVarChange { variable: "LD_LIBRARY_PATH".to_owned(), value: Some("/a b".to_owned()) },
        ];
        let scripts = FixScripts::of(&changes, &view).unwrap();
        assert!(scripts.apply.ends_with("unset CUDA_VISIBLE_DEVICES\nexport LD_LIBRARY_PATH='/a b'\n"));
        assert!(scripts.undo.ends_with(
            "export CUDA_VISIBLE_DEVICES='-1'\nexport LD_LIBRARY_PATH='/a b:/it'\\''s $(here)'\n"
        ));
        assert_eq!(FixScripts::of(&[], &view), None);
    }
}
