//! Crossover charts: crossovers, summaries, terminal and SVG output.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail"
)]

use gpuforge_ops::OpKind;
use gpuforge_route::{
    CostModel,
    chart::{CurveLine, Panel, crossings, crossover, panel, panels, svg, terminal},
    curve::{Curve, Point},
};

fn curve(points: &[(u64, f64)]) -> Curve {
    Curve::try_from(points.iter().map(|(units, ns)| Point { units: *units, ns: *ns }).collect::<Vec<_>>())
        .unwrap()
}

/// 1 ns a unit, against 100 µs and a tenth of that.
fn cpu() -> Curve {
    curve(&[(1 << 8, 256.0), (1 << 24, 16_777_216.0)])
}

fn gpu() -> Curve {
    let points: Vec<(u64, f64)> = (8..=24).map(|o| (1u64 << o, 1e5 + f64::from(1u32 << o) * 0.1)).collect();
    curve(&points)
}

fn models() -> Vec<CostModel> {
    let mut here = CostModel::named("cpu");
    here.set(OpKind::Xor, cpu());
    here.set(OpKind::Matmul, cpu());
    let mut there = CostModel::named("card <&\"> 9");
    there.set(OpKind::Xor, gpu());
    there.set(OpKind::Matmul, gpu().scaled(1e6).unwrap());
    (there.upload, there.download) =
        (Some(curve(&[(1, 0.0931), (1 << 30, 1e8)])), Some(curve(&[(1, 0.0931), (1 << 30, 1e8)])));
    vec![here, there]
}

#[test]
fn crossovers_match_the_cost_laws() {
    let near = |at: Option<u64>, want: f64| {
        let at = at.unwrap() as f64;
        assert!((at / want - 1.0).abs() < 0.03, "{at} is not {want}");
    };
    near(crossover(&cpu(), &gpu(), &|_| 0.0), 1e5 / 0.9);
    near(crossover(&gpu(), &cpu(), &|_| 0.0), 1e5 / 0.9);
    // A transfer cost of 0.5 ns per unit moves the crossover up.
    near(crossover(&cpu(), &gpu(), &|units| units as f64 * 0.5), 1e5 / 0.4);
    assert_eq!(crossover(&cpu(), &gpu(), &|units| units as f64), None, "transfers cost more than computing");
    assert_eq!(crossover(&cpu(), &cpu().scaled(0.5).unwrap(), &|_| 0.0), None);
    let point = curve(&[(64, 10.0)]);
    assert_eq!(crossover(&point, &point, &|_| 0.0), None);
}

#[test]
fn two_crossovers_are_both_named() {
    let one = curve(&[(1 << 8, 1e3), (1 << 16, 1e5), (1 << 24, 1e6)]);
    let two = curve(&[(1 << 8, 1e4), (1 << 16, 2e4), (1 << 24, 1e8)]);
    let all = crossings(&one, &two, &|_| 0.0);
    assert!(all.len() == 2 && all[0] < 1 << 16 && all[1] > 1 << 16, "{all:?}");
    assert_eq!(crossover(&one, &two, &|_| 0.0), Some(all[1]));
    let (mut a, mut b) = (CostModel::named("a"), CostModel::named("b"));
    a.set(OpKind::Xor, one);
    b.set(OpKind::Xor, two);
    let said = panel(OpKind::Xor, &[a, b]).unwrap().describe(["this", "that"]);
    assert!(
        said.starts_with("this, from ") && said.contains(" on that, from ") && said.ends_with(" on this"),
        "{said}"
    );
}

#[test]
fn a_panel_has_a_line_per_backend_including_transfers() {
    let all = panels(&models());
    assert_eq!(all.iter().map(|p| p.title.as_str()).collect::<Vec<_>>(), ["xor", "matmul"]);
    let xor = &all[0];
    assert_eq!(xor.lines.len(), 2);
    let last = xor.lines[1].points.last().unwrap();
    // 0.1 ns a byte up, and as much down.
    assert!(
        (last.1 / (1e5 + 16_777_216.0 * 0.1 + 2.0 * 16_777_216.0 * 0.0931) - 1.0).abs() < 0.05,
        "{last:?}"
    );
    let at = xor.crossings[0];
    assert!((110_000..180_000).contains(&at), "{at}");
    assert_eq!((xor.first, xor.crossings.len()), (0, 1));
    assert!(xor.summary().starts_with("cpu, from 1") && xor.summary().contains("card"), "{}", xor.summary());
    assert_eq!((all[1].crossings.len(), all[1].summary().as_str()), (0, "cpu at every size"));
    assert!((xor.lines[0].peak / 1e9 - 1.0).abs() < 0.01);
    assert!(panel(OpKind::Sort, &models()).is_none());
    assert_eq!(panel(OpKind::Xor, &models()[..1]).unwrap().summary(), "only cpu");
    assert!(panels(&[]).is_empty());
}

#[test]
fn terminal_chart_shows_both_lines_and_the_crossover() {
    let xor = panel(OpKind::Xor, &models()).unwrap();
    for width in [40, 60, 80, 120, 500] {
        let text = terminal(&xor, width, false);
        assert!(
            text.lines().skip(1).all(|l| l.chars().count() <= width.min(100).max(width.min(60))),
            "{width}:\n{text}"
        );
        assert!(text.contains('o') && text.contains('+') && text.contains("o cpu"), "{text}");
        assert!(text.lines().any(|l| l.contains(':') && l.contains('|')), "the crossing is marked:\n{text}");
        assert!(!text.contains('\u{1b}') && text.lines().all(|l| !l.ends_with(' ')), "{text}");
    }
    let at = gpuforge_route::chart::count(xor.crossings[0]);
    assert_eq!(terminal(&xor, 80, false).matches(&at).count(), 2, "in the heading and below the axis");
    assert!(terminal(&xor, 80, true).contains("\u{1b}[36mo"));
    let plain =
        terminal(&xor, 80, true).replace("\u{1b}[36m", "").replace("\u{1b}[33m", "").replace("\u{1b}[0m", "");
    assert_eq!(plain, terminal(&xor, 80, false), "colours are all that differs");
}

#[test]
fn narrow_terminals_get_a_table() {
    let text = terminal(&panel(OpKind::Xor, &models()).unwrap(), 39, false);
    assert!(text.contains("size") && text.contains("256 ns") && !text.contains('|'), "{text}");
    assert!(text.lines().skip(1).all(|l| l.chars().count() <= 39), "{text}");
}

#[test]
fn degenerate_panels_are_drawn() {
    let line = |points: Vec<(u64, f64)>| CurveLine { name: "x".into(), points, peak: 0.0 };
    for lines in [
        vec![],
        vec![line(vec![])],
        vec![line(vec![(5, 5.0)])],
        vec![line(vec![(1, f64::NAN), (2, f64::INFINITY)])],
        vec![line(vec![(1, 3.0), (1 << 40, 3.0)]), line(vec![])],
    ] {
        let odd = Panel { title: "t".into(), unit: "u".into(), lines, crossings: vec![3], first: 0 };
        for width in [0, 1, 39, 40, 41, 99] {
            assert!(terminal(&odd, width, false).starts_with("t: "));
        }
        assert!(svg(&[odd]).ends_with("</svg>\n"));
    }
}

#[test]
fn hostile_names_give_well_formed_xml() {
    let hostile = "<a>&\"'\u{0}\u{1b}\u{202e}]]>";
    let line = CurveLine { name: hostile.into(), points: vec![(1, 3.0), (1 << 20, 9e9)], peak: 0.0 };
    let panel = Panel {
        title: hostile.into(),
        unit: hostile.into(),
        lines: vec![line.clone(), line],
        crossings: vec![7],
        first: 0,
    };
    let text = svg(&[panel]);
    let read = roxmltree::Document::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    let shown = "<a>&\"'\u{fffd}\u{fffd}\u{fffd}]]>";
    assert!(
        read.descendants()
            .any(|n| n.has_tag_name(("http://www.w3.org/2000/svg", "text")) && n.text() == Some(shown))
    );
}

#[test]
fn svg_is_self_contained_and_described() {
    let text = svg(&panels(&models()));
    for part in [
        "<title",
        "<desc",
        "role=\"img\"",
        "prefers-color-scheme:dark",
        "card &lt;&amp;&quot;&gt; 9",
        "xor: cpu, from",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert_eq!(text.matches("<polyline").count(), 4);
    assert_eq!(text.matches("class=\"c\"").count(), 1, "one crossing");
    assert!(
        !text.contains("href") && !text.contains("url(") && text.matches("http").count() == 1,
        "nothing from elsewhere"
    );
    for tag in ["svg", "g", "text", "style", "desc", "title"] {
        let closed = text.matches(&format!("</{tag}>")).count();
        let opened = text.matches(&format!("<{tag} ")).count() + text.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, closed, "{tag}");
    }
    assert!(!text.contains("NaN") && !text.contains("inf"), "{text}");
}
