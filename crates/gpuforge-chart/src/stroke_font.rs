//! Single-stroke vector font (Hershey style) for printable ASCII, as data: text in PNG without reading a font file, and
//! text metrics for layout.
//!
//! A glyph is strokes separated by spaces, a stroke is points of two digits: x from 0 (left), y from 0 (descender) over
//! 2 (baseline) and 6 (small letters) to 8 (capitals). `~` makes the points the corners that a smooth curve is bent
//! around (a quadratic B-spline); it is closed when the last point is the first.

/// Ems per glyph unit, horizontal and vertical: digits come out about as wide as those of common screen fonts.
const ACROSS: f64 = 0.099;
const UP: f64 = 0.1167;
/// y of the baseline.
const BASELINE: f64 = 2.0;
/// Side bearing after a glyph, in units.
const GAP: f64 = 1.6;
/// Width of a space, in units.
const SPACE: f64 = 1.8;
/// Width of every digit (tabular figures), in units.
const DIGIT: f64 = 4.0;
/// Glyph for characters without one (a box).
const MISSING: &str = "0208484202";
/// Viewers' fonts may be this much wider.
const VIEWER_FONT_FACTOR: f64 = 1.15;
/// Advance in ems of characters without a glyph: ideographs are square.
const MISSING_ADVANCE: f64 = 1.0;

/// From space to tilde.
const GLYPHS: [&str; 95] = [
    "",
    "0804 0302",
    "0806 2826",
    "1218 3238 0444 0646",
    "~4748080545420203 2822",
    "0248 ~0828260608 ~2444422224",
    "420718270403122245",
    "0806",
    "~280522",
    "~082502",
    "2824 0745 0547",
    "2327 0545",
    "1200",
    "0535",
    "02120313",
    "0238",
    // 0 to 9
    "~0848420208",
    "172822 1232",
    "~0608484502 0242",
    "~0708484525 ~2545420203",
    "32380444",
    "480805 ~051646420203",
    "~0646420206 ~380804",
    "084812",
    "~0848450508 ~0545420205",
    "~0848440408 ~464212",
    "02120313 05150616",
    "1200 1615",
    "470543",
    "0646 0444",
    "074503",
    "~0708484525 2524 2322",
    "~5202085854 ~2747442427",
    // A to Z
    "022842 1434",
    "0208 ~08484505 ~05454202",
    "~474808024243",
    "0208 ~08484202",
    "48080242 0535",
    "480802 0535",
    "~474808024245 4525",
    "0208 4248 0545",
    "0208",
    "~38320203",
    "0208 480542",
    "080242",
    "0208244842",
    "02084248",
    "~0858520208",
    "0208 ~08484404",
    "~0858520208 3452",
    "0208 ~08484404 2442",
    "~4748080545420203",
    "0848 2822",
    "~08024248",
    "082248",
    "0812375268",
    "0248 0842",
    "082548 2522",
    "08480242",
    "28080222",
    "0832",
    "08282202",
    "062846",
    "0141",
    "0816",
    // a to z
    "4642 ~0646420206",
    "0802 ~0646420206",
    "~454606024243",
    "4842 ~0646420206",
    "0444 ~444606024243",
    "~381815 1512 0636",
    "~0646420206 ~46400001",
    "0802 ~04064642",
    "0602 0807",
    "~161000 1817",
    "0802 360432",
    "0802",
    "0602 ~04063632 ~34366662",
    "0602 ~04064642",
    "~0646420206",
    "0600 ~0646420206",
    "4640 ~0646420206",
    "0602 ~040636",
    "~4546060444420203",
    "1814 ~141232 0636",
    "~06024244 4642",
    "062246",
    "0612365266",
    "0246 0642",
    "0622 4610",
    "06460242",
    "28181605141222",
    "0800",
    "08181625141202",
    "04153445",
];

/// One stroke of a text: points in pixels from where the text begins on its baseline, y downwards.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Stroke {
    pub(crate) points: Vec<(f64, f64)>,
    pub(crate) smooth: bool,
}

/// The glyph of a character; `None` where there is none.
fn glyph(c: char) -> Option<&'static str> {
    GLYPHS.get((c as usize).checked_sub(' ' as usize)?).copied()
}

/// The strokes of a glyph, in units.
fn strokes(glyph: &str) -> impl Iterator<Item = (Vec<(f64, f64)>, bool)> {
    glyph.split(' ').filter(|s| !s.is_empty()).map(|stroke| {
        let digits: Vec<f64> =
            stroke.bytes().filter(u8::is_ascii_digit).map(|b| f64::from(b - b'0')).collect();
        let points = digits.as_chunks::<2>().0.iter().map(|[x, y]| (*x, *y)).collect();
        (points, stroke.starts_with('~'))
    })
}

/// Advance width of a character, in ems.
fn advance(c: char) -> f64 {
    match glyph(c) {
        Some("") => (SPACE + GAP) * ACROSS,
        // Tabular figures: digits align in columns.
        Some(_) if c.is_ascii_digit() => (DIGIT + GAP) * ACROSS,
        Some(shape) => {
            let right = strokes(shape).flat_map(|(points, _)| points).map(|p| p.0).fold(0.0, f64::max);
            (right + GAP) * ACROSS
        }
        None => MISSING_ADVANCE,
    }
}

/// Width of a text at a font size.
pub(crate) fn width(text: &str, size: f64) -> f64 {
    text.chars().map(advance).sum::<f64>() * size
}

/// As [`width`], with a margin for a wider font of the viewer.
pub(crate) fn safe_width(text: &str, size: f64) -> f64 {
    width(text, size) * VIEWER_FONT_FACTOR
}

/// The text, truncated with two dots to fit a width.
pub(crate) fn truncate(text: &str, size: f64, max_width: f64) -> String {
    if safe_width(text, size) <= max_width {
        return text.to_owned();
    }
    let mut used = safe_width("..", size);
    let fits = |c: &char| {
        used += advance(*c) * size * VIEWER_FONT_FACTOR;
        used <= max_width
    };
    let kept: String = text.chars().take_while(fits).collect();
    format!("{}..", kept.trim_end())
}

/// The strokes of a text at a size.
pub(crate) fn outline(text: &str, size: f64) -> Vec<Stroke> {
    let mut from = 0.0;
    let mut out = Vec::new();
    for c in text.chars() {
        for (points, smooth) in strokes(glyph(c).unwrap_or(MISSING)) {
            let place = |(x, y): (f64, f64)| (from + x * ACROSS * size, (BASELINE - y) * UP * size);
            out.push(Stroke { points: points.into_iter().map(place).collect(), smooth });
        }
        from += advance(c) * size;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn glyphs_stay_inside_the_em_box() {
        for (c, shape) in (' '..='~').zip(GLYPHS) {
            for stroke in shape.split(' ').filter(|s| !s.is_empty()) {
                let digits = stroke.trim_start_matches('~');
                assert!(digits.len() >= 4 && digits.len().is_multiple_of(2), "{c}: {stroke}");
                assert!(digits.bytes().all(|b| b.is_ascii_digit()), "{c}: {stroke}");
            }
            let points: Vec<_> = strokes(shape).flat_map(|s| s.0).collect();
            assert!(points.iter().all(|(x, y)| *x <= 6.0 && *y <= 8.0), "{c}: {points:?}");
            assert_eq!(points.is_empty(), c == ' ', "{c}");
            assert!(c == ' ' || points.iter().any(|p| p.0 == 0.0 || c == '1'), "{c} begins at the left");
        }
    }

    #[test]
    fn digits_are_tabular_and_glyphs_differ() {
        assert!(('0'..='9').all(|c| advance(c) == advance('0')));
        let mut shapes = GLYPHS.to_vec();
        shapes.sort_unstable();
        shapes.dedup();
        assert_eq!(shapes.len(), GLYPHS.len());
    }

    #[test]
    fn text_is_truncated_to_fit() {
        assert_eq!(truncate("short", 10.0, 100.0), "short");
        let cut = truncate("a very long name of a column", 10.0, 60.0);
        assert!(cut.ends_with("..") && width(&cut, 10.0) <= 60.0, "{cut}");
        assert_eq!(truncate("anything", 10.0, 0.0), "..");
        assert_eq!(width("", 10.0), 0.0);
        assert_eq!(width("\u{4e2d}", 10.0), 10.0);
        assert!(!outline("\u{4e2d}", 10.0).is_empty());
    }
}
