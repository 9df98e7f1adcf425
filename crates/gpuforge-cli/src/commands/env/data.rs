//! `gpuforge env update|check-data`: installs and validates newer tables of builds, profiles and error patterns.

use std::{fmt::Write as _, path::Path};

use anyhow::Result;
use gpuforge::env::{
    compat::{self, CompatTable},
    data::{self, DataError, TableSource},
    explain::{self, ErrorTable},
    profiles::{self, Profiles},
};
use serde::Serialize;

use crate::{
    context::Context,
    error::Hinted,
    output::{BAD, GOOD},
};

/// A data table: its file, the TOML key that identifies it, how it is installed and validated.
struct DataTable {
    file: &'static str,
    key: &'static str,
    install: fn(&str, &Path, &Path) -> Result<std::path::PathBuf, DataError>,
    state: fn(&Path) -> TableState,
}

const TABLES: [DataTable; 3] = [
    DataTable {
        file: compat::FILE,
        key: "release",
        install: data::install::<CompatTable>,
        state: |dir| {
            let loaded = compat::load(Some(dir));
            let rows = loaded.value.release.len();
            TableState::new(
                compat::FILE,
                &loaded.source,
                loaded.problem.as_ref(),
                format!("{rows} releases of {}", loaded.value.updated),
            )
        },
    },
    DataTable {
        file: profiles::FILE,
        key: "profile",
        install: data::install::<Profiles>,
        state: |dir| {
            let (loaded, own) = profiles::load(Some(dir));
            let rows = loaded.value.profile.len();
            let problem = loaded.problem.as_ref().or(own.first());
            TableState::new(profiles::FILE, &loaded.source, problem, format!("{rows} profiles"))
        },
    },
    DataTable {
        file: explain::FILE,
        key: "pattern",
        install: data::install::<ErrorTable>,
        state: |dir| {
            let known = explain::PatternDb::load(Some(dir));
            TableState::new(explain::FILE, known.source(), known.problem(), "patterns of errors".to_owned())
        },
    },
];

/// Result of validating a table.
#[derive(Serialize)]
struct TableState {
    table: &'static str,
    source: String,
    holds: bool,
    problem: Option<String>,
    holds_what: String,
}

impl TableState {
    fn new(
        table: &'static str,
        source: &TableSource,
        problem: Option<&DataError>,
        holds_what: String,
    ) -> TableState {
        let source = match source {
            TableSource::Embedded => "came with gpuforge".to_owned(),
            TableSource::File(path) => path.display().to_string(),
        };
        TableState {
            table,
            source,
            holds: problem.is_none(),
            problem: problem.map(ToString::to_string),
            holds_what,
        }
    }
}

pub(crate) fn update(from: &Path, context: &Context) -> Result<()> {
    let row = recognise(from)?;
    let dir = context.places()?.data_dir;
    let target =
        (row.install)(row.file, from, &dir).map_err(|e| Hinted::new(e.to_string(), "nothing was changed"))?;
    if context.out.json {
        return context.out.json(&serde_json::json!({"table": row.file, "installed": target}));
    }
    context.out.text(&format!("installed {} as {}\n", row.file, target.display()))
}

/// Recognises a table by its TOML key, else by its file name.
fn recognise(from: &Path) -> Result<&'static DataTable> {
    let text = std::fs::read_to_string(from).map_err(|e| {
        Hinted::new(format!("{} cannot be read: {e}", from.display()), "--from names a TOML file")
    })?;
    let has = |key: &str| text.lines().any(|line| line.trim().starts_with(&format!("[[{key}]]")));
    let by_key = TABLES.iter().find(|row| has(row.key));
    let by_name = || TABLES.iter().find(|row| from.file_name().is_some_and(|name| name == row.file));
    by_key.or_else(by_name).ok_or_else(|| {
        let keys: Vec<String> = TABLES.iter().map(|row| format!("[[{}]] ({})", row.key, row.file)).collect();
        let what = format!("{} is none of the tables", from.display());
        Hinted::new(what, format!("a table has rows of {}", keys.join(", "))).into()
    })
}

pub(crate) fn check(context: &Context) -> Result<()> {
    let dir = context.places()?.data_dir;
    let states: Vec<TableState> = TABLES.iter().map(|row| (row.state)(&dir)).collect();
    let holds = states.iter().all(|s| s.holds);
    if context.out.json {
        context.out.json(&serde_json::json!({"tables": states, "holds": holds}))?;
    } else {
        let mut out = String::new();
        for state in &states {
            let (style, word) = if state.holds { (GOOD, "valid") } else { (BAD, "invalid") };
            let _ = writeln!(
                out,
                "{style}{word}{style:#}  {} ({}): {}",
                state.table, state.source, state.holds_what
            );
            if let Some(problem) = &state.problem {
                let _ = writeln!(out, "  {problem}");
            }
        }
        context.out.text(&out)?;
    }
    match holds {
        true => Ok(()),
        false => {
            Err(Hinted::new("a table is invalid", "the embedded one is used until it is corrected").into())
        }
    }
}
