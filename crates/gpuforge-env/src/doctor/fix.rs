//! Fix scripts (`doctor --fix`): a POSIX or PowerShell script that changes environment variables, and one that undoes it.
//!
//! A program cannot change the variables of its parent shell, so nothing changes before the user sources the script; the
//! second script restores the previous values. Nothing is deleted, installed or run.

use std::{
    fs, io,
    io::Write as _,
    path::{Path, PathBuf},
};

use super::view::{SystemView, ViewOs};

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
    /// Shell that they are for.
    pub shell: Shell,
}

/// A shell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shell {
    /// `sh`, `bash`, `zsh`.
    Posix,
    /// PowerShell.
    PowerShell,
}

impl Shell {
    /// Ending of a script's name.
    fn ending(self) -> &'static str {
        match self {
            Shell::Posix => "sh",
            Shell::PowerShell => "ps1",
        }
    }
}

impl FixScripts {
    /// Scripts for the shell of the viewed system; `None` where there is nothing to change.
    pub fn of(changes: &[EnvVarChange], view: &SystemView) -> Option<FixScripts> {
        if changes.is_empty() {
            return None;
        }
        let shell = if view.os() == ViewOs::Windows { Shell::PowerShell } else { Shell::Posix };
        let mut scripts = FixScripts {
            shell,
            apply: "# To be sourced: changes variables of this shell only.\n".to_owned(),
            undo: "# To be sourced: restores the variables as gpuforge doctor found them.\n".to_owned(),
        };
        for change in changes {
            scripts.apply.push_str(&line(shell, &change.variable, change.value.as_deref()));
            scripts.undo.push_str(&line(shell, &change.variable, view.env(&change.variable)));
        }
        Some(scripts)
    }

    /// Writes `doctor-fix.sh` and `doctor-undo.sh` (`.ps1` for PowerShell) into `dir`, which is created; returns both paths.
    pub fn save(&self, dir: &Path) -> io::Result<(PathBuf, PathBuf)> {
        fs::create_dir_all(dir)?;
        let write = |name: &str, text: &str| -> io::Result<PathBuf> {
            let path = dir.join(format!("{name}.{}", self.shell.ending()));
            let mut file = tempfile::Builder::new().prefix(".doctor-").tempfile_in(dir)?;
            file.write_all(text.as_bytes())?;
            file.persist(&path).map_err(|e| e.error)?;
            Ok(path)
        };
        // The undo script is written first.
        let undo = write("doctor-undo", &self.undo)?;
        Ok((write("doctor-fix", &self.apply)?, undo))
    }
}

/// Sets or unsets a variable. Names come from our tables; values are untrusted and quoted.
fn line(shell: Shell, variable: &str, value: Option<&str>) -> String {
    match (shell, value) {
        (Shell::Posix, Some(value)) => format!("export {variable}='{}'\n", value.replace('\'', r"'\''")),
        (Shell::Posix, None) => format!("unset {variable}\n"),
        // PowerShell also ends a quoted string at typographic quotes; doubling keeps each of them.
        (Shell::PowerShell, Some(value)) => {
            let quotes = ['\'', '\u{2018}', '\u{2019}', '\u{201a}', '\u{201b}'];
            let quoted: String = value
                .chars()
                .flat_map(|c| std::iter::repeat_n(c, if quotes.contains(&c) { 2 } else { 1 }))
                .collect();
            format!("$env:{variable} = '{quoted}'\n")
        }
        (Shell::PowerShell, None) => {
            format!("Remove-Item Env:{variable} -ErrorAction SilentlyContinue\n")
        }
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

    #[test]
    fn powershell_quotes_its_own_way() {
        let set = |value: &str| line(Shell::PowerShell, "X", Some(value));
        assert_eq!(set("it's $(here)"), "$env:X = 'it''s $(here)'\n");
        assert_eq!(set("a\u{2019}; b"), "$env:X = 'a\u{2019}\u{2019}; b'\n");
        assert!(line(Shell::PowerShell, "X", None).starts_with("Remove-Item Env:X"));
    }
}
