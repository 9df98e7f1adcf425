//! `gpuforge indicators … --check`, `--strict`: data quality findings of bars and columns, one line each, most important first.

use anyhow::Result;
use gpuforge::market::{DataFinding, FindingScope, JUMP_SIGMAS, MarketReport, QualityProblem};

use crate::{
    error::Hinted,
    format::{escape_control, plural},
    output::Output,
};

/// Findings that are listed; --json has all.
const LISTED: usize = 12;

/// Prints the findings to stderr. Skipped and duplicate rows are reported with the input.
pub(super) fn print_findings(report: &MarketReport, out: &Output) {
    let shown =
        |f: &&DataFinding| !matches!(f.problem, QualityProblem::Duplicate | QualityProblem::Unreadable);
    let findings: Vec<&DataFinding> = report.findings.iter().flatten().filter(shown).collect();
    for finding in findings.iter().take(LISTED) {
        out.warn("check", &escape_control(&line(finding, report.symbols)), None);
    }
    if findings.len() > LISTED {
        let more = plural((findings.len() - LISTED) as u64, "more finding");
        out.warn("check", &more, Some("--json has all of them"));
    }
}

/// Line of the summary; `None` if nothing was checked.
pub(super) fn summary(report: &MarketReport) -> Option<(bool, String)> {
    let found = report.findings.as_deref().filter(|_| report.rows > 0)?;
    if found.is_empty() {
        return Some((true, "check: no findings in bars and columns".to_owned()));
    }
    let bars = found.iter().filter(|f| f.scope == FindingScope::Input).count();
    let all = plural(found.len() as u64, "finding");
    Some((false, format!("check: {all}, {bars} in bars and {} in columns", found.len() - bars)))
}

/// With `--strict` a finding is a failure, after everything was written.
pub(super) fn strict(report: &MarketReport) -> Result<()> {
    let found = report.findings.as_deref().unwrap_or(&[]);
    let Some(first) = found.first() else { return Ok(()) };
    let what = format!(
        "--strict: {}; first: {}",
        plural(found.len() as u64, "finding"),
        line(first, report.symbols)
    );
    Err(Hinted::new(escape_control(&what), "the output is written; without --strict findings are warnings")
        .into())
}

/// One finding in one line.
fn line(finding: &DataFinding, symbols: usize) -> String {
    format!("{}{}", what(finding), location(finding, symbols))
}

fn what(finding: &DataFinding) -> String {
    let DataFinding { column, count, .. } = finding;
    let rows = plural(*count, "row");
    match finding.problem {
        QualityProblem::Null => format!("{column} null or NaN in {rows}"),
        QualityProblem::HighBelowLow => format!("high is below low in {rows}"),
        QualityProblem::OutsideHighLow => format!("{column} outside of low to high in {rows}"),
        QualityProblem::NotPositive => format!("{column} 0 or below in {rows}"),
        QualityProblem::Unreadable => format!("{rows} skipped that could not be read"),
        QualityProblem::Duplicate => format!("{rows} dropped with a duplicate timestamp"),
        QualityProblem::AllNan => format!("{column} has no value at all"),
        QualityProblem::Infinite => format!("{column} is infinite in {rows}"),
        QualityProblem::OutOfRange => {
            let range = finding.range.map_or_else(String::new, |r| format!(" of {r}"));
            let value = finding.value.map_or_else(String::new, |x| format!(" ({x:.6})"));
            format!("{column} is outside{range}{value} in {rows}")
        }
        QualityProblem::Nan => {
            format!("{column} is NaN in {} of its rows after the warm-up", percent(finding.share))
        }
        QualityProblem::Constant => format!("{column} is constant"),
        QualityProblem::TooShort => format!("{column} has no value: its warm-up is longer than every series"),
        QualityProblem::Jump => {
            let size = finding.value.map_or(0.0, f64::exp_m1) * 100.0;
            let times = plural(*count, "jump");
            format!("{times} of the close beyond {JUMP_SIGMAS} sigma, the first by {size:+.1} %")
        }
        QualityProblem::Gap => {
            let usual = finding.range.map_or_else(String::new, |r| format!(" (usual step {})", span(r.max)));
            let first = finding.value.map_or_else(String::new, |s| format!(", the first of {}", span(s)));
            format!("{} in time{usual}{first}", plural(*count, "gap"))
        }
        QualityProblem::ZeroVolume => format!("volume is 0 in {} of rows", percent(finding.share)),
    }
}

/// Affected symbols, and the first row.
fn location(finding: &DataFinding, symbols: usize) -> String {
    let DataFinding { symbols: n, example, worst_share, .. } = finding;
    let at = match (finding.first_row, &finding.first_time) {
        (Some(row), Some(time)) => format!("row {row} ({time})"),
        (Some(row), None) => format!("row {row}"),
        (None, _) => String::new(),
    };
    let everywhere = matches!(finding.problem, QualityProblem::Constant | QualityProblem::AllNan);
    let starts = match finding.problem {
        _ if at.is_empty() || everywhere => String::new(),
        QualityProblem::Nan => format!(", from {at} on"),
        _ => format!(", first at {at}"),
    };
    match (symbols, *n) {
        (0 | 1, _) | (_, 0) => starts,
        _ if everywhere => format!(" in {n} of {symbols} symbols, {example} among them"),
        (_, 1) => format!(" in 1 of {symbols} symbols: {example}{}{starts}", of(*worst_share)),
        _ => format!(" in {n} of {symbols} symbols, worst {example}{}{starts}", of(*worst_share)),
    }
}

/// `, 95 %`.
fn of(share: f64) -> String {
    format!(", {}", percent(share))
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        x if x < 0.1 => "<0.1 %".to_owned(),
        x if x < 10.0 => format!("{x:.1} %"),
        x => format!("{x:.0} %"),
    }
}

/// `90 s`, `16 min`, `2 h`, `3 d`.
fn span(seconds: f64) -> String {
    let units = [("d", 86_400.0), ("h", 3600.0), ("min", 60.0)];
    let unit = units.into_iter().find(|(_, size)| seconds >= *size && (seconds / size).fract() < 1e-9);
    let (name, size) = unit.unwrap_or(("s", 1.0));
    format!("{} {name}", (seconds / size * 1000.0).round() / 1000.0)
}

#[cfg(test)]
mod tests {
    use gpuforge::indicators::catalogue::ValueRange;

    use super::*;

    fn finding(problem: QualityProblem, column: &str) -> DataFinding {
        DataFinding {
            scope: FindingScope::Column,
            column: column.to_owned(),
            problem,
            symbols: 1,
            example: "ABC".to_owned(),
            count: 286,
            share: 0.012,
            worst_share: 0.953,
            first_row: Some(14),
            first_time: Some("2024-01-02T14:44:00Z".to_owned()),
            value: None,
            range: None,
        }
    }

    #[test]
    fn a_line_has_problem_share_and_location() {
        let nan = finding(QualityProblem::Nan, "rsi_14");
        assert_eq!(
            line(&nan, 30),
            "rsi_14 is NaN in 1.2 % of its rows after the warm-up in 1 of 30 symbols: ABC, 95 %, from row 14 \
             (2024-01-02T14:44:00Z) on"
        );
        let single = DataFinding { share: 0.953, first_time: None, ..nan };
        assert_eq!(line(&single, 1), "rsi_14 is NaN in 95 % of its rows after the warm-up, from row 14 on");
        let range = Some(ValueRange { min: 0.0, max: 100.0 });
        let out = DataFinding {
            range,
            value: Some(104.25),
            count: 1,
            ..finding(QualityProblem::OutOfRange, "rsi_14")
        };
        assert_eq!(
            line(&out, 1),
            "rsi_14 is outside of 0 to 100 (104.250000) in 1 row, first at row 14 (2024-01-02T14:44:00Z)"
        );
        let usual = Some(ValueRange { min: 0.0, max: 60.0 });
        let gap = DataFinding {
            range: usual,
            value: Some(960.0),
            count: 3,
            ..finding(QualityProblem::Gap, "time")
        };
        assert!(
            line(&gap, 1)
                .starts_with("3 gaps in time (usual step 1 min), the first of 16 min, first at row 14 (")
        );
        let jump =
            DataFinding { value: Some(0.5f64.ln()), count: 1, ..finding(QualityProblem::Jump, "close") };
        assert!(
            line(&jump, 1).starts_with("1 jump of the close beyond 8 sigma, the first by -50.0 %, first at")
        );
        assert_eq!(
            line(&finding(QualityProblem::Constant, "x"), 2),
            "x is constant in 1 of 2 symbols, ABC among them"
        );
    }

    #[test]
    fn spans_and_shares_have_units() {
        assert_eq!(
            [60.0, 90.0, 7200.0, 259_200.0, 0.25].map(span),
            ["1 min", "90 s", "2 h", "3 d", "0.25 s"]
        );
        assert_eq!([0.0001, 0.012, 0.95, 1.0].map(percent), ["<0.1 %", "1.2 %", "95 %", "100 %"]);
    }
}
