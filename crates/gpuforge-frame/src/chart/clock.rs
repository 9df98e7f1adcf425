//! When was a bar, and which bars are worth a label? The calendar over bars that are drawn side by side, without gaps.
//!
//! A label stands at the first bar of a year, month, week, day, hour …: the finest of these that has room. Nights and
//! weekends take no room, so the distance between labels varies.

use arrow::array::{
    temporal_conversions::as_datetime_with_timezone, timezone::Tz, types::TimestampSecondType,
};
use arrow::datatypes::DataType;

use super::font;
use crate::bars::Layout;

const DAY: i64 = 86_400;
/// Years far beyond any market; what lies outside is taken for this.
const FARTHEST: f64 = 1e12;
/// The least room per label.
const PER_LABEL: f64 = 72.0;
/// Room between two labels.
const BETWEEN: f64 = 14.0;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Plain integers between these, in seconds, are taken as such; times 10³, 10⁶ and 10⁹ likewise. 1990 to 2100.
const PLAUSIBLE: [f64; 2] = [631_152_000.0, 4_102_444_800.0];

/// A stretch of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Months(i64),
    /// Begins on Monday, and with a month.
    Week,
    Seconds(i64),
}

use Unit::{Months, Seconds, Week};

/// From coarse to fine.
const UNITS: [Unit; 22] = [
    Months(1200),
    Months(600),
    Months(240),
    Months(120),
    Months(60),
    Months(24),
    Months(12),
    Months(3),
    Months(1),
    Week,
    Seconds(DAY),
    Seconds(43_200),
    Seconds(21_600),
    Seconds(10_800),
    Seconds(3_600),
    Seconds(1_800),
    Seconds(900),
    Seconds(300),
    Seconds(60),
    Seconds(15),
    Seconds(5),
    Seconds(1),
];

/// What the bars' times are.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Clock {
    /// There are none: bars are counted.
    Index,
    /// Numbers that are no times.
    Count(Vec<i64>),
    /// Seconds of the local clock since 1970.
    Calendar {
        /// Per bar.
        seconds: Vec<f64>,
        /// The zone's name.
        zone: Option<String>,
        /// Is every time a midnight?
        daily: bool,
    },
}

/// A label of the time axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Label {
    pub(super) bar: usize,
    pub(super) text: String,
    /// Does something larger begin here than at most others?
    pub(super) bold: bool,
}

/// Year, month from 1, and day of a day since 1970 (the algorithm of Howard Hinnant, "chrono-compatible low-level date
/// algorithms").
pub(super) fn civil(day: i64) -> (i64, i64, i64) {
    let shifted = day + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march = (5 * of_year + 2) / 153;
    let month = if march < 10 { march + 3 } else { march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, of_year - (153 * march + 2) / 5 + 1)
}

fn month_name(month: i64) -> &'static str {
    MONTHS.get((month - 1).clamp(0, 11) as usize).copied().unwrap_or_default()
}

/// Whole seconds.
fn whole(seconds: f64) -> i64 {
    seconds.clamp(-FARTHEST, FARTHEST).floor() as i64
}

impl Unit {
    /// The number of the stretch that a time lies in.
    fn of(self, seconds: f64) -> i64 {
        let seconds = whole(seconds);
        let day = seconds.div_euclid(DAY);
        let months = || {
            let (year, month, _) = civil(day);
            year * 12 + month - 1
        };
        match self {
            Seconds(length) => seconds.div_euclid(length),
            Months(length) => months().div_euclid(length),
            // The first of 1970 was a Thursday. Neither number falls, so the sum changes whenever one of them does.
            Week => (day + 3).div_euclid(7) + months(),
        }
    }

    /// What is written where the stretch that holds `time` begins, and its rank: 3 for a year, 0 for a time of day.
    fn label(self, before: f64, time: f64) -> (String, u8) {
        let (was, now) = (whole(before), whole(time));
        let (year, month, day) = civil(now.div_euclid(DAY));
        let (last_year, last_month, _) = civil(was.div_euclid(DAY));
        let rank = match () {
            () if year != last_year => 3,
            () if month != last_month => 2,
            () if now.div_euclid(DAY) != was.div_euclid(DAY) => 1,
            () => 0,
        };
        let date = || format!("{day} {}", month_name(month));
        let text = match (self, rank) {
            (Months(length), _) if length >= 12 => year.to_string(),
            (Months(_) | Week | Seconds(DAY), 3) => year.to_string(),
            (Months(_) | Week | Seconds(DAY), 2) => month_name(month).to_owned(),
            (Months(_) | Week | Seconds(DAY), _) => date(),
            (Seconds(_), 3) => format!("{} {year}", date()),
            (Seconds(_), 1 | 2) => date(),
            (Seconds(length), _) => time_of_day(now, length < 60),
        };
        (text, rank)
    }
}

/// `09:30` or `09:30:15`.
fn time_of_day(seconds: i64, fine: bool) -> String {
    let of_day = seconds.rem_euclid(DAY);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    if fine { format!("{hour:02}:{minute:02}:{second:02}") } else { format!("{hour:02}:{minute:02}") }
}

impl Clock {
    /// From the times of a series and what its layout says about them.
    pub(super) fn of(layout: &Layout, time: &[i64]) -> Clock {
        let kind = layout.time.as_ref().map(|c| &c.kind);
        let seconds = match kind {
            _ if time.is_empty() => return Clock::Index,
            Some(DataType::Timestamp(..) | DataType::Date32) => layout.seconds(time),
            _ => match plain(time) {
                Some(seconds) => seconds,
                None => return Clock::Count(time.to_vec()),
            },
        };
        let zone = match kind {
            Some(DataType::Timestamp(_, Some(zone))) => Some(zone.to_string()),
            _ => None,
        };
        let here: Option<Tz> = zone.as_ref().and_then(|z| z.parse().ok());
        let seconds: Vec<f64> = match here {
            Some(zone) => seconds.into_iter().map(|s| local(s, zone)).collect(),
            None => seconds,
        };
        let daily = seconds.iter().all(|s| s.rem_euclid(DAY as f64) == 0.0);
        Clock::Calendar { seconds, zone, daily }
    }

    /// Everything about a bar's time.
    pub(super) fn full(&self, bar: usize) -> String {
        match self {
            Clock::Index => bar.to_string(),
            Clock::Count(values) => values.get(bar).map(i64::to_string).unwrap_or_default(),
            Clock::Calendar { seconds, daily, .. } => {
                let Some(seconds) = seconds.get(bar) else { return String::new() };
                let seconds = whole(*seconds);
                let (year, month, day) = civil(seconds.div_euclid(DAY));
                let date = format!("{year:04}-{month:02}-{day:02}");
                match daily {
                    true => date,
                    false => format!("{date} {}", time_of_day(seconds, seconds % 60 != 0)),
                }
            }
        }
    }

    /// Which of `bars` bars on a `width` have a label, ascending; none overlap at this size of letters.
    pub(super) fn labels(&self, bars: usize, width: f64, size: f64) -> Vec<Label> {
        let most = (width / PER_LABEL) as usize;
        let mut wishes = match self {
            Clock::Calendar { seconds, .. } => calendar(seconds, most),
            Clock::Index | Clock::Count(_) => self.every(bars, most),
        };
        wishes.sort_by_key(|(label, rank)| (std::cmp::Reverse(*rank), label.bar));
        let spacing = width / bars.max(1) as f64;
        let mut taken: Vec<(f64, f64)> = Vec::new();
        let mut fits = |(label, _): &(Label, u8)| {
            let (middle, half) = ((label.bar as f64 + 0.5) * spacing, font::room(&label.text, size) / 2.0);
            let (from, to) = (middle - half, middle + half);
            let free = taken.iter().all(|(f, t)| to + BETWEEN < *f || *t + BETWEEN < from);
            let fits = free && from >= 0.0 && to <= width;
            if fits {
                taken.push((from, to));
            }
            fits
        };
        let mut labels: Vec<Label> = wishes.drain(..).filter(|w| fits(w)).map(|(label, _)| label).collect();
        if labels.is_empty() && bars > 0 {
            // One bar, or all within a second: say when.
            labels.push(Label { bar: 0, text: self.full(0), bold: false });
        }
        labels.sort_by_key(|l| l.bar);
        labels
    }

    /// Every so many bars, a round number of them.
    fn every(&self, bars: usize, most: usize) -> Vec<(Label, u8)> {
        let range = super::axis::Range { low: 0.0, high: bars as f64 };
        let step = range.ticks(most).step.max(1.0) as usize;
        let label = |bar: usize| (Label { bar, text: self.full(bar), bold: false }, 0);
        (0..bars).step_by(step).map(label).collect()
    }
}

/// The first bars of the finest stretches of which there are not too many.
fn calendar(seconds: &[f64], most: usize) -> Vec<(Label, u8)> {
    let mut best: (Unit, Vec<usize>) = (Seconds(1), Vec::new());
    for unit in UNITS {
        let Some(found) = starts(seconds, unit, most) else { break };
        // A finer unit that begins at the same bars says nothing more.
        if found.len() > best.1.len() {
            best = (unit, found);
        }
    }
    let (unit, bars) = best;
    let label = |bar: usize| {
        let (before, time) = (*seconds.get(bar.checked_sub(1)?)?, *seconds.get(bar)?);
        let (text, rank) = unit.label(before, time);
        let usual = if matches!(unit, Months(_)) { 3 } else { 2 };
        let plain = matches!(unit, Months(length) if length >= 12);
        Some((Label { bar, text, bold: rank >= usual && !plain }, rank))
    };
    bars.into_iter().filter_map(label).collect()
}

/// Bars at which a new stretch begins; `None` for more than `most`. Jumps from one to the next.
fn starts(seconds: &[f64], unit: Unit, most: usize) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    let mut bar = 0;
    while let Some((first, rest)) = seconds.get(bar..).and_then(|s| s.split_first()) {
        let here = unit.of(*first);
        bar += 1 + rest.partition_point(|s| unit.of(*s) == here);
        if bar < seconds.len() {
            found.push(bar);
        }
        if found.len() > most {
            return None;
        }
    }
    Some(found)
}

/// Plain integers as seconds, where they look like seconds or a thousandth, millionth or billionth of them.
fn plain(time: &[i64]) -> Option<Vec<f64>> {
    let per = [1.0, 1e3, 1e6, 1e9].into_iter().find(|per| {
        let [low, high] = PLAUSIBLE.map(|s| s * per);
        time.iter().all(|t| (low..=high).contains(&(*t as f64)))
    })?;
    Some(time.iter().map(|t| *t as f64 / per).collect())
}

/// What the clocks of a zone show.
fn local(seconds: f64, zone: Tz) -> f64 {
    if seconds.abs() > FARTHEST {
        return seconds;
    }
    let utc = seconds.floor();
    let shown = as_datetime_with_timezone::<TimestampSecondType>(utc as i64, zone);
    shown.map_or(seconds, |t| t.naive_local().and_utc().timestamp() as f64 + (seconds - utc))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;
    use crate::bars::Column;

    const NEW_YEAR_2024: i64 = 1_704_067_200;

    fn layout(kind: DataType) -> Layout {
        Layout { time: Some(Column { name: "time".to_owned(), kind }), ..Layout::default() }
    }

    fn seconds() -> Layout {
        layout(DataType::Timestamp(TimeUnit::Second, None))
    }

    fn texts(time: &[i64], width: f64) -> Vec<String> {
        let labels = Clock::of(&seconds(), time).labels(time.len(), width, 11.0);
        labels.into_iter().map(|l| l.text).collect()
    }

    /// Minutes from half past nine to four, on weekdays.
    fn sessions(days: i64) -> Vec<i64> {
        let open = |d: &i64| (d + 4).rem_euclid(7) % 6 != 0;
        let first = NEW_YEAR_2024 / DAY;
        let minutes = |d: i64| (0..390).map(move |m| d * DAY + 34_200 + m * 60);
        (first..).filter(open).take(days as usize).flat_map(minutes).collect()
    }

    #[test]
    fn days_have_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(-25_509), (1900, 2, 28));
        assert_eq!(civil(-25_508), (1900, 3, 1));
    }

    #[test]
    fn the_finest_unit_that_fits_is_labelled() {
        let daily: Vec<i64> = (0..900).map(|d| NEW_YEAR_2024 + d * DAY).collect();
        assert_eq!(texts(&daily, 420.0), ["2025", "2026"]);
        assert_eq!(texts(&daily, 1000.0), ["Apr", "Jul", "Oct", "2025", "Apr", "Jul", "Oct", "2026", "Apr"]);
        assert_eq!(
            texts(&daily[..45], 700.0),
            ["8 Jan", "15 Jan", "22 Jan", "29 Jan", "Feb", "5 Feb", "12 Feb"]
        );
        assert_eq!(texts(&sessions(1), 1000.0)[..3], ["10:00", "10:30", "11:00"]);
        let few = texts(&sessions(3), 700.0);
        assert!(few.contains(&"2 Jan".to_owned()) && few.contains(&"12:00".to_owned()), "{few:?}");
        let seconds: Vec<i64> = (0..40).map(|s| NEW_YEAR_2024 + 5 + s).collect();
        assert_eq!(texts(&seconds, 300.0), ["00:00:15", "00:00:30"]);
    }

    #[test]
    fn labels_never_overlap_and_stay_inside() {
        for width in [60.0, 200.0, 480.0, 1200.0, 4000.0] {
            for time in [sessions(1), sessions(5), sessions(70), vec![0; 50], vec![i64::MAX, i64::MIN, 0]] {
                let labels = Clock::of(&seconds(), &time).labels(time.len(), width, 11.0);
                assert!(!labels.is_empty());
                let ends = |l: &Label| {
                    let middle = (l.bar as f64 + 0.5) * width / time.len() as f64;
                    let half = font::width(&l.text, 11.0) / 2.0;
                    (middle - half, middle + half)
                };
                assert!(labels.windows(2).all(|l| ends(&l[0]).1 < ends(&l[1]).0), "{labels:?}");
            }
        }
    }

    #[test]
    fn zones_units_and_plain_numbers() {
        let zone = layout(DataType::Timestamp(TimeUnit::Millisecond, Some("America/New_York".into())));
        let clock = Clock::of(&zone, &[NEW_YEAR_2024 * 1000, (NEW_YEAR_2024 + 200 * DAY) * 1000]);
        assert_eq!([clock.full(0), clock.full(1)], ["2023-12-31 19:00", "2024-07-18 20:00"]);
        let date = Clock::of(&layout(DataType::Date32), &[19_782]);
        assert_eq!(date.full(0), "2024-02-29");
        let strange = layout(DataType::Timestamp(TimeUnit::Second, Some("Nowhere/At_All".into())));
        assert_eq!(Clock::of(&strange, &[NEW_YEAR_2024 + 60]).full(0), "2024-01-01 00:01");
        for per in [1, 1_000, 1_000_000, 1_000_000_000] {
            let clock = Clock::of(&layout(DataType::Int64), &[NEW_YEAR_2024 * per]);
            assert_eq!(clock.full(0), "2024-01-01", "{per}");
        }
        let numbers = Clock::of(&layout(DataType::Int64), &[20_240_105, 20_240_108]);
        assert_eq!(numbers.full(1), "20240108");
        assert_eq!(numbers.labels(2, 400.0, 11.0).len(), 2);
        assert_eq!(Clock::of(&Layout::default(), &[]), Clock::Index);
        let index = Clock::Index.labels(1000, 800.0, 11.0);
        assert_eq!(index.iter().map(|l| l.bar).take(4).collect::<Vec<_>>(), [100, 200, 300, 400]);
    }
}
