//! Training report as HTML: curves, test scores and baselines, calibration, periods and features; one self-contained
//! file without scripts.

use std::fmt::Write as _;

use gpuforge_chart::svg::SvgWriter;
/// HTML escaping.
pub use gpuforge_chart::svg::escape;

use crate::{
    model_card::Card,
    score::{Bin, Scores},
};

const WIDE: f64 = 640.0;
const HIGH: f64 = 220.0;
const EDGE: f64 = 44.0;
/// Features listed.
const FEATURES: usize = 30;
const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;color:#222;\
background:#fff}table{border-collapse:collapse}td,th{padding:.2em .8em;border-bottom:1px solid #ddd;text-align:right}\
td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}h2{margin-top:1.6em}.bar{background:#2a6fdb;\
height:.7em;display:inline-block}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}td,th{border-color:#444}}";

/// HTML report of a model card.
pub fn page(card: &Card) -> String {
    let title = format!("{} on {}", card.config.spec.architecture.name(), card.config.recipe.target.name());
    let mut out = String::new();
    let _ = write!(
        out,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" \
         content=\"width=device-width\"><title>{0}</title><style>{STYLE}</style></head><body><h1>{0}</h1>",
        escape(&title)
    );
    let _ = write!(
        out,
        "<p>{} features, window {}, horizon {}, normalisation {}, seed {}, trained on {}. \
         All figures below are out of sample (test part).</p>",
        card.columns.len(),
        card.config.recipe.window,
        card.config.recipe.horizon,
        card.config.recipe.scaling,
        card.config.seed,
        escape(&card.device)
    );
    out += &test(card);
    out += &split(card);
    out += &curves(card);
    out += &calibration(&card.calibration);
    out += &periods(card);
    out += &features(card);
    out += "</body></html>\n";
    out
}

fn row(name: &str, scores: &Scores) -> String {
    let loss = scores.loss.map_or("–".to_owned(), |x| format!("{x:.4}"));
    format!(
        "<tr><td>{}</td><td>{:.2} % ± {:.2}</td><td>{loss}</td><td>{}</td></tr>",
        escape(name),
        100.0 * scores.accuracy,
        100.0 * scores.std_error,
        scores.samples
    )
}

fn test(card: &Card) -> String {
    let mut out =
        "<h2>Test</h2><table><tr><th></th><th>accuracy</th><th>loss</th><th>samples</th></tr>".to_owned();
    out += &row(card.config.spec.architecture.name(), &card.test);
    for baseline in &card.baselines {
        out += &row(&baseline.name, &baseline.scores);
    }
    out + "</table><p>± is one standard error for independent samples; overlapping horizons make it too small.</p>"
}

fn split(card: &Card) -> String {
    let mut out =
        "<h2>Split</h2><table><tr><th></th><th>from</th><th>to</th><th>samples</th><th>purged</th></tr>"
            .to_owned();
    for part in &card.split {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
            escape(&part.part),
            when(part.from),
            when(part.to),
            part.samples,
            part.purged
        );
    }
    let _ = write!(out, "</table><p>Embargo: {} time steps between parts.</p>", card.embargo);
    out
}

fn curves(card: &Card) -> String {
    let train: Vec<(f64, f64)> = card.history.iter().map(|e| (e.epoch as f64 + 1.0, e.train_loss)).collect();
    let valid: Vec<(f64, f64)> =
        card.history.iter().filter_map(|e| Some((e.epoch as f64 + 1.0, e.validation.loss?))).collect();
    let right: Vec<(f64, f64)> =
        card.history.iter().map(|e| (e.epoch as f64 + 1.0, e.validation.accuracy)).collect();
    format!(
        "<h2>Curves</h2><p>Loss by epoch: <b style=\"color:#2a6fdb\">training</b>, \
         <b style=\"color:#d2691e\">validation</b>. Best epoch: {}.</p>{}<p>Validation accuracy by epoch.</p>{}",
        card.best_epoch + 1,
        chart(&[(&train, "#2a6fdb"), (&valid, "#d2691e")], false),
        chart(&[(&right, "#d2691e")], false)
    )
}

fn calibration(bins: &[Bin]) -> String {
    let points: Vec<(f64, f64)> = bins.iter().map(|b| (b.predicted, b.observed)).collect();
    format!(
        "<h2>Calibration</h2><p>Predicted (across) and observed (up), in bins of equal size; the thin line is perfect \
         calibration.</p>{}",
        chart(&[(&points, "#2a6fdb")], true)
    )
}

fn periods(card: &Card) -> String {
    let mut out =
        "<h2>Periods of the test</h2><table><tr><th>from</th><th>to</th><th>accuracy</th><th>loss</th><th>samples</th></tr>"
            .to_owned();
    for period in &card.periods {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{}</td><td>{:.2} %</td><td>{:.4}</td><td>{}</td></tr>",
            when(period.from),
            when(period.to),
            100.0 * period.scores.accuracy,
            period.scores.loss.unwrap_or(f64::NAN),
            period.scores.samples
        );
    }
    out + "</table>"
}

fn features(card: &Card) -> String {
    let most = card.importance.iter().map(|w| w.weight.abs()).fold(f64::MIN_POSITIVE, f64::max);
    let mut out = format!("<h2>Features</h2><p>By {}.</p><table>", escape(&card.importance_by));
    for weight in card.importance.iter().take(FEATURES) {
        let _ = write!(
            out,
            "<tr><td>{}</td><td>{:.5}</td><td style=\"text-align:left\"><span class=\"bar\" style=\"width:{:.0}px\"></span></td></tr>",
            escape(&weight.feature),
            weight.weight,
            (200.0 * weight.weight / most).max(0.0)
        );
    }
    out + "</table>"
}

/// Line chart; with `even`, both axes share one scale and the diagonal is drawn.
fn chart(lines: &[(&Vec<(f64, f64)>, &str)], even: bool) -> String {
    let all =
        || lines.iter().flat_map(|(points, _)| points.iter()).filter(|p| p.0.is_finite() && p.1.is_finite());
    let span = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let (low, high) =
            all().map(of).fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), x| (l.min(x), h.max(x)));
        if low < high { (low, high) } else { (low - 0.5, low + 0.5) }
    };
    if all().next().is_none() {
        return "<p>Nothing to draw.</p>".to_owned();
    }
    let (mut across, mut up) = (span(&|p| p.0), span(&|p| p.1));
    if even {
        across = (across.0.min(up.0), across.1.max(up.1));
        up = across;
    }
    let x = |v: f64| EDGE + (v - across.0) / (across.1 - across.0) * (WIDE - 2.0 * EDGE);
    let y = |v: f64| HIGH - EDGE / 2.0 - (v - up.0) / (up.1 - up.0) * (HIGH - EDGE);
    let mut out = SvgWriter::new();
    out.start("svg").attr("viewBox", format_args!("0 0 {WIDE} {HIGH}")).attr("role", "img");
    out.attr("font-size", 11).attr("fill", "currentColor");
    for (value, at) in [(up.0, y(up.0)), (up.1, y(up.1))] {
        out.start("text").attr("x", 2).attr("y", format_args!("{:.1}", at + 4.0));
        out.text(format_args!("{value:.4}")).end();
    }
    for (value, at) in [(across.0, x(across.0)), (across.1, x(across.1))] {
        out.start("text").attr("x", format_args!("{at:.1}")).attr("y", format_args!("{:.1}", HIGH - 4.0));
        out.attr("text-anchor", "middle").text(format_args!("{value:.3}")).end();
    }
    let mut path = |points: &mut dyn Iterator<Item = (f64, f64)>, colour: &str, thick: f64| {
        let list: Vec<String> = points.map(|(a, b)| format!("{:.1},{:.1}", x(a), y(b))).collect();
        out.start("polyline").attr("fill", "none").attr("points", list.join(" "));
        out.attr("stroke", colour).attr("stroke-width", thick).end();
    };
    if even {
        path(&mut [(across.0, up.0), (across.1, up.1)].into_iter(), "#999", 0.7);
    }
    for (points, colour) in lines {
        path(&mut points.iter().copied().filter(|p| p.0.is_finite() && p.1.is_finite()), colour, 2.0);
    }
    out.finish()
}

/// A date, or a plain number if the time is a bar index.
pub fn when(seconds: f64) -> String {
    const YEAR: f64 = 366.0 * 86_400.0;
    if !seconds.is_finite() || seconds.abs() < YEAR {
        return format!("{seconds}");
    }
    // Days to civil date: years start on 1 March, so that the leap day comes last.
    let days = (seconds / 86_400.0).floor() as i64 + 719_468;
    let era = days.div_euclid(146_097);
    let day = days.rem_euclid(146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let of_month = of_year - (153 * month + 2) / 5 + 1;
    let (month, later) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    format!("{:04}-{month:02}-{of_month:02}", year + era * 400 + later)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_convert_to_dates() {
        for (day, date) in [
            (0, "0"),
            (11_016, "2000-02-29"),
            (19_782, "2024-02-29"),
            (20_088, "2024-12-31"),
            (20_089, "2025-01-01"),
        ] {
            assert_eq!(when(f64::from(day) * 86_400.0), date);
        }
    }

    #[test]
    fn html_is_escaped() {
        assert_eq!(escape("<b a=\"1\">&'"), "&lt;b a=&quot;1&quot;&gt;&amp;&#39;");
    }

    #[test]
    fn flat_lines_and_nan_are_charted() {
        let flat = vec![(1.0, 2.0), (2.0, f64::NAN), (3.0, 2.0)];
        let drawn = chart(&[(&flat, "red")], false);
        assert!(drawn.contains("polyline") && !drawn.contains("NaN"), "{drawn}");
        let hostile = chart(&[(&flat, "<a>&\"'\u{1b}")], true);
        for drawn in [drawn, hostile] {
            assert!(roxmltree::Document::parse(&drawn).is_ok(), "{drawn}");
        }
        assert!(chart(&[(&Vec::new(), "red")], true).contains("Nothing"));
    }
}
