//! What does a file hand over? Some rows as columns of one type each, whatever they were in the file.

use std::{collections::HashMap, path::PathBuf};

use arrow::datatypes::DataType;

use super::{path_key::KeySource, time::Clock, time_of_day};
use crate::{
    bars::Key,
    error::FrameError,
    names::{Columns, Role},
};

/// Rows that are decoded at once.
pub(super) const ROWS: usize = 65_536;

/// The roles that are numbers, in the order of a chunk's columns. The adjusted close is gone once it was used.
pub(super) const VALUES: [Role; 6] =
    [Role::Open, Role::High, Role::Low, Role::Close, Role::Volume, Role::AdjustedClose];

/// What of a file is read, and as what.
#[derive(Debug, Clone)]
pub(super) struct Plan {
    /// The file.
    pub path: PathBuf,
    /// Its place among the files.
    pub file: usize,
    /// Names of all its columns.
    pub names: Vec<String>,
    /// Which of them are read.
    pub columns: Columns,
    /// The symbol of all its rows, where no column says it.
    pub symbol: Option<Key>,
    /// Where the symbol is from.
    pub keyed: KeySource,
    /// How its column of times of day is written, if it has one.
    pub of_day: time_of_day::Form,
    /// The type of its time column: as it is in the file, or what the first texts look like.
    pub time: Option<DataType>,
    /// Which values are asked for.
    pub needed: Vec<Role>,
    /// Values that are NaN where a cell is no number, instead of an error.
    pub or_nan: Vec<Role>,
    /// Are prices to be scaled to the adjusted close?
    pub adjusted: bool,
}

impl Plan {
    /// The name of a role's column.
    pub(super) fn name(&self, role: Role) -> &str {
        self.columns.get(role).and_then(|at| self.names.get(at)).map_or(role.name(), String::as_str)
    }
}

/// Some rows.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Runs of rows of one symbol: which, and how many.
    pub symbols: Vec<(u32, usize)>,
    /// Times; empty if there are none.
    pub time: Vec<i64>,
    /// Numbers, by role; empty if they are not asked for.
    pub values: [Vec<f64>; 6],
    /// Number of each row in its file, from 1.
    pub row: Vec<u64>,
}

impl Chunk {
    /// A row of this symbol.
    pub(super) fn push_symbol(&mut self, id: u32) {
        match self.symbols.last_mut() {
            Some((last, count)) if *last == id => *count += 1,
            _ => self.symbols.push((id, 1)),
        }
    }

    /// Undoes what was pushed after so many rows, symbols excepted.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.time.truncate(rows);
        self.row.truncate(rows);
        self.values.iter_mut().for_each(|v| v.truncate(rows));
    }

    /// Scales prices if that was asked for, and forgets what was only needed for it.
    pub(super) fn finish(&mut self, plan: &Plan) {
        let [open, high, low, close, _, adjusted] = &mut self.values;
        if plan.adjusted {
            for column in [open, high, low] {
                for ((price, close), adjusted) in column.iter_mut().zip(close.iter()).zip(adjusted.iter()) {
                    *price *= adjusted / close;
                }
            }
            std::mem::swap(close, adjusted);
        }
        adjusted.clear();
        for (role, column) in VALUES.iter().zip(&mut self.values) {
            if !plan.needed.contains(role) {
                column.clear();
            }
        }
    }
}

/// Every symbol that was met, in the order of first appearance.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    keys: Vec<Option<Key>>,
    by_key: HashMap<Key, u32>,
    by_text: HashMap<String, u32>,
    last: Option<(String, u32)>,
    last_number: Option<(i64, u32)>,
}

impl Symbols {
    /// The number of a ticker.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        if let Some((last, id)) = &self.last
            && last == text
        {
            return *id;
        }
        let id = match self.by_text.get(text) {
            Some(id) => *id,
            None => {
                let id = self.key(Some(Key::Text(text.to_string())));
                self.by_text.insert(text.to_string(), id);
                id
            }
        };
        match &mut self.last {
            Some((last, known)) => {
                last.clear();
                last.push_str(text);
                *known = id;
            }
            None => self.last = Some((text.to_string(), id)),
        }
        id
    }

    /// The number of an identifier.
    pub(super) fn number(&mut self, number: i64) -> u32 {
        match self.last_number {
            Some((last, id)) if last == number => id,
            _ => {
                let id = self.key(Some(Key::Number(number)));
                self.last_number = Some((number, id));
                id
            }
        }
    }

    /// The number of any key. `None` is the one series of an input without symbols.
    pub(super) fn key(&mut self, key: Option<Key>) -> u32 {
        let next = self.keys.len() as u32;
        let id = match &key {
            Some(key) => *self.by_key.entry(key.clone()).or_insert(next),
            None => self.keys.iter().position(Option::is_none).map_or(next, |at| at as u32),
        };
        if id == next {
            self.keys.push(key);
        }
        id
    }

    /// All of them.
    pub(super) fn keys(&self) -> &[Option<Key>] {
        &self.keys
    }
}

/// What is kept while files are read one after the other.
#[derive(Debug)]
pub(super) struct Intake {
    /// Symbols met so far.
    pub symbols: Symbols,
    /// The type of all times.
    pub clock: Clock,
    /// Are bad rows dropped?
    pub skip_bad: bool,
    /// How many were.
    pub skipped: u64,
    /// Why the first of them were.
    pub reasons: Vec<String>,
}

/// Reasons that are kept.
const REASONS: usize = 5;

impl Intake {
    /// A row that cannot be used: an error, or counted and dropped.
    pub(super) fn bad(
        &mut self,
        plan: &Plan,
        row: u64,
        column: &str,
        message: &str,
    ) -> Result<(), FrameError> {
        let error = |message: String| FrameError::Row {
            path: plan.path.clone(),
            row,
            column: column.to_string(),
            message,
        };
        if !self.skip_bad {
            return Err(error(format!("{message}\n  hint: correct it, or drop such rows with --skip-bad")));
        }
        self.skipped += 1;
        if self.reasons.len() < REASONS {
            self.reasons.push(error(message.to_string()).to_string());
        }
        Ok(())
    }
}

/// A file that is being read.
pub(super) trait Source: Send {
    /// The next rows; `None` at the end.
    fn next(&mut self, intake: &mut Intake) -> Result<Option<Chunk>, FrameError>;
    /// How many bytes of the file are done.
    fn bytes(&self) -> u64;
}

/// A cell in an error message: what it says, if it is short enough.
pub(super) fn shown(cell: &[u8]) -> String {
    let text = String::from_utf8_lossy(cell);
    let short: String = text.chars().take(40).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", short.escape_debug())
}
