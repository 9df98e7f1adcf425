//! Which column is what? By its name, in any case and spelling that people use, or by the user's word.
//!
//! Names are compared without case, blanks and punctuation, and without the number that some services put in front
//! (`1. open`). One table, [`NAMES`], has every name that is recognised.

mod when;

use std::path::Path;

use crate::error::FrameError;
pub(crate) use when::{Digits, Header, Values, unnamed};

/// What a column is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Which series a row belongs to.
    Symbol,
    /// When; beside a [`Role::TimeOfDay`] the date.
    Time,
    /// The time of day, where the time is in two columns.
    TimeOfDay,
    /// First price.
    Open,
    /// Highest price.
    High,
    /// Lowest price.
    Low,
    /// Last price.
    Close,
    /// Last price with splits and dividends taken out.
    AdjustedClose,
    /// Volume.
    Volume,
}

/// A role, its own name, and the others it goes by (lower case, letters and digits only).
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
    /// The name that errors and flags use.
    pub fn name(self) -> &'static str {
        if self == Role::TimeOfDay {
            return "time of day";
        }
        NAMES.iter().find(|(role, ..)| *role == self).map_or("", |(_, name, _)| name)
    }

    /// The role that goes by a name.
    pub fn of(name: &str) -> Option<Role> {
        let plain = plain(name);
        NAMES
            .iter()
            .find(|(_, own, others)| crate::names::plain(own) == plain || others.contains(&plain.as_str()))
            .map(|(role, ..)| *role)
    }

    /// How well a column's name fits: 0 is the name itself, 1 the name in another spelling, 2 another name.
    fn fits(self, column: &str) -> Option<u8> {
        let (_, own, others) = NAMES.iter().find(|(role, ..)| *role == self)?;
        let spelled = plain(column);
        if column == *own {
            Some(0)
        } else if spelled == plain(own) {
            Some(1)
        } else {
            others.contains(&spelled.as_str()).then_some(2)
        }
    }
}

/// A name without case, blanks and punctuation, and without a leading number.
fn plain(name: &str) -> String {
    let letters: String = name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect();
    let tail = letters.trim_start_matches(|c: char| c.is_ascii_digit());
    if tail.is_empty() { letters } else { tail.to_string() }
}

/// Columns that the user named.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Mapping(Vec<(Role, String)>);

impl Mapping {
    /// This role is that column. A later word replaces an earlier one.
    pub fn set(&mut self, role: Role, column: impl Into<String>) {
        self.0.retain(|(r, _)| *r != role);
        self.0.push((role, column.into()));
    }

    /// Takes `close=PX_LAST`, as written after `--column`.
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

    /// The column that was named for a role.
    pub fn get(&self, role: Role) -> Option<&str> {
        self.0.iter().find(|(r, _)| *r == role).map(|(_, column)| column.as_str())
    }
}

/// Why a column got its role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The user named it.
    Given,
    /// Its name.
    Name,
    /// Its values are times, and no other column's are.
    Values,
    /// A date, and the time of day beside it.
    DateAndTimeOfDay,
}

impl Why {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Why::Given => "as the command says",
            Why::Name => "by its name",
            Why::Values => "by its values, the only ones that are times",
            Why::DateAndTimeOfDay => "a date with a time of day beside it",
        }
    }
}

/// Where each role is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Columns(Vec<(Role, usize, Why)>);

impl Columns {
    /// The position of a role's column.
    pub fn get(&self, role: Role) -> Option<usize> {
        self.0.iter().find(|(r, ..)| *r == role).map(|(_, at, _)| *at)
    }

    /// Roles, positions and reasons.
    pub fn iter(&self) -> impl Iterator<Item = (Role, usize, Why)> + '_ {
        self.0.iter().copied()
    }

    fn put(&mut self, role: Role, at: usize, why: Why) {
        self.0.push((role, at, why));
    }

    /// Positions of all columns that are read, ascending, each once.
    pub fn positions(&self) -> Vec<usize> {
        let mut all: Vec<usize> = self.0.iter().map(|(_, at, _)| *at).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Finds columns by their names: those that are needed, those that the user named, and the keys (symbol and time), which
/// are taken along when they are there. Files are looked into as well ([`Header`]), which tells a time from a time of day.
pub fn resolve(
    path: &Path,
    names: &[String],
    mapping: &Mapping,
    needed: &[Role],
) -> Result<Columns, FrameError> {
    let asked = Asked { mapping, needed, optional: &[Role::Symbol, Role::Time], without: &[] };
    let found = asked.by_name(path, names)?;
    once(path, names, &found)?;
    Ok(found)
}

/// Which roles are wanted.
pub(crate) struct Asked<'a> {
    pub mapping: &'a Mapping,
    /// Missing is an error.
    pub needed: &'a [Role],
    /// Taken along when they are there.
    pub optional: &'a [Role],
    /// Never taken.
    pub without: &'a [Role],
}

impl Asked<'_> {
    /// The columns that are found by their names, or by the user's.
    fn by_name(&self, path: &Path, names: &[String]) -> Result<Columns, FrameError> {
        let mut found = Columns::default();
        for (role, ..) in NAMES.iter().filter(|(role, ..)| !self.without.contains(role)) {
            let given = self.mapping.get(*role).is_some();
            let wanted = self.needed.contains(role) || given;
            if !wanted && !self.optional.contains(role) {
                continue;
            }
            let placed = match place(path, names, self.mapping, *role) {
                // Two that could be it are none where nobody insists; a key is always insisted on.
                Err(_) if !wanted && !matches!(role, Role::Symbol | Role::Time) => None,
                other => other?,
            };
            match placed {
                Some(at) => found.put(*role, at, if given { Why::Given } else { Why::Name }),
                None if wanted => return Err(missing(path, names, *role)),
                None => {}
            }
        }
        Ok(found)
    }

    /// The columns of a file; with `timed` its time, by name and by values.
    pub(crate) fn of_file(&self, header: &mut Header<'_>, timed: bool) -> Result<Columns, FrameError> {
        let without: Vec<Role> = self.without.iter().copied().chain([Role::Time]).collect();
        let mut found = Asked { without: &without, ..*self }.by_name(header.path, header.names)?;
        if timed {
            found.put_when(header.when(self.mapping)?);
        }
        once(header.path, header.names, &found)?;
        Ok(found)
    }
}

/// Refuses a key that is another role as well.
fn once(path: &Path, names: &[String], found: &Columns) -> Result<(), FrameError> {
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

/// The column of one role, if there is one.
fn place(path: &Path, names: &[String], mapping: &Mapping, role: Role) -> Result<Option<usize>, FrameError> {
    if let Some(column) = mapping.get(role) {
        return named(path, names, role, column).map(Some);
    }
    let fits: Vec<(u8, usize)> =
        names.iter().enumerate().filter_map(|(at, name)| Some((role.fits(name)?, at))).collect();
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

/// A column that the user named: exactly, or else the only one that is spelled alike.
fn find_named(names: &[String], column: &str) -> Option<usize> {
    if let Some(at) = names.iter().position(|name| name == column) {
        return Some(at);
    }
    let alike: Vec<usize> =
        names.iter().enumerate().filter(|(_, name)| plain(name) == plain(column)).map(|(at, _)| at).collect();
    match alike.as_slice() {
        [one] => Some(*one),
        _ => None,
    }
}

/// The same, or the error that says what is there.
fn named(path: &Path, names: &[String], role: Role, column: &str) -> Result<usize, FrameError> {
    if let Some(at) = find_named(names, column) {
        return Ok(at);
    }
    let hint = match closest(names, &[plain(column)]) {
        Some(near) => format!("did you mean --column {}={near}?", role.name()),
        None => format!("--column {}=NAME with a name from the list", role.name()),
    };
    let message = format!("there is no column `{column}` for {}", role.name());
    Err(FrameError::Column { path: path.into(), message, found: list(names), hint })
}

/// The error for a role without a column.
fn missing(path: &Path, names: &[String], role: Role) -> FrameError {
    let known: Vec<String> = NAMES
        .iter()
        .filter(|(r, ..)| *r == role)
        .flat_map(|(_, own, others)| std::iter::once(plain(own)).chain(others.iter().map(|o| o.to_string())))
        .collect();
    let hint = match closest(names, &known) {
        Some(near) => format!("if it is `{near}`: --column {}={near}", role.name()),
        None => format!("if it goes by another name: --column {}=NAME", role.name()),
    };
    let message = format!("the {} column is missing", role.name());
    FrameError::Column { path: path.into(), message, found: list(names), hint }
}

/// The column whose name is most like one of these, if any is. Names of one or two letters are like everything.
fn closest<'a>(names: &'a [String], known: &[String]) -> Option<&'a str> {
    let likeness = |name: &str| {
        let spelled = plain(name);
        let long = known.iter().filter(|k| k.chars().count() > 2);
        long.map(|k| strsim::jaro_winkler(k, &spelled)).fold(0.0, f64::max)
    };
    let best = names.iter().map(|name| (likeness(name), name.as_str())).max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 > 0.8).then_some(best.1)
}

/// Columns for an error: all of them up to a length.
pub(crate) fn list(names: &[String]) -> String {
    const SHOWN: usize = 40;
    let mut text = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    if names.len() > SHOWN {
        text.push_str(&format!(" and {} more", names.len() - SHOWN));
    }
    if text.is_empty() { "no columns".to_string() } else { text }
}
