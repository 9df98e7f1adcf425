//! Which patterns are there, and what is known of each before a log is read?

use std::sync::OnceLock;

use super::{
    ExplainError,
    anchor::{self, Anchors, Shared, Split},
    clean::{self, Range},
    program::{Program, Sides},
    table::Errors,
};

/// What words that usually, not always, mean a cause take from its confidence.
const WEAK: f64 = 0.8;

/// Whose words matched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Owner {
    Pattern(usize),
    Support(usize),
    Noise(usize),
    Clue(usize),
    Origin(usize),
    Success,
    Failure,
    NotFailure,
}

/// An expression that is compiled when it is first needed, by whoever needs it first.
type Compiled = OnceLock<Result<Program, regex::Error>>;

/// The patterns of a table, and where their fixed words are looked up; of all threads.
pub(super) struct Rules<'t> {
    pub(super) all: Vec<Rule<'t>>,
    pub(super) anchors: Anchors,
    /// Per pattern, what rules a hit out.
    pub(super) guards: Vec<Guard<'t>>,
    /// How many patterns, benign messages, clues and origins the table has.
    pub(super) counts: [usize; 4],
}

pub(super) struct Rule<'t> {
    pub(super) owner: Owner,
    pub(super) words: &'t str,
    /// 1, or less for words that usually mean the cause.
    pub(super) factor: f64,
    /// Where the pattern is nothing but fixed words.
    pub(super) plain: Option<Plain>,
    /// Lines before and after the fixed words that a match can reach.
    pub(super) margin: usize,
    /// Does it treat all digits alike? Then steps and times do not make a line new to it.
    pub(super) any_digit: bool,
    program: Compiled,
    /// Its fixed words.
    splits: Vec<Split>,
    /// What both sides of each fixed word must be; empty where that is not known.
    sides: OnceLock<Vec<Sides>>,
}

/// Words in the lines of a hit that make it none.
pub(super) struct Guard<'t> {
    words: &'t [String],
    program: Compiled,
}

/// Fixed words, and whether they must begin and end a word.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plain {
    pub(super) length: usize,
    begins: bool,
    ends: bool,
}

impl<'t> Rule<'t> {
    fn new(owner: Owner, words: &'t str, factor: f64) -> Self {
        Rule {
            owner,
            words,
            factor,
            plain: plain(words),
            margin: if anchor::stays_in_line(words) { 0 } else { clean::WRAPPED },
            any_digit: !anchor::names_digits(words),
            program: OnceLock::new(),
            splits: Vec::new(),
            sides: OnceLock::new(),
        }
    }

    /// What both sides of its fixed words must be; empty where that is not known.
    pub(super) fn sides(&self) -> &[Sides] {
        self.sides
            .get_or_init(|| self.splits.iter().map(Sides::new).collect::<Option<_>>().unwrap_or_default())
    }

    /// Its expression.
    pub(super) fn program(&self) -> Result<&Program, ExplainError> {
        compiled(&self.program, [self.words].into_iter())
    }
}

fn compiled<'c, 'w>(
    program: &'c Compiled,
    words: impl Iterator<Item = &'w str>,
) -> Result<&'c Program, ExplainError> {
    let program = program.get_or_init(|| Program::new(words));
    Ok(program.as_ref().map_err(|error| Box::new(error.clone()))?)
}

impl Guard<'_> {
    /// The expression, if there is anything to look for.
    pub(super) fn program(&self) -> Result<Option<&Program>, ExplainError> {
        let words = self.words.iter().map(String::as_str);
        if self.words.is_empty() { Ok(None) } else { compiled(&self.program, words).map(Some) }
    }
}

impl Plain {
    pub(super) fn stands(&self, text: &[u8], at: usize) -> bool {
        let word = |at: Option<usize>| {
            at.and_then(|at| text.get(at)).is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        };
        let end = at + self.length;
        let begins = word(at.checked_sub(1)) != word(Some(at));
        let ends = word(end.checked_sub(1)) != word(Some(end));
        (begins || !self.begins) && (ends || !self.ends)
    }
}

fn plain(words: &str) -> Option<Plain> {
    let (begins, rest) = words.strip_prefix(r"\b").map_or((false, words), |rest| (true, rest));
    let (ends, rest) = rest.strip_suffix(r"\b").map_or((false, rest), |rest| (true, rest));
    Some(Plain { length: anchor::literal(rest)?.len(), begins, ends })
}

fn extend<'t>(rules: &mut Vec<Rule<'t>>, owner: Owner, words: &'t [String], factor: f64) {
    rules.extend(words.iter().map(|words| Rule::new(owner, words, factor)));
}

impl<'t> Rules<'t> {
    /// Every pattern of the table; nothing is compiled yet.
    pub(super) fn new(table: &'t Errors) -> Self {
        let mut all = rules(table);
        let shared = Shared::new(all.iter().map(|rule| rule.words));
        for rule in &mut all {
            rule.splits = anchor::splits(rule.words, &shared).unwrap_or_default();
        }
        let anchors = Anchors::new(all.iter().map(|rule| rule.splits.as_slice()), &shared);
        let guards = table.pattern.iter().map(|p| Guard { words: &p.unless, program: OnceLock::new() });
        let counts = [table.pattern.len(), table.benign.len(), table.clue.len(), table.origin.len()];
        Rules { all, anchors, guards: guards.collect(), counts }
    }
}

fn rules(table: &Errors) -> Vec<Rule<'_>> {
    let mut rules = Vec::new();
    for (i, pattern) in table.pattern.iter().enumerate() {
        extend(&mut rules, Owner::Pattern(i), &pattern.matches, 1.0);
        extend(&mut rules, Owner::Pattern(i), &pattern.weak, WEAK);
        extend(&mut rules, Owner::Support(i), &pattern.support, 1.0);
    }
    for (i, noise) in table.benign.iter().enumerate() {
        extend(&mut rules, Owner::Noise(i), &noise.matches, 1.0);
    }
    for (i, clue) in table.clue.iter().enumerate() {
        extend(&mut rules, Owner::Clue(i), &clue.matches, 1.0);
    }
    for (i, origin) in table.origin.iter().enumerate() {
        extend(&mut rules, Owner::Origin(i), &origin.matches, 1.0);
    }
    extend(&mut rules, Owner::Success, &table.success, 1.0);
    extend(&mut rules, Owner::Failure, &table.failure, 1.0);
    extend(&mut rules, Owner::NotFailure, &table.not_failure, 1.0);
    rules
}

/// Does every pattern of the table compile, and can it be found? Names those that do not.
pub(super) fn compile_all(table: &Errors) -> Result<(), String> {
    let rules = rules(table);
    let mut problems: Vec<String> = rules.iter().filter_map(|rule| problem(table, rule)).collect();
    for pattern in &table.pattern {
        problems.extend(
            Program::new(pattern.unless.iter().map(String::as_str))
                .err()
                .map(|e| format!("{}: {e}", pattern.id)),
        );
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("; ")) }
}

fn problem(table: &Errors, rule: &Rule<'_>) -> Option<String> {
    let owner = match rule.owner {
        Owner::Pattern(i) | Owner::Support(i) => &table.pattern.get(i)?.id,
        Owner::Noise(i) => &table.benign.get(i)?.id,
        Owner::Clue(i) => &table.clue.get(i)?.id,
        Owner::Origin(_) => "origin",
        Owner::Success => "success",
        Owner::Failure => "failure",
        Owner::NotFailure => "not_failure",
    };
    match rule.program() {
        Err(error) => Some(format!("{owner}: {error}")),
        Ok(program) if program.is_match(&mut program.cache(), b"") => {
            Some(format!("{owner}: {:?} matches nothing at all", rule.words))
        }
        Ok(_) if anchor::fixed(rule.words).is_none() => {
            Some(format!("{owner}: {:?} has no fixed word of four letters", rule.words))
        }
        Ok(_) => None,
    }
}

/// Ranges in order, those that overlap made one: is a match among them?
#[derive(Debug, Default)]
pub(super) struct Cover(Vec<Range>);

impl Cover {
    pub(super) fn new(mut ranges: Vec<Range>) -> Self {
        ranges.sort_unstable();
        ranges.dedup_by(|next, kept| {
            let joins = next.0 < kept.1;
            kept.1 = if joins { kept.1.max(next.1) } else { kept.1 };
            joins
        });
        Cover(ranges)
    }

    pub(super) fn touches(&self, range: Range) -> bool {
        let after = self.0.partition_point(|(_, end)| *end <= range.0);
        self.0.get(after).is_some_and(|(start, _)| *start < range.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_words_need_no_expression() {
        let word = |length, begins, ends| Some(Plain { length, begins, ends });
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
            assert_eq!(plain(words), expected, "{words}");
        }
    }

    #[test]
    fn plain_words_stand_where_the_expression_would_match() {
        for words in [r"\benospc\b", "enospc", r"enospc\b", r"\b/dev\b", r"\[x\]\b"] {
            let (plain, regex) = (
                plain(words).unwrap_or(Plain { length: 0, begins: false, ends: false }),
                Program::new([words].into_iter()),
            );
            let fixed =
                anchor::literal(words.trim_start_matches(r"\b").trim_end_matches(r"\b")).unwrap_or_default();
            let fixed = String::from_utf8(fixed).unwrap_or_default();
            for (before, after) in [("", ""), (" ", " "), ("x", ""), ("", "x"), ("_", ":"), ("-", "9")] {
                let text = format!("{before}{fixed}{after}");
                let expected = regex.as_ref().is_ok_and(|r| r.is_match(&mut r.cache(), text.as_bytes()));
                assert_eq!(plain.stands(text.as_bytes(), before.len()), expected, "{words} in {text:?}");
            }
        }
    }

    #[test]
    fn a_cover_knows_what_it_touches() {
        let cover = Cover::new(vec![(10, 20), (0, 4), (15, 30), (30, 31)]);
        assert_eq!(cover.0, [(0, 4), (10, 30), (30, 31)]);
        for (range, expected) in
            [((4, 10), false), ((3, 5), true), ((9, 11), true), ((29, 40), true), ((31, 99), false)]
        {
            assert_eq!(cover.touches(range), expected, "{range:?}");
        }
    }
}
