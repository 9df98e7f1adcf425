//! What may be put right without asking for rights? Variables of a shell: a script to source, and one that takes it back.
//!
//! A program cannot change the variables of the shell that started it; so nothing is changed before the user sources the
//! script, and the second script restores what was there. Nothing is deleted, installed or run.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::view::View;

/// A variable to be set or unset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// Name.
    pub variable: String,
    /// New value; `None` unsets it.
    pub value: Option<String>,
}

/// Text of the two scripts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scripts {
    /// Applies the changes.
    pub apply: String,
    /// Restores what this view had.
    pub undo: String,
}

impl Scripts {
    /// Scripts for a POSIX shell; `None` where nothing is to be changed.
    pub fn of(changes: &[Change], view: &View) -> Option<Scripts> {
        if changes.is_empty() {
            return None;
        }
        let mut scripts = Scripts {
            apply: "# To be sourced: changes variables of this shell only.\n".to_owned(),
            undo: "# To be sourced: restores the variables as gpuforge doctor found them.\n".to_owned(),
        };
        for change in changes {
            scripts.apply.push_str(&line(&change.variable, change.value.as_deref()));
            scripts.undo.push_str(&line(&change.variable, view.env(&change.variable)));
        }
        Some(scripts)
    }

    /// Writes `doctor-fix.sh` and `doctor-undo.sh` into `dir`, which is created; answers with the first and the second.
    pub fn save(&self, dir: &Path) -> io::Result<(PathBuf, PathBuf)> {
        fs::create_dir_all(dir)?;
        let write = |name: &str, text: &str| -> io::Result<PathBuf> {
            let path = dir.join(name);
            let mut file = tempfile::Builder::new().prefix(".doctor-").tempfile_in(dir)?;
            file.write_all(text.as_bytes())?;
            file.persist(&path).map_err(|e| e.error)?;
            Ok(path)
        };
        // The way back is there before the way forth.
        let undo = write("doctor-undo.sh", &self.undo)?;
        Ok((write("doctor-fix.sh", &self.apply)?, undo))
    }
}

/// `export NAME='value'`, or `unset NAME`. Names come from our tables, values from anybody.
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
    fn what_is_changed_can_be_taken_back() {
        let env = BTreeMap::from([
            ("CUDA_VISIBLE_DEVICES".to_owned(), "-1".to_owned()),
            ("LD_LIBRARY_PATH".to_owned(), "/a b:/it's $(here)".to_owned()),
        ]);
        let view = View::at("/", env);
        let changes = [
            Change { variable: "CUDA_VISIBLE_DEVICES".to_owned(), value: None },
            Change { variable: "LD_LIBRARY_PATH".to_owned(), value: Some("/a b".to_owned()) },
        ];
        let scripts = Scripts::of(&changes, &view).unwrap();
        assert!(scripts.apply.ends_with("unset CUDA_VISIBLE_DEVICES\nexport LD_LIBRARY_PATH='/a b'\n"));
        assert!(scripts.undo.ends_with(
            "export CUDA_VISIBLE_DEVICES='-1'\nexport LD_LIBRARY_PATH='/a b:/it'\\''s $(here)'\n"
        ));
        assert_eq!(Scripts::of(&[], &view), None);
    }
}
