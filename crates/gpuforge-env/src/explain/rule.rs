//! Pattern rules: every regex of the table with its required literals, context DFAs and exclusion guards, compiled lazily.

use std::sync::OnceLock;

use super::{
    ExplainError,
    chunk::{ByteRange, CONTEXT_LINES},
    literals::{self, LiteralSplit},
    prefilter::{GramCounts, LiteralPrefilter},
    regex_engine::{CompiledRegex, ContextDfas},
    table::ErrorTable,
};

/// Confidence factor of `weak` patterns, which usually but not always mean the cause.
const WEAK: f64 = 0.8;

/// The table entry that a rule belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RuleOwner {
    Pattern(usize),
    Support(usize),
    Noise(usize),
    Clue(usize),
    Origin(usize),
    Success,
    Failure,
    NotFailure,
}

/// A regex compiled on first use, by whichever thread needs it first.
type Compiled = OnceLock<Result<CompiledRegex, regex::Error>>;

/// All rules of a table and their literal prefilter; shared by all threads.
pub(super) struct RuleSet<'t> {
    pub(super) all: Vec<PatternRule<'t>>,
    pub(super) prefilter: LiteralPrefilter,
    /// Exclusion guard of each pattern.
    pub(super) guards: Vec<ExclusionGuard<'t>>,
    /// Number of patterns, benign messages, clues and origins in the table.
    pub(super) counts: [usize; 4],
}

/// One regex of the table.
pub(super) struct PatternRule<'t> {
    pub(super) owner: RuleOwner,
    pub(super) pattern: &'t str,
    /// Confidence factor: 1, or less for `weak` patterns.
    pub(super) factor: f64,
    /// Set where the pattern is a plain literal and needs no regex.
    pub(super) literal: Option<LiteralRule>,
    /// Context window: lines before and after the literal that a match can reach.
    pub(super) margin: usize,
    /// It treats all digits alike, so that step numbers and times do not make a repeated line new.
    pub(super) any_digit: bool,
    regex: Compiled,
    /// Its required literals.
    splits: Vec<LiteralSplit>,
    /// Context DFAs of each literal; empty where a split is not possible.
    context_dfas: OnceLock<Vec<ContextDfas>>,
}

/// Exclusion guard: patterns that rule a hit out if they match in its lines (`unless`).
pub(super) struct ExclusionGuard<'t> {
    patterns: &'t [String],
    regex: Compiled,
}

/// A plain literal, and whether it must begin and end at a word boundary.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LiteralRule {
    pub(super) length: usize,
    begins: bool,
    ends: bool,
}

impl<'t> PatternRule<'t> {
    fn new(owner: RuleOwner, pattern: &'t str, factor: f64) -> Self {
        PatternRule {
            owner,
            pattern,
            factor,
            literal: literal_rule(pattern),
            margin: if literals::is_single_line(pattern) { 0 } else { CONTEXT_LINES },
            any_digit: !literals::mentions_digits(pattern),
            regex: OnceLock::new(),
            splits: Vec::new(),
            context_dfas: OnceLock::new(),
        }
    }

    /// Context DFAs of its literals; empty where a split is not possible.
    pub(super) fn context_dfas(&self) -> &[ContextDfas] {
        self.context_dfas.get_or_init(|| {
            self.splits.iter().map(ContextDfas::new).collect::<Option<_>>().unwrap_or_default()
        })
    }

    /// Its regex.
    pub(super) fn regex(&self) -> Result<&CompiledRegex, ExplainError> {
        compiled(&self.regex, [self.pattern].into_iter())
    }
}

fn compiled<'c, 'w>(
    regex: &'c Compiled,
    patterns: impl Iterator<Item = &'w str>,
) -> Result<&'c CompiledRegex, ExplainError> {
    let regex = regex.get_or_init(|| CompiledRegex::new(patterns));
    Ok(regex.as_ref().map_err(|error| Box::new(error.clone()))?)
}

impl ExclusionGuard<'_> {
    /// The regex of all its patterns; `None` where it has none.
    pub(super) fn regex(&self) -> Result<Option<&CompiledRegex>, ExplainError> {
        let patterns = self.patterns.iter().map(String::as_str);
        if self.patterns.is_empty() { Ok(None) } else { compiled(&self.regex, patterns).map(Some) }
    }
}

impl LiteralRule {
    pub(super) fn matches_at(&self, text: &[u8], at: usize) -> bool {
        let word = |at: Option<usize>| {
            at.and_then(|at| text.get(at)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        };
        let end = at + self.length;
        let begins = word(at.checked_sub(1)) != word(Some(at));
        let ends = word(end.checked_sub(1)) != word(Some(end));
        (begins || !self.begins) && (ends || !self.ends)
    }
}

fn literal_rule(pattern: &str) -> Option<LiteralRule> {
    let (begins, rest) = pattern.strip_prefix(r"\b").map_or((false, pattern), |rest| (true, rest));
    let (ends, rest) = rest.strip_suffix(r"\b").map_or((false, rest), |rest| (true, rest));
    Some(LiteralRule { length: literals::as_literal(rest)?.len(), begins, ends })
}

fn extend<'t>(rules: &mut Vec<PatternRule<'t>>, owner: RuleOwner, patterns: &'t [String], factor: f64) {
    rules.extend(patterns.iter().map(|pattern| PatternRule::new(owner, pattern, factor)));
}

impl<'t> RuleSet<'t> {
    /// Collects every pattern of the table and builds the prefilter; no regex is compiled yet.
    pub(super) fn new(table: &'t ErrorTable) -> Self {
        let mut all = rules(table);
        let counts = GramCounts::new(all.iter().map(|rule| rule.pattern));
        for rule in &mut all {
            rule.splits = literals::literal_splits(rule.pattern, &counts).unwrap_or_default();
        }
        let prefilter = LiteralPrefilter::new(all.iter().map(|rule| rule.splits.as_slice()), &counts);
        let guards =
            table.pattern.iter().map(|p| ExclusionGuard { patterns: &p.unless, regex: OnceLock::new() });
        let counts = [table.pattern.len(), table.benign.len(), table.clue.len(), table.origin.len()];
        RuleSet { all, prefilter, guards: guards.collect(), counts }
    }
}

fn rules(table: &ErrorTable) -> Vec<PatternRule<'_>> {
    let mut rules = Vec::new();
    for (i, pattern) in table.pattern.iter().enumerate() {
        extend(&mut rules, RuleOwner::Pattern(i), &pattern.matches, 1.0);
        extend(&mut rules, RuleOwner::Pattern(i), &pattern.weak, WEAK);
        extend(&mut rules, RuleOwner::Support(i), &pattern.support, 1.0);
    }
    for (i, noise) in table.benign.iter().enumerate() {
        extend(&mut rules, RuleOwner::Noise(i), &noise.matches, 1.0);
    }
    for (i, clue) in table.clue.iter().enumerate() {
        extend(&mut rules, RuleOwner::Clue(i), &clue.matches, 1.0);
    }
    for (i, origin) in table.origin.iter().enumerate() {
        extend(&mut rules, RuleOwner::Origin(i), &origin.matches, 1.0);
    }
    extend(&mut rules, RuleOwner::Success, &table.success, 1.0);
    extend(&mut rules, RuleOwner::Failure, &table.failure, 1.0);
    extend(&mut rules, RuleOwner::NotFailure, &table.not_failure, 1.0);
    rules
}

/// Checks that every pattern compiles and has a required literal; names those that do not.
pub(super) fn compile_all(table: &ErrorTable) -> Result<(), String> {
    let rules = rules(table);
    let mut problems: Vec<String> = rules.iter().filter_map(|rule| problem(table, rule)).collect();
    for pattern in &table.pattern {
        problems.extend(
            CompiledRegex::new(pattern.unless.iter().map(String::as_str))
                .err()
                .map(|e| format!("{}: {e}", pattern.id)),
        );
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn problem(table: &ErrorTable, rule: &PatternRule<'_>) -> Option<String> {
    let owner = match rule.owner {
        RuleOwner::Pattern(i) | RuleOwner::Support(i) => &table.pattern.get(i)?.id,
        RuleOwner::Noise(i) => &table.benign.get(i)?.id,
        RuleOwner::Clue(i) => &table.clue.get(i)?.id,
        RuleOwner::Origin(_) => "origin",
        RuleOwner::Success => "success",
        RuleOwner::Failure => "failure",
        RuleOwner::NotFailure => "not_failure",
    };
    match rule.regex() {
        Err(error) => Some(format!("{owner}: {error}")),
        Ok(regex) if regex.is_match(&mut regex.cache(), b"") => {
            Some(format!("{owner}: {:?} matches the empty string", rule.pattern))
        }
        Ok(_) if literals::required_literals(rule.pattern).is_none() => {
            Some(format!("{owner}: {:?} has no literal of four bytes", rule.pattern))
        }
        Ok(_) => None,
    }
}

/// Sorted set of byte ranges; overlapping ones are merged.
#[derive(Debug, Default)]
pub(super) struct RangeSet(Vec<ByteRange>);

impl RangeSet {
    pub(super) fn new(mut ranges: Vec<ByteRange>) -> Self {
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let joins = next.0 < kept.1;
            kept.1 = if joins { kept.1.max(next.1) } else { kept.1 };
            joins
        });
        RangeSet(ranges)
    }

    pub(super) fn touches(&self, range: ByteRange) -> bool {
        let after = self.0.partition_point(|(_, end)| *end <= range.0);
        self.0.get(after).is_some_and(|(start, _)| *start < range.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_literals_need_no_regex() {
        let word = |length, begins, ends| Some(LiteralRule { length, begins, ends });
        for (words, expected) in [
            ("out of memory", word(13, false, false)),
            (r"\benospc\b", word(6, true, true)),
            (r"\[errno 28\]", word(10, false, false)),
            (r"a\\c", word(3, false, false)),
            ("a.c", None),
            ("abc?", None),
            (r"\d", None),
            (r"abc\w", None),
            ("(?-i:ERROR)", None),
        ] {
            assert_eq!(literal_rule(words), expected, "{words}");
        }
    }

    #[test]
    fn a_literal_rule_matches_where_the_regex_would() {
        for words in [r"\benospc\b", "enospc", r"enospc\b", r"\b/dev\b", r"\[x\]\b"] {
            let (literal, regex) = (
                literal_rule(words).unwrap_or(LiteralRule { length: 0, begins: false, ends: false }),
                CompiledRegex::new([words].into_iter()),
            );
            let fixed = literals::as_literal(words.trim_start_matches(r"\b").trim_end_matches(r"\b"))
                .unwrap_or_default();
            let fixed = String::from_utf8(fixed).unwrap_or_default();
            for (before, after) in [("", ""), (" ", " "), ("x", ""), ("", "x"), ("_", ":"), ("-", "9")] {
                let text = format!("{before}{fixed}{after}");
                let expected = regex.as_ref().is_ok_and(|r| r.is_match(&mut r.cache(), text.as_bytes()));
                assert_eq!(
                    literal.matches_at(text.as_bytes(), before.len()),
                    expected,
                    "{words} in {text:?}"
                );
            }
        }
    }

    #[test]
    fn range_sets_merge_and_report_overlap() {
        let set = RangeSet::new(vec![(10, 20), (0, 4), (15, 30), (30, 31)]);
        assert_eq!(set.0, [(0, 4), (10, 30), (30, 31)]);
        for (range, expected) in
            [((4, 10), false), ((3, 5), true), ((9, 11), true), ((29, 40), true), ((31, 99), false)]
        {
            assert_eq!(set.touches(range), expected, "{range:?}");
        }
    }
}
