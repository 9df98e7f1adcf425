//! Decoded chunk of rows in columns, the read plan of a file, and the symbol interner.

use std::{collections::HashMap, path::PathBuf};

use arrow::datatypes::DataType;

use super::{path_symbol::SymbolSource, time::TimeEncoding, time_of_day};
use crate::{
    bars::SymbolKey,
    column_roles::{ColumnRoles, Role},
    error::FrameError,
    group_by_symbol::OrderedGroups,
};

/// Rows per chunk.
pub(super) const CHUNK_ROWS: usize = 65_536;

/// Numeric roles, in the order of a chunk's columns. The adjusted close is dropped after use.
pub(super) const VALUE_ROLES: [Role; 6] =
    [Role::Open, Role::High, Role::Low, Role::Close, Role::Volume, Role::AdjustedClose];

/// Read plan of a file: projection, roles and types.
#[derive(Debug, Clone)]
pub(super) struct ReadPlan {
    /// The file.
    pub path: PathBuf,
    /// Index of the file.
    pub file: usize,
    /// All column names.
    pub names: Vec<String>,
    /// Roles of the columns that are read.
    pub columns: ColumnRoles,
    /// Symbol of all rows, where there is no symbol column.
    pub symbol: Option<SymbolKey>,
    /// Where the symbol comes from.
    pub symbol_source: SymbolSource,
    /// Format of the time-of-day column, if any.
    pub of_day: time_of_day::TimeOfDayFormat,
    /// Type of the time column: declared, or inferred from text.
    pub time: Option<DataType>,
    /// Requested values.
    pub needed: Vec<Role>,
    /// Values that are NaN where a cell is not a number, instead of an error.
    pub or_nan: Vec<Role>,
    /// Scale prices to the adjusted close.
    pub adjusted: bool,
}

impl ReadPlan {
    /// The name of a role's column.
    pub(super) fn name(&self, role: Role) -> &str {
        self.columns.get(role).and_then(|at| self.names.get(at)).map_or(role.name(), String::as_str)
    }
}

/// Decoded rows.
#[derive(Debug, Default)]
pub(super) struct Chunk {
    /// Run-length encoded symbol ids: id and number of rows.
    pub symbols: Vec<(u32, usize)>,
    /// Times; empty without a time column.
    pub time: Vec<i64>,
    /// Values by role; empty if not requested.
    pub values: [Vec<f64>; 6],
    /// Row numbers in the file, from 1.
    pub row: Vec<u64>,
}

impl Chunk {
    /// Appends a row of this symbol.
    pub(super) fn push_symbol(&mut self, id: u32) {
        match self.symbols.last_mut() {
            Some((last, count)) if *last == id => *count += 1,
            _ => self.symbols.push((id, 1)),
        }
    }

    /// Truncates to `rows`, symbols excepted.
    pub(super) fn truncate(&mut self, rows: usize) {
        self.time.truncate(rows);
        self.row.truncate(rows);
        self.values.iter_mut().for_each(|v| v.truncate(rows));
    }

    /// Adjusts prices if requested, then drops columns that were not requested.
    pub(super) fn finish(&mut self, plan: &ReadPlan) {
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
        for (role, column) in VALUE_ROLES.iter().zip(&mut self.values) {
            if !plan.needed.contains(role) {
                column.clear();
            }
        }
    }
}

/// Symbol interner: keys to dense ids in order of first appearance, with a one-entry cache for runs of equal symbols.
#[derive(Debug, Default)]
pub(super) struct SymbolInterner {
    keys: OrderedGroups<Option<SymbolKey>, ()>,
    by_text: HashMap<String, u32>,
    last_text: Option<(String, u32)>,
    last_number: Option<(i64, u32)>,
}

impl SymbolInterner {
    /// Id of a text symbol.
    pub(super) fn text(&mut self, text: &str) -> u32 {
        if let Some((last, id)) = &self.last_text
            && last == text
        {
            return *id;
        }
        let id = match self.by_text.get(text) {
            Some(id) => *id,
            None => {
                let id = self.key(Some(SymbolKey::Text(text.to_string())));
                self.by_text.insert(text.to_string(), id);
                id
            }
        };
        match &mut self.last_text {
            Some((last, known)) => {
                last.clear();
                last.push_str(text);
                *known = id;
            }
            None => self.last_text = Some((text.to_string(), id)),
        }
        id
    }

    /// Id of an integer symbol.
    pub(super) fn number(&mut self, number: i64) -> u32 {
        match self.last_number {
            Some((last, id)) if last == number => id,
            _ => {
                let id = self.key(Some(SymbolKey::Number(number)));
                self.last_number = Some((number, id));
                id
            }
        }
    }

    /// Id of any key; `None` is the single series of an input without symbols.
    pub(super) fn key(&mut self, key: Option<SymbolKey>) -> u32 {
        self.keys.id(&key) as u32
    }

    /// All keys with their (empty) groups, by id.
    pub(super) fn keys(&self) -> &[(Option<SymbolKey>, ())] {
        self.keys.groups()
    }
}

/// State shared by the files of an input.
#[derive(Debug)]
pub(super) struct ReadState {
    /// Symbols met so far.
    pub symbols: SymbolInterner,
    /// Encoding of all times.
    pub time_encoding: TimeEncoding,
    /// Skip bad rows instead of failing.
    pub skip_bad: bool,
    /// Rows skipped.
    pub skipped: u64,
    /// Reasons of the first skipped rows.
    pub reasons: Vec<String>,
}

/// Maximum number of reasons kept.
const MAX_REASONS: usize = 5;

impl ReadState {
    /// Handles a row that cannot be parsed: an error, or counted and skipped.
    pub(super) fn bad(
        &mut self,
        plan: &ReadPlan,
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
        if self.reasons.len() < MAX_REASONS {
            self.reasons.push(error(message.to_string()).to_string());
        }
        Ok(())
    }
}

/// Decoder of an open file.
pub(super) trait ChunkSource: Send {
    /// The next chunk; `None` at the end.
    fn next_chunk(&mut self, state: &mut ReadState) -> Result<Option<Chunk>, FrameError>;
    /// Bytes of the file consumed.
    fn bytes_read(&self) -> u64;
}

/// A cell quoted and truncated for an error message.
pub(super) fn quote_cell(cell: &[u8]) -> String {
    let text = String::from_utf8_lossy(cell);
    let short: String = text.chars().take(40).collect();
    let dots = if short.len() < text.len() { "…" } else { "" };
    format!("`{}{dots}`", short.escape_debug())
}
