//! Where does everything go? Panes below each other on one time axis, with grids, legends and the last values.

use super::{
    Chart, Mark,
    axis::{Format, Range, Ticks, given_places},
    clock::{Clock, Label},
    font,
    marks::{self, Frame},
    merge,
    pane::{Pane, Series, panes},
    scene::{Anchor, Area, Item, Scene},
    theme::Ink,
};

/// Sizes of letters: title, legends, axes.
const TITLE: f64 = 16.0;
const NAMES: f64 = 12.0;
const LABELS: f64 = 11.0;
/// Room that the numbers at the right take, about.
pub(super) const AXIS: f64 = 80.0;
/// Room at the left and right.
const SIDE: f64 = 12.0;
/// Room for title and subtitle.
const HEAD: f64 = 46.0;
/// A line of a legend.
const ROW: f64 = 18.0;
/// Between two panes.
const BETWEEN: f64 = 6.0;
/// Room for the time axis.
const FOOT: f64 = 26.0;
/// Height of the box behind a last value.
const TAG: f64 = 15.0;
/// Pixels per line of the grid.
const PER_TICK: f64 = 34.0;
/// Nothing smaller is drawn.
const SMALLEST: (f64, f64) = (200.0, 120.0);
/// Prices with more digits after the point are shown as precisely as a pixel is.
const PRICE_PLACES: usize = 4;
/// Names are cut here.
const LONGEST_NAME: f64 = 220.0;

/// A pane with everything that does not depend on the width of the axis.
struct Plan<'a> {
    pane: Pane<'a>,
    range: Range,
    empty: bool,
    ticks: Vec<f64>,
    /// What is written on the axis, by importance.
    numbers: Vec<(f64, String)>,
    tags: Vec<(f64, String, Ink)>,
    /// Upper edge of the legend, and the plot's edges below it.
    top: f64,
    from: f64,
    to: f64,
}

/// An entry of a legend: where, and what.
struct Entry<'a> {
    row: usize,
    x: f64,
    name: String,
    series: Option<&'a Series<'a>>,
}

/// Pixels of a drawing, from left to right.
pub(super) fn width(chart: &Chart<'_>) -> f64 {
    f64::from(chart.size.0).max(SMALLEST.0)
}

pub(super) fn scene(chart: &Chart<'_>) -> Scene {
    let width = width(chart);
    let clock = Clock::of(chart.layout, &chart.bars.time);
    let bars = chart.bars.len();
    let per = merge::per(chart);
    let merged = merge::merged(chart).text();
    let all = noted(panes(chart), merged.as_deref(), per);
    let (plans, height) = plans(all, per, width, f64::from(chart.size.1).max(SMALLEST.1));
    let axis =
        plans.iter().flat_map(labels).map(|text| font::room(&text, LABELS)).fold(24.0, f64::max) + 14.0;
    let plot = (width - SIDE - axis).max(40.0);
    let says = subtitle(chart, &clock, merged.as_deref());
    let mut items = vec![area(0.0, 0.0, width, height, Ink::Back)];
    let title = font::fit(&chart.title, TITLE, width - 2.0 * SIDE);
    items.push(text((SIDE, 22.0), title, Ink::Text, TITLE, Anchor::Start, true));
    let below = font::fit(&says, LABELS, width - 2.0 * SIDE);
    items.push(text((SIDE, 38.0), below, Ink::Soft, LABELS, Anchor::Start, false));
    let labels = clock.labels(bars, plot, LABELS);
    for plan in &plans {
        let area = Area { x: SIDE, y: plan.from, width: plot, height: plan.to - plan.from };
        one(&mut items, plan, &Frame { area, range: plan.range, bars, per }, &labels);
    }
    let foot = Frame {
        area: Area { x: SIDE, y: height - FOOT, width: plot, height: FOOT },
        range: Range { low: 0.0, high: 1.0 },
        bars,
        per,
    };
    items.extend(labels.iter().map(|label| time_label(label, &foot)));
    Scene { width, height, title: chart.title.clone(), says: describe(says, &plans), items }
}

/// Panes with what their bars stand for in the legend.
fn noted<'a>(mut panes: Vec<Pane<'a>>, merged: Option<&str>, per: usize) -> Vec<Pane<'a>> {
    for pane in panes.iter_mut().filter(|_| per > 1) {
        pane.note = match pane.series.first() {
            Some(Series::Candles(_)) => merged.unwrap_or_default().to_owned(),
            Some(Series::Volume(_)) => format!("sums of {per} bars"),
            _ => String::new(),
        };
    }
    panes
}

/// Ranges and heights of all panes, and the height of the whole.
fn plans<'a>(panes: Vec<Pane<'a>>, per: usize, width: f64, wish: f64) -> (Vec<Plan<'a>>, f64) {
    let rows = |pane: &Pane<'_>| legend(pane, width).last().map_or(1, |e| e.row + 1) as f64 * ROW;
    let fixed: f64 = panes.iter().map(|p| rows(p) + BETWEEN).sum::<f64>() + HEAD + FOOT;
    let shares: f64 = panes.iter().map(|p| p.share).sum();
    let free = (wish - fixed).max(0.0);
    let tall = |pane: &Pane<'_>| (free * pane.share / shares).max(pane.least).round();
    let height = fixed + panes.iter().map(tall).sum::<f64>();
    let mut top = HEAD;
    let plan = |pane: Pane<'a>| {
        let (from, tall) = (top + rows(&pane), tall(&pane));
        let to = from + tall;
        let found = pane.range(per);
        let range = found.unwrap_or(Range { low: 0.0, high: 1.0 });
        let ticks = range.ticks((tall / PER_TICK).max(3.0) as usize);
        let numbers = numbers(&pane, range, &ticks);
        let tags = tags(&pane, range, ticks.step);
        let plan =
            Plan { range, empty: found.is_none(), ticks: ticks.values, numbers, tags, top, from, to, pane };
        top = to + BETWEEN;
        plan
    };
    (panes.into_iter().map(plan).collect(), height)
}

/// Levels, then ticks.
fn numbers(pane: &Pane<'_>, range: Range, ticks: &Ticks) -> Vec<(f64, String)> {
    let format = Format::of(range.size(), ticks.step);
    let fine = Format::of(range.size(), ticks.step / 100.0).at_most(given_places(pane.levels));
    let levels = pane.levels.iter().filter(|v| v.is_finite()).map(|v| (*v, fine.text(*v)));
    levels.chain(ticks.values.iter().map(|v| (*v, format.text(*v)))).collect()
}

/// Last values that the axis shows.
fn tags(pane: &Pane<'_>, range: Range, step: f64) -> Vec<(f64, String, Ink)> {
    let given = pane.series.iter().find_map(|s| match s {
        Series::Candles(bars) => given_places(&bars.close),
        _ => None,
    });
    let format = match given {
        // As prices are given.
        Some(places) if places <= PRICE_PLACES => Format::of(range.size(), 0.1f64.powi(places as i32)),
        // About what a pixel can show.
        _ => Format::of(range.size(), step / 100.0).at_most(given),
    };
    let tag = |series: &Series<'_>| {
        let (value, ink) = series.last()?;
        (range.low <= value && value <= range.high).then(|| (value, format.text(value), ink))
    };
    pane.series.iter().filter_map(tag).collect()
}

/// Everything that is written on a plan's axis.
fn labels(plan: &Plan<'_>) -> Vec<String> {
    if plan.empty {
        return Vec::new();
    }
    plan.numbers.iter().map(|n| n.1.clone()).chain(plan.tags.iter().map(|t| t.1.clone())).collect()
}

/// Title and names of a pane in rows that fit the width.
fn legend<'a>(pane: &'a Pane<'a>, width: f64) -> Vec<Entry<'a>> {
    let named = pane.series.iter().filter_map(|s| match s {
        Series::Column { name, .. } => Some((*name, Some(s))),
        _ => None,
    });
    // A panel of one column that is called the same needs one name.
    let title =
        pane.series.first().is_none_or(|s| !matches!(s, Series::Column { name, .. } if *name == pane.title));
    let titled = match pane.note.as_str() {
        "" => pane.title.to_owned(),
        note => format!("{}: {note}", pane.title),
    };
    let title = title.then_some((titled.as_str(), None));
    let (mut row, mut x) = (0, SIDE);
    let entry = |(name, series): (&str, Option<&'a Series<'a>>)| {
        let most = if series.is_some() { LONGEST_NAME } else { f64::INFINITY };
        let name = font::fit(name, NAMES, most.min(width - 2.0 * SIDE - 22.0));
        let wide = font::room(&name, NAMES) + if series.is_some() { 22.0 } else { 6.0 };
        if x > SIDE && x + wide > width - SIDE {
            (row, x) = (row + 1, SIDE);
        }
        let entry = Entry { row, x, name, series };
        x += wide + 14.0;
        entry
    };
    title.into_iter().chain(named).map(entry).collect()
}

/// One pane.
fn one(items: &mut Vec<Item>, plan: &Plan<'_>, frame: &Frame, times: &[Label]) {
    let area = frame.area;
    for entry in legend(&plan.pane, area.right()) {
        named(items, &entry, plan.top + ROW * (entry.row as f64 + 1.0) - 6.0);
    }
    items.push(Item::Rects { areas: vec![area], fill: Ink::Back, edge: Some(Ink::Rule) });
    let mut inside = Vec::new();
    if let Some((a, b)) = plan.pane.band.filter(|_| !plan.empty) {
        let (top, bottom) = (frame.y(a.max(b)), frame.y(a.min(b)));
        inside.push(self::area(area.x, top, area.width, bottom - top, Ink::Band));
    }
    let across = |v: &f64| vec![(area.x, crisp(frame.y(*v))), (area.right(), crisp(frame.y(*v)))];
    let down = |l: &Label| {
        let x = crisp(frame.x(l.bar as f64));
        vec![(x, area.y), (x, area.bottom())]
    };
    let ticks = if plan.empty { &[] } else { plan.ticks.as_slice() };
    let grid = ticks.iter().map(across).chain(times.iter().map(down)).collect();
    inside.push(Item::Lines { lines: grid, ink: Ink::Rule, width: 1.0, dash: &[] });
    let levels: Vec<_> =
        plan.pane.levels.iter().filter(|v| v.is_finite() && !plan.empty).map(across).collect();
    inside.push(Item::Lines { lines: levels, ink: Ink::Soft, width: 1.0, dash: &[4.0, 4.0] });
    if plan.empty {
        let middle = (area.x + area.width / 2.0, area.y + area.height / 2.0 + 4.0);
        inside.push(text(middle, "no values".to_owned(), Ink::Soft, NAMES, Anchor::Middle, false));
    } else {
        // Bars of a histogram lie below the lines that they belong to.
        let (bars, lines): (Vec<_>, Vec<_>) = plan.pane.series.iter().partition(|s| is_histogram(s));
        inside.extend(bars.into_iter().chain(lines).flat_map(|s| marks::draw(s, frame)));
    }
    items.push(Item::Inside { area, items: inside });
    if !plan.empty {
        axis(items, plan, frame);
    }
}

fn is_histogram(series: &Series<'_>) -> bool {
    matches!(series, Series::Column { mark: Mark::Histogram, .. })
}

/// A name of the legend with a piece of its line.
fn named(items: &mut Vec<Item>, entry: &Entry<'_>, base: f64) {
    let Some(Series::Column { mark, ink, .. }) = entry.series else {
        items.push(text((entry.x, base), entry.name.clone(), Ink::Text, NAMES, Anchor::Start, true));
        return;
    };
    match mark {
        Mark::Line => items.push(Item::Lines {
            lines: vec![vec![(entry.x, base - 4.0), (entry.x + 16.0, base - 4.0)]],
            ink: *ink,
            width: 2.0,
            dash: marks::dash(*ink),
        }),
        Mark::Dots => {
            let dot = |n: f64| Area { x: entry.x + n * 6.0, y: base - 5.5, width: 3.0, height: 3.0 };
            items.push(Item::Rects { areas: [0.0, 1.0, 2.0].map(dot).to_vec(), fill: *ink, edge: None });
        }
        Mark::Histogram => {
            items.push(area(entry.x + 2.0, base - 8.0, 5.0, 8.0, Ink::UpSoft));
            items.push(area(entry.x + 9.0, base - 5.0, 5.0, 5.0, Ink::DownSoft));
        }
    }
    items.push(text((entry.x + 22.0, base), entry.name.clone(), Ink::Text, NAMES, Anchor::Start, false));
}

/// Numbers at the right, and the last values over them.
fn axis(items: &mut Vec<Item>, plan: &Plan<'_>, frame: &Frame) {
    let (area, x) = (frame.area, frame.area.right() + 6.0);
    let mut tags: Vec<(f64, &str, Ink)> =
        plan.tags.iter().map(|(value, text, ink)| (frame.y(*value), text.as_str(), *ink)).collect();
    tags.truncate((area.height / TAG) as usize);
    tags.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut places: Vec<f64> = tags.iter().map(|t| t.0).collect();
    spread(&mut places, area.y, area.bottom(), TAG);
    // Levels come first: they mean something.
    let mut taken = places.clone();
    for (value, number) in &plan.numbers {
        let y = frame.y(*value);
        let free = taken.iter().all(|p| (p - y).abs() > TAG * 0.75);
        if free && (area.y + 4.0..=area.bottom() - 2.0).contains(&y) {
            items.push(text((x, y + 4.0), number.clone(), Ink::Soft, LABELS, Anchor::Start, false));
            taken.push(y);
        }
    }
    for ((_, number, ink), y) in tags.into_iter().zip(places) {
        let wide = font::room(number, LABELS) + 8.0;
        items.push(self::area(x - 4.0, y - TAG / 2.0, wide, TAG - 1.0, ink));
        items.push(text((x, y + 3.5), number.to_owned(), Ink::Back, LABELS, Anchor::Start, false));
    }
}

/// Moves ascending places apart so that each has its room between two edges.
fn spread(places: &mut [f64], top: f64, bottom: f64, room: f64) {
    let mut least = top + room / 2.0;
    for place in places.iter_mut() {
        *place = place.max(least);
        least = *place + room;
    }
    let mut most = bottom - room / 2.0;
    for place in places.iter_mut().rev() {
        *place = place.min(most);
        most = *place - room;
    }
}

fn time_label(label: &Label, foot: &Frame) -> Item {
    let half = font::width(&label.text, LABELS) / 2.0;
    let middle = foot.x(label.bar as f64).min(foot.area.right() - half).max(foot.area.x + half);
    text((middle, foot.area.y + 14.0), label.text.clone(), Ink::Soft, LABELS, Anchor::Middle, label.bold)
}

/// When, how many, and what is one candle.
fn subtitle(chart: &Chart<'_>, clock: &Clock, merged: Option<&str>) -> String {
    let bars = chart.bars.len();
    let Some(last) = bars.checked_sub(1) else { return "no bars".to_owned() };
    let zone = match clock {
        Clock::Calendar { zone: Some(zone), daily: false, .. } => format!(" {zone}"),
        _ => String::new(),
    };
    let when = match (clock, last) {
        (Clock::Index, _) => String::new(),
        (_, 0) => format!("{}{zone}, ", clock.full(0)),
        _ => format!("{} to {}{zone}, ", clock.full(0), clock.full(last)),
    };
    let joined = merged.map(|text| format!(", {text}")).unwrap_or_default();
    format!("{when}{bars} {}{joined}", if bars == 1 { "bar" } else { "bars" })
}

/// What the drawing shows, in words.
fn describe(says: String, plans: &[Plan<'_>]) -> String {
    let panes = plans.iter().map(|plan| {
        let names = plan.pane.series.iter().filter_map(|s| match s {
            Series::Column { name, .. } => Some(*name),
            _ => None,
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let colon = if names.is_empty() { "" } else { ": " };
        format!("{}{colon}{names}.", plan.pane.title)
    });
    std::iter::once(format!("{says}.")).chain(panes).collect::<Vec<_>>().join(" ")
}

/// The middle of a pixel, so that a thin line is sharp.
fn crisp(at: f64) -> f64 {
    at.floor() + 0.5
}

fn area(x: f64, y: f64, width: f64, height: f64, fill: Ink) -> Item {
    Item::Rects { areas: vec![Area { x, y, width, height }], fill, edge: None }
}

fn text(at: (f64, f64), text: String, ink: Ink, size: f64, anchor: Anchor, bold: bool) -> Item {
    Item::Text { at, text, ink, size, anchor, bold }
}
