//! Layout: panes below each other on one time axis, with grid, legend, axis labels and last-value tags.

use super::{
    Chart, Mark, aggregate,
    marks::{self, PaneGeometry},
    pane::{Pane, PaneSeries, panes},
    time_axis::{Label, TimeAxis},
    value_axis::{NumberFormat, Range, Ticks, decimals_of},
};
use crate::{
    scene::{Anchor, Item, Rect, Scene},
    stroke_font,
    theme::ThemeColor,
};

/// Font sizes: title, legends, axis labels.
const TITLE_SIZE: f64 = 16.0;
const LEGEND_SIZE: f64 = 12.0;
const LABEL_SIZE: f64 = 11.0;
/// Estimated width of the value axis at the right.
pub(super) const AXIS_WIDTH: f64 = 80.0;
/// Margin at the left and right.
const MARGIN: f64 = 12.0;
/// Height of title and subtitle.
const HEADER: f64 = 46.0;
/// Height of a legend row.
const LEGEND_ROW: f64 = 18.0;
/// Gap between two panes.
const PANE_GAP: f64 = 6.0;
/// Height of the time axis.
const TIME_AXIS: f64 = 26.0;
/// Height of a last-value tag.
const TAG_HEIGHT: f64 = 15.0;
/// Pixels per horizontal grid line.
const PIXELS_PER_TICK: f64 = 34.0;
/// Minimum size.
const MIN_SIZE: (f64, f64) = (200.0, 120.0);
/// Prices with more decimals than this are shown at pixel precision.
const MAX_PRICE_DECIMALS: usize = 4;
/// Legend names are truncated at this width.
const MAX_NAME_WIDTH: f64 = 220.0;

/// Everything about a pane that does not depend on the width of the value axis.
struct PaneLayout<'a> {
    pane: Pane<'a>,
    range: Range,
    empty: bool,
    ticks: Vec<f64>,
    /// Axis labels, by importance.
    labels: Vec<(f64, String)>,
    tags: Vec<(f64, String, ThemeColor)>,
    /// Upper edge of the legend, and the edges of the plot below it.
    top: f64,
    from: f64,
    to: f64,
}

/// An entry of a legend and its position.
struct LegendEntry<'a> {
    row: usize,
    x: f64,
    name: String,
    series: Option<&'a PaneSeries<'a>>,
}

/// Width of a drawing in pixels.
pub(super) fn width(chart: &Chart<'_>) -> f64 {
    f64::from(chart.size.0).max(MIN_SIZE.0)
}

pub(super) fn scene(chart: &Chart<'_>) -> Scene {
    let width = width(chart);
    let time = chart.bars.time;
    let bars = chart.bars.len();
    let per = aggregate::bars_per_candle(chart);
    let aggregation = aggregate::aggregation(chart).text();
    let all = with_notes(panes(chart), aggregation.as_deref(), per);
    let (layouts, height) = pane_layouts(all, per, width, f64::from(chart.size.1).max(MIN_SIZE.1));
    let axis = layouts
        .iter()
        .flat_map(axis_texts)
        .map(|text| stroke_font::safe_width(&text, LABEL_SIZE))
        .fold(24.0, f64::max)
        + 14.0;
    let plot = (width - MARGIN - axis).max(40.0);
    let subtitle = subtitle(chart, aggregation.as_deref());
    let mut items = vec![fill_rect(0.0, 0.0, width, height, ThemeColor::Background)];
    let title = stroke_font::truncate(&chart.title, TITLE_SIZE, width - 2.0 * MARGIN);
    items.push(text((MARGIN, 22.0), title, ThemeColor::Text, TITLE_SIZE, Anchor::Start, true));
    let subtitle_text = stroke_font::truncate(&subtitle, LABEL_SIZE, width - 2.0 * MARGIN);
    items.push(text((MARGIN, 38.0), subtitle_text, ThemeColor::Muted, LABEL_SIZE, Anchor::Start, false));
    let labels = time.labels(bars, plot, LABEL_SIZE);
    for layout in &layouts {
        let rect = Rect { x: MARGIN, y: layout.from, width: plot, height: layout.to - layout.from };
        draw_pane(&mut items, layout, &PaneGeometry { rect, range: layout.range, bars, per }, &labels);
    }
    let time_axis = PaneGeometry {
        rect: Rect { x: MARGIN, y: height - TIME_AXIS, width: plot, height: TIME_AXIS },
        range: Range { low: 0.0, high: 1.0 },
        bars,
        per,
    };
    items.extend(labels.iter().map(|label| time_label(label, &time_axis)));
    Scene { width, height, title: chart.title.clone(), description: describe(subtitle, &layouts), items }
}

/// Panes with the aggregation in their legends.
fn with_notes<'a>(mut panes: Vec<Pane<'a>>, aggregation: Option<&str>, per: usize) -> Vec<Pane<'a>> {
    for pane in panes.iter_mut().filter(|_| per > 1) {
        pane.note = match pane.series.first() {
            Some(PaneSeries::Candles(_)) => aggregation.unwrap_or_default().to_owned(),
            Some(PaneSeries::Volume(_)) => format!("sums of {per} bars"),
            _ => String::new(),
        };
    }
    panes
}

/// Ranges and heights of all panes, and the total height.
fn pane_layouts<'a>(
    panes: Vec<Pane<'a>>,
    per: usize,
    width: f64,
    requested: f64,
) -> (Vec<PaneLayout<'a>>, f64) {
    let rows = |pane: &Pane<'_>| legend(pane, width).last().map_or(1, |e| e.row + 1) as f64 * LEGEND_ROW;
    let fixed: f64 = panes.iter().map(|p| rows(p) + PANE_GAP).sum::<f64>() + HEADER + TIME_AXIS;
    let shares: f64 = panes.iter().map(|p| p.share).sum();
    let free = (requested - fixed).max(0.0);
    let height_of = |pane: &Pane<'_>| (free * pane.share / shares).max(pane.min_height).round();
    let height = fixed + panes.iter().map(height_of).sum::<f64>();
    let mut top = HEADER;
    let layout = |pane: Pane<'a>| {
        let (from, tall) = (top + rows(&pane), height_of(&pane));
        let to = from + tall;
        let found = pane.range(per);
        let range = found.unwrap_or(Range { low: 0.0, high: 1.0 });
        let ticks = range.ticks((tall / PIXELS_PER_TICK).max(3.0) as usize);
        let labels = axis_labels(&pane, range, &ticks);
        let tags = tags(&pane, range, ticks.step);
        let layout = PaneLayout {
            range,
            empty: found.is_none(),
            ticks: ticks.values,
            labels,
            tags,
            top,
            from,
            to,
            pane,
        };
        top = to + PANE_GAP;
        layout
    };
    (panes.into_iter().map(layout).collect(), height)
}

/// Axis labels: levels, then ticks.
fn axis_labels(pane: &Pane<'_>, range: Range, ticks: &Ticks) -> Vec<(f64, String)> {
    let format = NumberFormat::of(range.magnitude(), ticks.step);
    let fine = NumberFormat::of(range.magnitude(), ticks.step / 100.0).max_decimals(decimals_of(pane.levels));
    let levels = pane.levels.iter().filter(|v| v.is_finite()).map(|v| (*v, fine.text(*v)));
    levels.chain(ticks.values.iter().map(|v| (*v, format.text(*v)))).collect()
}

/// Last-value tags within the axis range.
fn tags(pane: &Pane<'_>, range: Range, step: f64) -> Vec<(f64, String, ThemeColor)> {
    let given = pane.series.iter().find_map(|s| match s {
        PaneSeries::Candles(bars) => decimals_of(bars.close),
        _ => None,
    });
    let format = match given {
        // As prices are given.
        Some(decimals) if decimals <= MAX_PRICE_DECIMALS => {
            NumberFormat::of(range.magnitude(), 0.1f64.powi(decimals as i32))
        }
        // About pixel precision.
        _ => NumberFormat::of(range.magnitude(), step / 100.0).max_decimals(given),
    };
    let tag = |series: &PaneSeries<'_>| {
        let (value, color) = series.last()?;
        (range.low <= value && value <= range.high).then(|| (value, format.text(value), color))
    };
    pane.series.iter().filter_map(tag).collect()
}

/// Every text on a pane's value axis.
fn axis_texts(layout: &PaneLayout<'_>) -> Vec<String> {
    if layout.empty {
        return Vec::new();
    }
    layout.labels.iter().map(|n| n.1.clone()).chain(layout.tags.iter().map(|t| t.1.clone())).collect()
}

/// Legend of a pane: title and names in rows that fit the width.
fn legend<'a>(pane: &'a Pane<'a>, width: f64) -> Vec<LegendEntry<'a>> {
    let named = pane.series.iter().filter_map(|s| match s {
        PaneSeries::Column { name, .. } => Some((*name, Some(s))),
        _ => None,
    });
    // A panel with one series of the same name is named once.
    let title = pane
        .series
        .first()
        .is_none_or(|s| !matches!(s, PaneSeries::Column { name, .. } if *name == pane.title));
    let titled = match pane.note.as_str() {
        "" => pane.title.to_owned(),
        note => format!("{}: {note}", pane.title),
    };
    let title = title.then_some((titled.as_str(), None));
    let (mut row, mut x) = (0, MARGIN);
    let entry = |(name, series): (&str, Option<&'a PaneSeries<'a>>)| {
        let max = if series.is_some() { MAX_NAME_WIDTH } else { f64::INFINITY };
        let name = stroke_font::truncate(name, LEGEND_SIZE, max.min(width - 2.0 * MARGIN - 22.0));
        let wide = stroke_font::safe_width(&name, LEGEND_SIZE) + if series.is_some() { 22.0 } else { 6.0 };
        if x > MARGIN && x + wide > width - MARGIN {
            (row, x) = (row + 1, MARGIN);
        }
        let entry = LegendEntry { row, x, name, series };
        x += wide + 14.0;
        entry
    };
    title.into_iter().chain(named).map(entry).collect()
}

/// Draws a pane: legend, border, grid, series, axis.
fn draw_pane(items: &mut Vec<Item>, layout: &PaneLayout<'_>, geometry: &PaneGeometry, times: &[Label]) {
    let rect = geometry.rect;
    for entry in legend(&layout.pane, rect.right()) {
        draw_legend_entry(items, &entry, layout.top + LEGEND_ROW * (entry.row as f64 + 1.0) - 6.0);
    }
    items.push(Item::Rects {
        rects: vec![rect],
        fill: ThemeColor::Background,
        stroke: Some(ThemeColor::Grid),
    });
    let mut inside = Vec::new();
    if let Some((a, b)) = layout.pane.band.filter(|_| !layout.empty) {
        let (top, bottom) = (geometry.y(a.max(b)), geometry.y(a.min(b)));
        inside.push(fill_rect(rect.x, top, rect.width, bottom - top, ThemeColor::Band));
    }
    let across = |v: &f64| vec![(rect.x, crisp(geometry.y(*v))), (rect.right(), crisp(geometry.y(*v)))];
    let down = |l: &Label| {
        let x = crisp(geometry.x(l.bar as f64));
        vec![(x, rect.y), (x, rect.bottom())]
    };
    let ticks = if layout.empty { &[] } else { layout.ticks.as_slice() };
    let grid = ticks.iter().map(across).chain(times.iter().map(down)).collect();
    inside.push(Item::Polylines { lines: grid, color: ThemeColor::Grid, width: 1.0, dash: &[] });
    let levels: Vec<_> =
        layout.pane.levels.iter().filter(|v| v.is_finite() && !layout.empty).map(across).collect();
    inside.push(Item::Polylines { lines: levels, color: ThemeColor::Muted, width: 1.0, dash: &[4.0, 4.0] });
    if layout.empty {
        let middle = (rect.x + rect.width / 2.0, rect.y + rect.height / 2.0 + 4.0);
        inside.push(text(
            middle,
            "no values".to_owned(),
            ThemeColor::Muted,
            LEGEND_SIZE,
            Anchor::Middle,
            false,
        ));
    } else {
        // Histograms are below the lines that they belong to.
        let (bars, lines): (Vec<_>, Vec<_>) = layout.pane.series.iter().partition(|s| is_histogram(s));
        inside.extend(bars.into_iter().chain(lines).flat_map(|s| marks::draw(s, geometry)));
    }
    items.push(Item::Clip { rect, items: inside });
    if !layout.empty {
        draw_value_axis(items, layout, geometry);
    }
}

fn is_histogram(series: &PaneSeries<'_>) -> bool {
    matches!(series, PaneSeries::Column { mark: Mark::Histogram, .. })
}

/// A legend entry: a sample of the mark and the name.
fn draw_legend_entry(items: &mut Vec<Item>, entry: &LegendEntry<'_>, base: f64) {
    let Some(PaneSeries::Column { mark, color, .. }) = entry.series else {
        items.push(text(
            (entry.x, base),
            entry.name.clone(),
            ThemeColor::Text,
            LEGEND_SIZE,
            Anchor::Start,
            true,
        ));
        return;
    };
    match mark {
        Mark::Line => items.push(Item::Polylines {
            lines: vec![vec![(entry.x, base - 4.0), (entry.x + 16.0, base - 4.0)]],
            color: *color,
            width: 2.0,
            dash: marks::dash(*color),
        }),
        Mark::Dots => {
            let dot = |n: f64| Rect { x: entry.x + n * 6.0, y: base - 5.5, width: 3.0, height: 3.0 };
            items.push(Item::Rects { rects: [0.0, 1.0, 2.0].map(dot).to_vec(), fill: *color, stroke: None });
        }
        Mark::Histogram => {
            items.push(fill_rect(entry.x + 2.0, base - 8.0, 5.0, 8.0, ThemeColor::UpSoft));
            items.push(fill_rect(entry.x + 9.0, base - 5.0, 5.0, 5.0, ThemeColor::DownSoft));
        }
    }
    items.push(text(
        (entry.x + 22.0, base),
        entry.name.clone(),
        ThemeColor::Text,
        LEGEND_SIZE,
        Anchor::Start,
        false,
    ));
}

/// Axis labels at the right, and the last-value tags over them.
fn draw_value_axis(items: &mut Vec<Item>, layout: &PaneLayout<'_>, geometry: &PaneGeometry) {
    let (rect, x) = (geometry.rect, geometry.rect.right() + 6.0);
    let mut tags: Vec<(f64, &str, ThemeColor)> =
        layout.tags.iter().map(|(value, text, color)| (geometry.y(*value), text.as_str(), *color)).collect();
    tags.truncate((rect.height / TAG_HEIGHT) as usize);
    tags.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut tag_y: Vec<f64> = tags.iter().map(|t| t.0).collect();
    spread_apart(&mut tag_y, rect.y, rect.bottom(), TAG_HEIGHT);
    // Levels come first: they are chosen by the user.
    let mut taken = tag_y.clone();
    for (value, number) in &layout.labels {
        let y = geometry.y(*value);
        let free = taken.iter().all(|p| (p - y).abs() > TAG_HEIGHT * 0.75);
        if free && (rect.y + 4.0..=rect.bottom() - 2.0).contains(&y) {
            items.push(text(
                (x, y + 4.0),
                number.clone(),
                ThemeColor::Muted,
                LABEL_SIZE,
                Anchor::Start,
                false,
            ));
            taken.push(y);
        }
    }
    for ((_, number, color), y) in tags.into_iter().zip(tag_y) {
        let wide = stroke_font::safe_width(number, LABEL_SIZE) + 8.0;
        items.push(fill_rect(x - 4.0, y - TAG_HEIGHT / 2.0, wide, TAG_HEIGHT - 1.0, color));
        items.push(text(
            (x, y + 3.5),
            number.to_owned(),
            ThemeColor::Background,
            LABEL_SIZE,
            Anchor::Start,
            false,
        ));
    }
}

/// Moves ascending positions apart by at least `gap`, between two edges.
fn spread_apart(positions: &mut [f64], top: f64, bottom: f64, gap: f64) {
    let mut min = top + gap / 2.0;
    for position in positions.iter_mut() {
        *position = position.max(min);
        min = *position + gap;
    }
    let mut max = bottom - gap / 2.0;
    for position in positions.iter_mut().rev() {
        *position = position.min(max);
        max = *position - gap;
    }
}

fn time_label(label: &Label, axis: &PaneGeometry) -> Item {
    let half = stroke_font::width(&label.text, LABEL_SIZE) / 2.0;
    let middle = axis.x(label.bar as f64).min(axis.rect.right() - half).max(axis.rect.x + half);
    text(
        (middle, axis.rect.y + 14.0),
        label.text.clone(),
        ThemeColor::Muted,
        LABEL_SIZE,
        Anchor::Middle,
        label.bold,
    )
}

/// Time range, number of bars and aggregation.
fn subtitle(chart: &Chart<'_>, aggregation: Option<&str>) -> String {
    let bars = chart.bars.len();
    let Some(last) = bars.checked_sub(1) else { return "no bars".to_owned() };
    let time = chart.bars.time;
    let zone = match time {
        TimeAxis::Calendar { zone: Some(zone), daily: false, .. } => format!(" {zone}"),
        _ => String::new(),
    };
    let when = match (time, last) {
        (TimeAxis::Index, _) => String::new(),
        (_, 0) => format!("{}{zone}, ", time.full_label(0)),
        _ => format!("{} to {}{zone}, ", time.full_label(0), time.full_label(last)),
    };
    let aggregation = aggregation.map(|text| format!(", {text}")).unwrap_or_default();
    format!("{when}{bars} {}{aggregation}", if bars == 1 { "bar" } else { "bars" })
}

/// Accessible description.
fn describe(subtitle: String, layouts: &[PaneLayout<'_>]) -> String {
    let panes = layouts.iter().map(|layout| {
        let names = layout.pane.series.iter().filter_map(|s| match s {
            PaneSeries::Column { name, .. } => Some(*name),
            _ => None,
        });
        let names = names.collect::<Vec<_>>().join(", ");
        let colon = if names.is_empty() { "" } else { ": " };
        format!("{}{colon}{names}.", layout.pane.title)
    });
    std::iter::once(format!("{subtitle}.")).chain(panes).collect::<Vec<_>>().join(" ")
}

/// Pixel centre: a one-pixel line there is not antialiased.
fn crisp(at: f64) -> f64 {
    at.floor() + 0.5
}

fn fill_rect(x: f64, y: f64, width: f64, height: f64, fill: ThemeColor) -> Item {
    Item::Rects { rects: vec![Rect { x, y, width, height }], fill, stroke: None }
}

fn text(at: (f64, f64), text: String, color: ThemeColor, size: f64, anchor: Anchor, bold: bool) -> Item {
    Item::Text { at, text, color, size, anchor, bold }
}
