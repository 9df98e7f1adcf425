//! Dotted version numbers and version requirements (`>=2.8,<2.11`), compared numerically.

use std::{cmp::Ordering, fmt, str::FromStr};

use serde::{Deserialize, Serialize, de::Error as _};

/// Max components of a version; no real one has more.
const MAX_PARTS: usize = 8;

/// Numbers with dots between them: `2.14.1`, `580.95.05`, `8.9`. `580` and `580.0` are equal.
#[derive(Debug, Clone)]
pub struct Version {
    numbers: Vec<u32>,
    /// As it was written: `580.95.05` keeps its zero.
    text: String,
}

/// Not a version.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version such as 580.95.05")]
pub struct ParseVersionError(String);

impl Version {
    /// The first number.
    pub fn major(&self) -> u32 {
        self.numbers.first().copied().unwrap_or(0)
    }

    /// The second number; 0 where there is none.
    pub fn minor(&self) -> u32 {
        self.numbers.get(1).copied().unwrap_or(0)
    }

    /// The version that a text begins with (`580.95.05`, `580.95.05 (open)`); `None` where it begins with none.
    pub fn leading(text: &str) -> Option<Version> {
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        text.get(..end)?.trim_end_matches('.').parse().ok()
    }
}

impl FromStr for Version {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, ParseVersionError> {
        let wrong = || ParseVersionError(text.chars().take(40).collect());
        let number = |part: &str| {
            let digits = !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            digits.then(|| part.parse().ok()).flatten()
        };
        let text = text.trim();
        let numbers: Option<Vec<u32>> = text.split('.').take(MAX_PARTS + 1).map(number).collect();
        let numbers = numbers.filter(|n| n.len() <= MAX_PARTS).ok_or_else(wrong)?;
        Ok(Version { numbers, text: text.to_owned() })
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        let at = |version: &Version, i: usize| version.numbers.get(i).copied().unwrap_or(0);
        let longest = self.numbers.len().max(other.numbers.len());
        (0..longest).map(|i| at(self, i).cmp(&at(other, i))).find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for Version {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

/// Predicate on the ordering of a version and its bound.
type Comparison = fn(Ordering) -> bool;

/// Comparison operators. Longer ones first: `>` would match the beginning of `>=`.
const OPERATORS: [(&str, Comparison); 5] = [
    (">=", Ordering::is_ge),
    ("<=", Ordering::is_le),
    ("==", Ordering::is_eq),
    ("<", Ordering::is_lt),
    (">", Ordering::is_gt),
];

/// Version requirement: comparisons that must all hold (`>=2.8,<2.11`).
#[derive(Debug, Clone, Default)]
pub struct VersionReq {
    parts: Vec<(Comparison, Version)>,
    text: String,
}

impl VersionReq {
    /// Does this version satisfy the requirement?
    pub fn matches(&self, version: &Version) -> bool {
        self.parts.iter().all(|(sign, bound)| sign(version.cmp(bound)))
    }
}

impl fmt::Display for VersionReq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for VersionReq {
    type Err = ParseVersionError;

    fn from_str(text: &str) -> Result<Self, ParseVersionError> {
        let part = |part: &str| {
            let part = part.trim();
            let found = OPERATORS.iter().find_map(|(sign, holds)| Some((*holds, part.strip_prefix(sign)?)));
            let (holds, version) = found.ok_or_else(|| ParseVersionError(part.to_owned()))?;
            Ok((holds, version.parse()?))
        };
        let parts: Result<Vec<_>, ParseVersionError> = text.split(',').map(part).collect();
        Ok(VersionReq { parts: parts?, text: text.to_owned() })
    }
}

impl<'de> Deserialize<'de> for VersionReq {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn versions_compare_numerically() {
        assert!(v("2.10.0") > v("2.9.1") && v("580.95.05") > v("580.82.07") && v("8.9") < v("12.0"));
        assert!(v("580") == v("580.0.0") && v("0.12.0.1") > v("0.12.0"));
        assert_eq!(v("580.95.05").to_string(), "580.95.05");
        assert_eq!(Version::leading("580.95.05 (open)"), Some(v("580.95.05")));
        assert_eq!(Version::leading("amdgpu"), None);
    }

    #[test]
    fn malformed_versions_are_rejected() {
        for wrong in ["", ".", "2.", "a", "2.x", "-1", "99999999999", "1.2.3.4.5.6.7.8.9", "+5"] {
            assert!(wrong.parse::<Version>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn requirements_hold_at_their_bounds() {
        let need: VersionReq = ">=2.8,<2.11".parse().unwrap();
        let holds: Vec<bool> =
            ["2.7.1", "2.8", "2.10.9", "2.11.0"].into_iter().map(|t| need.matches(&v(t))).collect();
        assert_eq!(holds, [false, true, true, false]);
        assert!("2.8".parse::<VersionReq>().is_err() && ">=x".parse::<VersionReq>().is_err());
    }
}
