//! Column role detection: which column is the symbol, time, open, high, low, close or volume, by name or user mapping.
//!
//! Names are compared without case, blanks and punctuation, and without the number that some services put in front
//! (`1. open`). One table, [`NAMES`], has every name that is recognised.

mod time_columns;

use std::path::Path;

use crate::error::FrameError;
pub(crate) use time_columns::{ColumnHeader, DigitTimes, ValueClass, unnamed};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The series that a row belongs to.
    Symbol,
    /// Timestamp; beside a [`Role::TimeOfDay`] the date.
    Time,
    /// Time of day, where date and time are two columns.
    TimeOfDay,
    /// Opening price.
    Open,
    /// Highest price.
    High,
    /// Lowest price.
    Low,
    /// Closing price.
    Close,
    /// Close adjusted for splits and dividends.
    AdjustedClose,
    /// Volume.
    Volume,
}

/// Alias table: role, its name, other names (normalised: lower case, letters and digits only).
pub const NAMES: [(Role, &str, &[&str]); 8] = [
    (
        Role::Symbol,
        "symbol",
        &[
            "ticker",
            "sym",
            "tic",
            "instrument",
            "instrumentid",
            "asset",
            "assetid",
            "code",
            "security",
            "securityid",
            "symbolid",
            "pair",
            "stock",
            "contract",
            "product",
            "productid",
        ],
    ),
    (
        Role::Time,
        "time",
        &[
            "date",
            "datetime",
            "timestamp",
            "ts",
            "t",
            "dt",
            "opentime",
            "timeopen",
            "windowstart",
            "starttime",
            "bartime",
            "tradedate",
            "tradingdate",
            "tradingday",
            "tsevent",
            "day",
            "epoch",
            "unix",
            "unixtimestamp",
            "gmttime",
            "utc",
            "timeutc",
            "dateutc",
        ],
    ),
    (Role::Open, "open", &["o", "openprice", "priceopen", "pxopen", "openpx", "opening"]),
    (Role::High, "high", &["h", "highprice", "pricehigh", "pxhigh", "highpx"]),
    (Role::Low, "low", &["l", "lowprice", "pricelow", "pxlow", "lowpx"]),
    (
        Role::Close,
        "close",
        &[
            "c",
            "last",
            "price",
            "closeprice",
            "priceclose",
            "pxclose",
            "pxlast",
            "closepx",
            "lastprice",
            "closelast",
            "px",
            "closing",
        ],
    ),
    (
        Role::AdjustedClose,
        "adjusted_close",
        &["adjclose", "adjustedclose", "closeadj", "closeadjusted", "adjcloseprice", "adjustedcloseprice"],
    ),
    (
        Role::Volume,
        "volume",
        &[
            "v",
            "vol",
            "qty",
            "quantity",
            "size",
            "tradedvolume",
            "tradevolume",
            "pxvolume",
            "basevolume",
            "volumebase",
        ],
    ),
];

impl Role {
    /// Name in errors and flags.
    pub fn name(self) -> &'static str {
        if self == Role::TimeOfDay {
            return "time of day";
        }
        NAMES.iter().find(|(role, ..)| *role == self).map_or("", |(_, name, _)| name)
    }

    /// Looks a role up by any of its names.
    pub fn of(name: &str) -> Option<Role> {
        let wanted = normalised(name);
        NAMES
            .iter()
            .find(|(_, own, others)| normalised(own) == wanted || others.contains(&wanted.as_str()))
            .map(|(role, ..)| *role)
    }

    /// Match rank of a column name: 0 exact, 1 other spelling, 2 alias.
    fn match_rank(self, column: &str) -> Option<u8> {
        let (_, own, others) = NAMES.iter().find(|(role, ..)| *role == self)?;
        let spelled = normalised(column);
        if column == *own {
            Some(0)
        } else if spelled == normalised(own) {
            Some(1)
        } else {
            others.contains(&spelled.as_str()).then_some(2)
        }
    }
}

/// Normalised name: lower case, without blanks, punctuation and a leading number.
fn normalised(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let tail = letters.trim_start_matches(|c: char| c.is_ascii_digit());
    if tail.is_empty() { letters } else { tail.to_string() }
}

/// Roles that the user mapped to columns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnMapping(Vec<(Role, String)>);

impl ColumnMapping {
    /// Maps a role to a column; replaces an earlier mapping.
    pub fn set(&mut self, role: Role, column: impl Into<String>) {
        self.0.retain(|(r, _)| *r != role);
        self.0.push((role, column.into()));
    }

    /// Parses `close=PX_LAST`, the argument of `--column`.
    pub fn parse(&mut self, text: &str) -> Result<(), FrameError> {
        let usage = |what: String| {
            let roles: Vec<&str> = NAMES.iter().map(|(_, name, _)| *name).collect();
            FrameError::Usage(format!(
                "{what}\n  hint: --column ROLE=NAME, where ROLE is one of {}",
                roles.join(", ")
            ))
        };
        let (role, column) = text.split_once('=').ok_or_else(|| usage(format!("`{text}` has no `=`")))?;
        let known =
            Role::of(role).ok_or_else(|| usage(format!("`{}` is nothing a column can be", role.trim())))?;
        if column.trim().is_empty() {
            return Err(usage(format!("`{text}` names no column")));
        }
        self.set(known, column.trim());
        Ok(())
    }

    /// The column mapped to a role.
    pub fn get(&self, role: Role) -> Option<&str> {
        self.0.iter().find(|(r, _)| *r == role).map(|(_, column)| column.as_str())
    }
}

/// Why a column got its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RoleReason {
    /// Mapped by the user.
    Given,
    /// By name.
    Name,
    /// By value: the only column that holds times.
    Values,
    /// A date column with a time-of-day column.
    DateAndTimeOfDay,
}

impl RoleReason {
    /// Description for reports.
    pub fn words(self) -> &'static str {
        match self {
            RoleReason::Given => "as the command says",
            RoleReason::Name => "by its name",
            RoleReason::Values => "by its values, the only ones that are times",
            RoleReason::DateAndTimeOfDay => "a date with a time of day beside it",
        }
    }
}

/// Column position of each role.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnRoles(Vec<(Role, usize, RoleReason)>);

impl ColumnRoles {
    /// The position of a role's column.
    pub fn get(&self, role: Role) -> Option<usize> {
        self.0.iter().find(|(r, ..)| *r == role).map(|(_, at, _)| *at)
    }

    /// Roles, positions and reasons.
    pub fn iter(&self) -> impl Iterator<Item = (Role, usize, RoleReason)> + '_ {
        self.0.iter().copied()
    }

    fn put(&mut self, role: Role, at: usize, why: RoleReason) {
        self.0.push((role, at, why));
    }

    /// Projection: positions of all columns that are read, ascending, without duplicates.
    pub fn positions(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.0.iter().map(|(_, at, _)| *at).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Resolves roles by column names: required ones, mapped ones, and the keys (symbol and time) if present. For files, values
/// are sampled as well ([`ColumnHeader`]), which tells a timestamp from a time of day.
pub fn resolve(
    path: &Path,
    names: &[String],
    mapping: &ColumnMapping,
    needed: &[Role],
) -> Result<ColumnRoles, FrameError> {
    let request = RoleRequest { mapping, needed, optional: &[Role::Symbol, Role::Time], without: &[] };
    let found = request.by_name(path, names)?;
    check_keys_unique(path, names, &found)?;
    Ok(found)
}

/// Which roles to resolve.
pub(crate) struct RoleRequest<'a> {
    pub mapping: &'a ColumnMapping,
    /// Required: missing is an error.
    pub needed: &'a [Role],
    /// Used if present.
    pub optional: &'a [Role],
    /// Never resolved.
    pub without: &'a [Role],
}

impl RoleRequest<'_> {
    /// Resolves roles by name or mapping.
    fn by_name(&self, path: &Path, names: &[String]) -> Result<ColumnRoles, FrameError> {
        let mut found = ColumnRoles::default();
        for (role, ..) in NAMES.iter().filter(|(role, ..)| !self.without.contains(role)) {
            let given = self.mapping.get(*role).is_some();
            let wanted = self.needed.contains(role) || given;
            if !wanted && !self.optional.contains(role) {
                continue;
            }
            let found_at = match find_column(path, names, self.mapping, *role) {
                // An ambiguous optional column is left out; an ambiguous key is an error.
                Err(_) if !wanted && !matches!(role, Role::Symbol | Role::Time) => None,
                other => other?,
            };
            match found_at {
                Some(at) => found.put(*role, at, if given { RoleReason::Given } else { RoleReason::Name }),
                None if wanted => return Err(missing(path, names, *role)),
                None => {}
            }
        }
        Ok(found)
    }

    /// Resolves the columns of a file; with `timed` its time columns too, by name and by values.
    pub(crate) fn of_file(
        &self,
        header: &mut ColumnHeader<'_>,
        timed: bool,
    ) -> Result<ColumnRoles, FrameError> {
        let without: Vec<Role> = self.without.iter().copied().chain([Role::Time]).collect();
        let mut found = RoleRequest { without: &without, ..*self }.by_name(header.path, header.names)?;
        if timed {
            found.put_time_columns(header.time_columns(self.mapping)?);
        }
        check_keys_unique(header.path, header.names, &found)?;
        Ok(found)
    }
}

/// Rejects a key column that has another role as well.
fn check_keys_unique(path: &Path, names: &[String], found: &ColumnRoles) -> Result<(), FrameError> {
    for key in [Role::Symbol, Role::Time, Role::TimeOfDay] {
        let Some(at) = found.get(key) else { continue };
        let twice = found.iter().find(|(role, position, _)| *role != key && *position == at);
        if let Some((other, position, _)) = twice {
            return Err(FrameError::Column {
                path: path.into(),
                message: format!(
                    "`{}` cannot be both {} and {}",
                    names.get(position).map_or("", String::as_str),
                    key.name(),
                    other.name()
                ),
                found: list(names),
                hint: format!("--column {}=NAME", key.name()),
            });
        }
    }
    Ok(())
}

/// The column of a role, if any; an error if ambiguous.
fn find_column(
    path: &Path,
    names: &[String],
    mapping: &ColumnMapping,
    role: Role,
) -> Result<Option<usize>, FrameError> {
    if let Some(column) = mapping.get(role) {
        return named(path, names, role, column).map(Some);
    }
    let fits: Vec<(u8, usize)> =
        names.iter().enumerate().filter_map(|(at, name)| Some((role.match_rank(name)?, at))).collect();
    let Some(best) = fits.iter().map(|(rank, _)| *rank).min() else { return Ok(None) };
    let best: Vec<usize> = fits.iter().filter(|(rank, _)| *rank == best).map(|(_, at)| *at).collect();
    match best.as_slice() {
        [one] => Ok(Some(*one)),
        several => {
            let several: Vec<String> =
                several.iter().filter_map(|at| names.get(*at)).map(|name| format!("`{name}`")).collect();
            Err(FrameError::Column {
                path: path.into(),
                message: format!("the {} could be {}", role.name(), several.join(" or ")),
                found: list(names),
                hint: format!("say which: --column {}=NAME", role.name()),
            })
        }
    }
}

/// A mapped column: exact match, else the only one with the same normalised name.
fn find_named(names: &[String], column: &str) -> Option<usize> {
    if let Some(at) = names.iter().position(|name| name == column) {
        return Some(at);
    }
    let alike: Vec<usize> = names
        .iter()
        .enumerate()
        .filter(|(_, name)| normalised(name) == normalised(column))
        .map(|(at, _)| at)
        .collect();
    match alike.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// As [`find_named`], or an error that lists the columns.
fn named(path: &Path, names: &[String], role: Role, column: &str) -> Result<usize, FrameError> {
    if let Some(at) = find_named(names, column) {
        return Ok(at);
    }
    let hint = match closest(names, &[normalised(column)]) {
        Some(near) => format!("did you mean --column {}={near}?", role.name()),
        None => format!("--column {}=NAME with a name from the list", role.name()),
    };
    let message = format!("there is no column `{column}` for {}", role.name());
    Err(FrameError::Column { path: path.into(), message, found: list(names), hint })
}

/// Error for a missing required column.
fn missing(path: &Path, names: &[String], role: Role) -> FrameError {
    let known: Vec<String> = NAMES
        .iter()
        .filter(|(r, ..)| *r == role)
        .flat_map(|(_, own, others)| {
            std::iter::once(normalised(own)).chain(others.iter().map(|o| o.to_string()))
        })
        .collect();
    let hint = match closest(names, &known) {
        Some(near) => format!("if it is `{near}`: --column {}={near}", role.name()),
        None => format!("if it goes by another name: --column {}=NAME", role.name()),
    };
    let message = format!("the {} column is missing", role.name());
    FrameError::Column { path: path.into(), message, found: list(names), hint }
}

/// The column most similar to one of these names (Jaro-Winkler), if any. Names of one or two letters match everything.
fn closest<'a>(names: &'a [String], known: &[String]) -> Option<&'a str> {
    let likeness = |name: &str| {
        let spelled = normalised(name);
        let long = known.iter().filter(|k| k.chars().count() > 2);
        long.map(|k| strsim::jaro_winkler(k, &spelled)).fold(0.0, f64::max)
    };
    let best = names.iter().map(|name| (likeness(name), name.as_str())).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

/// Column list for an error message, truncated.
pub(crate) fn list(names: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    if text.is_empty() { "no columns".to_string() } else { text }
}
