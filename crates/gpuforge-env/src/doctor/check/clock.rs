//! Check `clock`: a wrong system clock breaks TLS certificates, and with them every download.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use gpuforge_detect::probe::filesystem::FileSystem;

use super::python;
use crate::doctor::{Finding, Status, SystemView};

/// 2026-01-01: before this program existed.
const EARLIEST: u64 = 1_767_225_600;
/// 2100-01-01: implausible.
const LATEST: u64 = 4_102_444_800;

/// Tolerance: file server clocks and time zones differ by less.
const SLACK: Duration = Duration::from_secs(86_400);

/// Package databases, modified whenever a package is installed.
const LISTS: [&str; 3] = ["/var/lib/dpkg/status", "/var/lib/rpm", "/lib/apk/db/installed"];

/// `clock`
pub(super) fn clock(view: &SystemView) -> Finding {
    let seconds = view.now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let set =
        |found: Finding| found.step("set the clock: sudo timedatectl set-ntp true; in WSL: wsl --shutdown");
    if !(EARLIEST..LATEST).contains(&seconds) {
        let said = format!("the clock says {}: certificates will be refused", date(seconds));
        return set(Finding::new(Status::Error, said));
    }
    match newest(view) {
        Some((what, when)) if when > view.now() + SLACK => {
            let said = format!("the clock says {}, and {what} was installed after that", date(seconds));
            set(Finding::new(Status::Warning, said))
        }
        _ => Finding::healthy(format!("{} (UTC)", date(seconds))),
    }
}

/// The most recently installed package, by file modification time.
fn newest(view: &SystemView) -> Option<(String, SystemTime)> {
    let packages = python::site_packages(view).into_iter().flat_map(|site| {
        let names = view.list(&site).into_iter().filter(|n| n.ends_with(".dist-info"));
        names.map(|n| format!("{site}/{n}")).collect::<Vec<_>>()
    });
    let all = packages.chain(LISTS.iter().map(|l| (*l).to_owned()));
    let newest = all.filter_map(|path| Some((view.modified(&path)?, path))).max()?;
    let name = newest.1.rsplit('/').next().unwrap_or_default();
    Some((name.trim_end_matches(".dist-info").to_owned(), newest.0))
}

/// `2026-11-16` from seconds since 1970, by the civil calendar.
fn date(seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let leap = |y: u64| (y.is_multiple_of(4) && !y.is_multiple_of(100)) || y.is_multiple_of(400);
    let mut year = 1970;
    while year < 9999 && days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let mut month = 1;
    for length in [31, 28 + u64::from(leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let of = [0, 951_782_400, 1_767_225_599, EARLIEST, LATEST].map(date);
        assert_eq!(of, ["1970-01-01", "2000-02-29", "2025-12-31", "2026-01-01", "2100-01-01"]);
    }
}
