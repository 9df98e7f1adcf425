//! How do the figures reach a spreadsheet? One line per name, times in nanoseconds.

use std::fmt::Write as _;

use super::figures::Report;

const HEAD: &str = "name,category,count,total_ns,self_ns,share_of_wall,mean_ns,std_ns,min_ns,p50_ns,p95_ns,p99_ns,max_ns,bytes\n";

impl Report {
    /// Every name as a line of CSV; unknown figures are empty.
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

/// A text as a field: always quoted; one that a spreadsheet would take for a formula is marked as text.
fn field(text: &str) -> String {
    let formula = text.starts_with(['=', '+', '-', '@', '\t', '\r']);
    format!("\"{}{}\"", if formula { "'" } else { "" }, text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_stay_fields() {
        assert_eq!(field("a,b"), "\"a,b\"");
        assert_eq!(field("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
        assert_eq!(field("=HYPERLINK(1)"), "\"'=HYPERLINK(1)\"");
    }
}
