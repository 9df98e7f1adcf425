//! Time axis: calendar labels over the bar index.
//!
//! A label is at the first bar of a year, month, week, day, hour …: the finest of these that has room. Nights and weekends
//! take no room, so the distance between labels varies.

use crate::stroke_font;

const DAY: i64 = 86_400;
/// Times are clamped to this many seconds, years far beyond any market.
const FARTHEST: f64 = 1e12;
/// Minimum width per label.
const MIN_LABEL_WIDTH: f64 = 72.0;
/// Gap between two labels.
const LABEL_GAP: f64 = 14.0;
const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
/// Integers in this range are epoch seconds (1990 to 2100); 10³, 10⁶ and 10⁹ times these are ms, µs and ns.
const EPOCH_SECONDS: [f64; 2] = [631_152_000.0, 4_102_444_800.0];

/// A calendar period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Period {
    Months(i64),
    /// Starts on Monday, and at the first of a month.
    Week,
    Seconds(i64),
}

use Period::{Months, Seconds, Week};

/// From coarse to fine.
const PERIODS: [Period; 22] = [
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

/// Times of the bars.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum TimeAxis {
    /// No times: bars are numbered.
    #[default]
    Index,
    /// Integers that are not timestamps.
    Integers(Vec<i64>),
    /// Wall-clock seconds since 1970.
    Calendar {
        /// One per bar.
        seconds: Vec<f64>,
        /// Name of the time zone.
        zone: Option<String>,
        /// Every time is midnight.
        daily: bool,
    },
}

/// A label of the time axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Label {
    pub(super) bar: usize,
    pub(super) text: String,
    /// A longer period starts here than at most others.
    pub(super) bold: bool,
}

/// Year, month from 1 and day of a day number since 1970 (Howard Hinnant, "chrono-compatible low-level date
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

impl Period {
    /// Ordinal of the period that a time lies in.
    fn ordinal(self, seconds: f64) -> i64 {
        let seconds = whole(seconds);
        let day = seconds.div_euclid(DAY);
        let months = || {
            let (year, month, _) = civil(day);
            year * 12 + month - 1
        };
        match self {
            Seconds(length) => seconds.div_euclid(length),
            Months(length) => months().div_euclid(length),
            // 1970-01-01 was a Thursday. Both ordinals are nondecreasing, so the sum changes whenever one of them does.
            Week => (day + 3).div_euclid(7) + months(),
        }
    }

    /// Label at the start of the period that holds `time`, and its rank: 3 for a year, 0 for a time of day.
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

impl TimeAxis {
    /// Timestamps as wall-clock seconds since 1970, in the zone of that name.
    pub fn calendar(seconds: Vec<f64>, zone: Option<String>) -> TimeAxis {
        if seconds.is_empty() {
            return TimeAxis::Index;
        }
        let daily = seconds.iter().all(|s| s.rem_euclid(DAY as f64) == 0.0);
        TimeAxis::Calendar { seconds, zone, daily }
    }

    /// Integers without a unit: epoch seconds, milliseconds, microseconds or nanoseconds where all are in a plausible
    /// range, else numbers.
    pub fn from_integers(time: &[i64]) -> TimeAxis {
        match epoch_seconds(time) {
            _ if time.is_empty() => TimeAxis::Index,
            Some(seconds) => TimeAxis::calendar(seconds, None),
            None => TimeAxis::Integers(time.to_vec()),
        }
    }

    /// Number of times.
    pub fn len(&self) -> usize {
        match self {
            TimeAxis::Index => 0,
            TimeAxis::Integers(values) => values.len(),
            TimeAxis::Calendar { seconds, .. } => seconds.len(),
        }
    }

    /// No times.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Full timestamp of a bar.
    pub(super) fn full_label(&self, bar: usize) -> String {
        match self {
            TimeAxis::Index => bar.to_string(),
            TimeAxis::Integers(values) => values.get(bar).map(i64::to_string).unwrap_or_default(),
            TimeAxis::Calendar { seconds, daily, .. } => {
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

    /// Labels of `bars` bars on a `width`, ascending; none overlap at this font size.
    pub(super) fn labels(&self, bars: usize, width: f64, size: f64) -> Vec<Label> {
        let max = (width / MIN_LABEL_WIDTH) as usize;
        let mut candidates = match self {
            TimeAxis::Calendar { seconds, .. } => calendar_labels(seconds, max),
            TimeAxis::Index | TimeAxis::Integers(_) => self.numeric_labels(bars, max),
        };
        candidates.sort_by_key(|(label, rank)| (std::cmp::Reverse(*rank), label.bar));
        let spacing = width / bars.max(1) as f64;
        let mut taken: Vec<(f64, f64)> = Vec::new();
        let mut fits = |(label, _): &(Label, u8)| {
            let (middle, half) =
                ((label.bar as f64 + 0.5) * spacing, stroke_font::safe_width(&label.text, size) / 2.0);
            let (from, to) = (middle - half, middle + half);
            let free = taken.iter().all(|(f, t)| to + LABEL_GAP < *f || *t + LABEL_GAP < from);
            let fits = free && from >= 0.0 && to <= width;
            if fits {
                taken.push((from, to));
            }
            fits
        };
        let mut labels: Vec<Label> =
            candidates.drain(..).filter(|w| fits(w)).map(|(label, _)| label).collect();
        if labels.is_empty() && bars > 0 {
            // One bar, or all within a second: label the first.
            labels.push(Label { bar: 0, text: self.full_label(0), bold: false });
        }
        labels.sort_by_key(|l| l.bar);
        labels
    }

    /// A label every 1, 2 or 5 times a power of ten bars.
    fn numeric_labels(&self, bars: usize, max: usize) -> Vec<(Label, u8)> {
        let range = super::value_axis::Range { low: 0.0, high: bars as f64 };
        let step = range.ticks(max).step.max(1.0) as usize;
        let label = |bar: usize| (Label { bar, text: self.full_label(bar), bold: false }, 0);
        (0..bars).step_by(step).map(label).collect()
    }
}

/// Labels at the starts of the finest period of which there are at most `max`.
fn calendar_labels(seconds: &[f64], max: usize) -> Vec<(Label, u8)> {
    let mut best: (Period, Vec<usize>) = (Seconds(1), Vec::new());
    for period in PERIODS {
        let Some(found) = period_starts(seconds, period, max) else { break };
        // A finer period that starts at the same bars adds nothing.
        if found.len() > best.1.len() {
            best = (period, found);
        }
    }
    let (period, bars) = best;
    let label = |bar: usize| {
        let (before, time) = (*seconds.get(bar.checked_sub(1)?)?, *seconds.get(bar)?);
        let (text, rank) = period.label(before, time);
        let usual = if matches!(period, Months(_)) { 3 } else { 2 };
        let plain = matches!(period, Months(length) if length >= 12);
        Some((Label { bar, text, bold: rank >= usual && !plain }, rank))
    };
    bars.into_iter().filter_map(label).collect()
}

/// Bars at which a period starts; `None` for more than `max`. Binary search from one to the next.
fn period_starts(seconds: &[f64], period: Period, max: usize) -> Option<Vec<usize>> {
    let mut found = Vec::new();
    let mut bar = 0;
    while let Some((first, rest)) = seconds.get(bar..).and_then(|s| s.split_first()) {
        let here = period.ordinal(*first);
        bar += 1 + rest.partition_point(|s| period.ordinal(*s) == here);
        if bar < seconds.len() {
            found.push(bar);
        }
        if found.len() > max {
            return None;
        }
    }
    Some(found)
}

/// Integers as seconds, where they look like epoch seconds, milliseconds, microseconds or nanoseconds.
fn epoch_seconds(time: &[i64]) -> Option<Vec<f64>> {
    let per = [1.0, 1e3, 1e6, 1e9].into_iter().find(|per| {
        let [low, high] = EPOCH_SECONDS.map(|s| s * per);
        time.iter().all(|t| (low..=high).contains(&(*t as f64)))
    })?;
    Some(time.iter().map(|t| *t as f64 / per).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW_YEAR_2024: i64 = 1_704_067_200;

    fn axis(time: &[i64]) -> TimeAxis {
        TimeAxis::calendar(time.iter().map(|t| *t as f64).collect(), None)
    }

    fn texts(time: &[i64], width: f64) -> Vec<String> {
        let labels = axis(time).labels(time.len(), width, 11.0);
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
    fn civil_converts_day_numbers() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(-1), (1969, 12, 31));
        assert_eq!(civil(19_782), (2024, 2, 29));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(-25_509), (1900, 2, 28));
        assert_eq!(civil(-25_508), (1900, 3, 1));
    }

    #[test]
    fn finest_period_that_fits_is_labelled() {
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
                let labels = axis(&time).labels(time.len(), width, 11.0);
                assert!(!labels.is_empty());
                let ends = |l: &Label| {
                    let middle = (l.bar as f64 + 0.5) * width / time.len() as f64;
                    let half = stroke_font::width(&l.text, 11.0) / 2.0;
                    (middle - half, middle + half)
                };
                assert!(labels.windows(2).all(|l| ends(&l[0]).1 < ends(&l[1]).0), "{labels:?}");
            }
        }
    }

    #[test]
    fn integers_are_epochs_where_plausible() {
        assert_eq!(axis(&[19_782 * DAY]).full_label(0), "2024-02-29");
        for per in [1, 1_000, 1_000_000, 1_000_000_000] {
            let epoch = TimeAxis::from_integers(&[NEW_YEAR_2024 * per]);
            assert_eq!(epoch.full_label(0), "2024-01-01", "{per}");
        }
        let numbers = TimeAxis::from_integers(&[20_240_105, 20_240_108]);
        assert_eq!(numbers.full_label(1), "20240108");
        assert_eq!(numbers.labels(2, 400.0, 11.0).len(), 2);
        assert_eq!(TimeAxis::from_integers(&[]), TimeAxis::Index);
        assert_eq!(TimeAxis::calendar(Vec::new(), None), TimeAxis::Index);
        let index = TimeAxis::Index.labels(1000, 800.0, 11.0);
        assert_eq!(index.iter().map(|l| l.bar).take(4).collect::<Vec<_>>(), [100, 200, 300, 400]);
    }
}
