//! Which of the causes that were seen is the root, and how sure is that? Pure: what was seen and facts in, answer out.

use std::cmp::Reverse;

use serde::Serialize;

use super::{
    facts::{Facts, Platform},
    scan::{Hit, PatternSeen, Seen},
    table::{Errors, FixClass, Layer, Pattern, Severity},
};

/// Nothing read from a text alone is certain.
const CEILING: f64 = 0.99;

/// What a log means. Serialises to the documented JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The cause of the rest; `None` when none is known.
    pub root: Option<Finding>,
    /// What else was recognised.
    pub also: Vec<Noticed>,
    /// What can be ignored.
    pub benign: Vec<Benign>,
    /// Something failed, and no pattern says why.
    pub unknown: bool,
    /// The first and last lines that speak of a failure, with their numbers.
    #[serde(skip)]
    pub failures: Vec<(u64, String)>,
    /// What to collect next where the cause is unknown.
    #[serde(skip)]
    pub collect: Vec<String>,
    /// There was nothing to read.
    #[serde(skip)]
    pub empty: bool,
}

/// The root cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Finding {
    /// Stable identifier.
    pub id: String,
    /// The cause in one sentence.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// 0 to 1.
    pub confidence: f64,
    /// The line that says so.
    pub evidence: String,
    /// What to do, in order.
    pub steps: Vec<String>,
    /// Number of that line, from 1.
    #[serde(skip)]
    pub line: u64,
    /// Where the cause sits.
    #[serde(skip)]
    pub layer: Layer,
    /// How the confidence was reached.
    #[serde(skip)]
    pub how: Vec<String>,
    /// For which platform the steps are.
    #[serde(skip)]
    pub platform: Platform,
    /// Who may do it.
    #[serde(skip)]
    pub fix: FixClass,
}

/// A cause that is not the root.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Noticed {
    /// Stable identifier.
    pub id: String,
    /// The cause in one sentence.
    pub title: String,
    /// How bad it is.
    pub severity: Severity,
    /// 0 to 1, by its words alone.
    pub confidence: f64,
    /// The line that says so.
    pub evidence: String,
    /// Number of that line, from 1.
    #[serde(skip)]
    pub line: u64,
    /// Why it is not the root.
    #[serde(skip)]
    pub why: String,
}

/// A message that can be ignored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Benign {
    /// Stable identifier.
    pub id: String,
    /// Why.
    pub title: String,
    /// How often it was seen.
    pub count: usize,
}

struct Candidate<'s> {
    pattern: &'s Pattern,
    seen: &'s PatternSeen,
    /// The hit with the most telling words, the earliest of those.
    best: &'s Hit,
    confidence: f64,
    /// A success was reported after it.
    survived: bool,
}

/// Orders what was seen by cause.
pub(super) fn judge(table: &Errors, seen: &Seen, facts: &Facts) -> Explanation {
    let candidates = candidates(table, seen);
    let root = root(&candidates);
    let origin = origin(table, seen);
    let finding = root.map(|root| finding(root, &candidates, origin, facts));
    let mut also: Vec<Noticed> = candidates
        .iter()
        .filter(|c| root.is_none_or(|root| root.pattern.id != c.pattern.id))
        .map(|c| noticed(c, &candidates))
        .collect();
    also.sort_by_key(|n| n.line);
    let unknown = root.is_none() && seen.last_failure.is_some() && !ends_well(seen);
    let benign = table.benign.iter().zip(&seen.noise).filter(|(_, count)| **count > 0);
    Explanation {
        root: finding,
        also,
        benign: benign
            .map(|(noise, count)| Benign { id: noise.id.clone(), title: noise.title.clone(), count: *count })
            .collect(),
        unknown,
        failures: failures(seen),
        collect: if unknown { collect(table, seen) } else { Vec::new() },
        empty: seen.empty,
    }
}

/// Is success the log's last word?
fn ends_well(seen: &Seen) -> bool {
    seen.last_success.is_some_and(|success| seen.last_failure.as_ref().is_none_or(|f| f.line <= success))
}

fn candidates<'s>(table: &'s Errors, seen: &'s Seen) -> Vec<Candidate<'s>> {
    let pairs = table.pattern.iter().zip(&seen.patterns);
    let candidate = |(pattern, seen_of): (&'s Pattern, &'s PatternSeen)| {
        let best =
            seen_of.hits.iter().min_by(|a, b| b.factor.total_cmp(&a.factor).then(a.line.cmp(&b.line)))?;
        let last = seen_of.hits.iter().map(|h| h.line).max();
        // Words that only usually mean a cause count as a warning.
        let mild = pattern.soft || best.factor < 1.0;
        let handled = pattern.handled && ends_well(seen);
        let survived = (mild || handled) && seen.last_success > last;
        let confidence = pattern.confidence * best.factor;
        Some(Candidate { pattern, seen: seen_of, best, confidence, survived })
    };
    pairs.filter_map(candidate).collect()
}

/// The cause of which `c` is a consequence, if that was seen too.
fn cause<'c, 's>(c: &Candidate<'s>, all: &'c [Candidate<'s>]) -> Option<&'c Candidate<'s>> {
    all.iter().find(|other| !other.survived && c.pattern.yields_to.contains(&other.pattern.id))
}

/// A cause that stops programs before a warning, driver before container before packages before program, then the
/// surer, the graver, the earlier.
fn root<'c, 's>(all: &'c [Candidate<'s>]) -> Option<&'c Candidate<'s>> {
    let key = |c: &&Candidate<'_>| {
        let percent = (c.confidence * 100.0).round() as i64;
        (c.pattern.soft, c.pattern.layer, Reverse(percent), Reverse(c.pattern.severity), c.best.line)
    };
    let counting = || all.iter().filter(|c| !c.survived);
    // Two that yield to each other would leave none.
    counting().filter(|c| cause(c, all).is_none()).min_by_key(key).or_else(|| counting().min_by_key(key))
}

/// The platform that the log's own words show.
fn origin(table: &Errors, seen: &Seen) -> Option<Platform> {
    table.origin.iter().zip(&seen.origins).find(|(_, seen)| **seen).map(|(origin, _)| origin.platform)
}

fn finding(root: &Candidate<'_>, all: &[Candidate<'_>], origin: Option<Platform>, facts: &Facts) -> Finding {
    let pattern = root.pattern;
    let platform = origin.or(facts.platform).unwrap_or_default();
    let words = if root.best.factor < 1.0 { "these words usually mean it" } else { "these words mean it" };
    let mut how = vec![format!("{words}, by our estimate {:.0} %", root.confidence * 100.0)];
    let mut doubt = 1.0 - root.confidence;
    let mut weigh = |factor: f64, reason: String| {
        doubt *= factor;
        how.push(reason);
    };
    if root.seen.wordings() > 1 {
        weigh(0.7, format!("said in {} ways", root.seen.wordings()));
    }
    if root.seen.supported {
        weigh(0.6, "another line of the log confirms it".to_owned());
    }
    for other in all.iter().filter(|c| c.pattern.yields_to.contains(&pattern.id)).take(1) {
        weigh(0.8, format!("its usual consequence {} is there too", other.pattern.id));
    }
    let rivals = all
        .iter()
        .filter(|c| c.pattern.id != pattern.id && !c.pattern.soft && !c.survived && cause(c, all).is_none());
    for rival in rivals.take(1) {
        weigh(1.3, format!("{} is there too and may have its own cause", rival.pattern.id));
    }
    // What this machine shows says nothing about a log from another kind of machine.
    if origin.is_none_or(|origin| facts.platform == Some(origin)) {
        let shown: Vec<_> =
            facts.checks.iter().filter(|shown| pattern.checks.contains(&shown.check)).collect();
        // Who looked at the thing itself and found it well outweighs circumstances that would have fitted.
        let refuted = shown.iter().any(|shown| !shown.broken);
        let probes = pattern.probes.iter().filter_map(|probe| probe.ask(facts));
        let probes =
            probes.filter(|(holds, _)| !(refuted && *holds)).map(|(holds, words)| (holds, 1.2, words));
        let checks = shown.iter().map(|shown| (shown.broken, 2.0, shown.evidence.clone()));
        for (holds, denied, words) in probes.chain(checks) {
            match holds {
                true => weigh(0.6, format!("this machine confirms it: {words}")),
                false => {
                    weigh(denied, format!("this machine does not show it ({words}); is the log from here?"))
                }
            }
        }
    }
    Finding {
        id: pattern.id.clone(),
        title: pattern.title.clone(),
        severity: pattern.severity,
        confidence: percent((1.0 - doubt).clamp(0.05, CEILING)),
        evidence: root.best.evidence.clone(),
        steps: steps(pattern, platform),
        line: root.best.line,
        layer: pattern.layer,
        how,
        platform,
        fix: pattern.fix,
    }
}

fn noticed(c: &Candidate<'_>, all: &[Candidate<'_>]) -> Noticed {
    let why = match (c.survived, cause(c, all)) {
        (true, _) => "the program went on and succeeded".to_owned(),
        (_, Some(cause)) => format!("a consequence of {}", cause.pattern.id),
        _ => "comes after the root in the order of causes".to_owned(),
    };
    Noticed {
        id: c.pattern.id.clone(),
        title: c.pattern.title.clone(),
        severity: c.pattern.severity,
        confidence: percent(c.confidence),
        evidence: c.best.evidence.clone(),
        line: c.best.line,
        why,
    }
}

/// What to do on a platform: its own steps first.
fn steps(pattern: &Pattern, platform: Platform) -> Vec<String> {
    let on = &pattern.on;
    let own = match platform {
        Platform::Linux => &on.linux,
        Platform::Windows => &on.windows,
        Platform::Macos => &on.macos,
        Platform::Wsl if !on.wsl.is_empty() => &on.wsl,
        Platform::Container if !on.container.is_empty() => &on.container,
        Platform::Wsl | Platform::Container => &on.linux,
    };
    own.iter().chain(&pattern.steps).cloned().collect()
}

fn failures(seen: &Seen) -> Vec<(u64, String)> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for hit in seen.first_failure.iter().chain(&seen.last_failure) {
        if lines.iter().all(|(line, _)| *line != hit.line) {
            lines.push((hit.line, hit.evidence.clone()));
        }
    }
    lines
}

fn collect(table: &Errors, seen: &Seen) -> Vec<String> {
    let clues = table.clue.iter().zip(&seen.clues).filter(|(_, seen)| **seen).map(|(clue, _)| &clue.collect);
    let mut collect: Vec<String> = clues.cloned().collect();
    collect.push("the whole log from its first line, with the command that was run".to_owned());
    collect.push("`gpuforge detect --json` and `gpuforge doctor` on the machine of the log".to_owned());
    collect
}

fn percent(confidence: f64) -> f64 {
    (confidence * 100.0).round() / 100.0
}
