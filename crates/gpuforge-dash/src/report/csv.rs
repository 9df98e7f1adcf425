//! CSV export of a trace report: one row per span name, times in nanoseconds.

use std::fmt::Write as _;

use super::trace_report::TraceReport;

const HEAD: &str = "name,category,count,total_ns,self_ns,share_of_wall,mean_ns,std_ns,min_ns,p50_ns,p95_ns,p99_ns,max_ns,bytes\n";

impl TraceReport {
    /// CSV with a row per name; unknown values are empty.
    pub fn csv(&self) -> String {
        let mut out = HEAD.to_owned();
        for row in &self.rows {
            let s = &row.stats;
            let whole = |value: Option<u64>| value.map(|v| v.to_string()).unwrap_or_default();
            let real = |value: Option<f64>| value.map(|v| v.to_string()).unwrap_or_default();
            let _ = writeln!(
                out,
                "{},{},{},{},{},{},{},{},{},{},{},{},{},{}",
                field(&s.name),
                row.category,
                s.count,
                s.total_ns,
                whole(s.self_ns),
                real(row.share_of_wall),
                s.mean_ns,
                real(s.std_ns),
                s.min_ns,
                s.p50_ns,
                s.p95_ns,
                s.p99_ns,
                s.max_ns,
                whole(s.bytes)
            );
        }
        out
    }
}

/// Quoted CSV field; a leading formula character is escaped (CSV injection).
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("\"{}{}\"", if formula { "'" } else { "" }, text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_quoted_and_formulas_escaped() {
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
        assert_eq!(field("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
    }
}
