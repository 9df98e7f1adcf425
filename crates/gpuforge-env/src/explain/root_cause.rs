//! Root cause ranking: orders the causes that matched, picks the root and computes its confidence. Pure.

use std::cmp::Reverse;

use serde::Serialize;

use super::{
    host_evidence::{HostEvidence, Platform},
    scan::{Hit, PatternHits, ScanResult},
    table::{ErrorPattern, ErrorTable, FixClass, Layer, Severity},
};

/// Max confidence: nothing inferred from text is certain.
const CEILING: f64 = 0.99;

/// Diagnosis of a log. Serialises to the documented JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Explanation {
    /// The root cause; `None` when none is known.
    pub root: Option<RootCause>,
    /// Other causes that matched.
    pub also: Vec<SecondaryCause>,
    /// Messages that can be ignored.
    pub benign: Vec<BenignMessage>,
    /// Something failed, and no pattern explains it.
    pub unknown: bool,
    /// The first and last failure lines, with their numbers.
    #[serde(skip)]
    pub failures: Vec<(u64, String)>,
    /// What to collect where the cause is unknown.
    #[serde(skip)]
    pub collect: Vec<String>,
    /// The log is empty.
    #[serde(skip)]
    pub empty: bool,
}

/// The root cause.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RootCause {
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
pub struct SecondaryCause {
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
pub struct BenignMessage {
    /// Stable identifier.
    pub id: String,
    /// Why.
    pub title: String,
    /// How often it was seen.
    pub count: usize,
}

struct CauseCandidate<'s> {
    pattern: &'s ErrorPattern,
    seen: &'s PatternHits,
    /// The strongest hit, the earliest of equal ones.
    best: &'s Hit,
    confidence: f64,
    /// The program reported success after it.
    survived: bool,
}

/// Ranks the scan result by cause.
pub(super) fn rank_causes(table: &ErrorTable, seen: &ScanResult, facts: &HostEvidence) -> Explanation {
    let candidates = candidates(table, seen);
    let root = root(&candidates);
    let origin = origin(table, seen);
    let finding = root.map(|root| finding(root, &candidates, origin, facts));
    let mut also: Vec<SecondaryCause> = candidates
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
            .map(|(noise, count)| BenignMessage {
                id: noise.id.clone(),
                title: noise.title.clone(),
                count: *count,
            })
            .collect(),
        unknown,
        failures: failures(seen),
        collect: if unknown { collect(table, seen) } else { Vec::new() },
        empty: seen.empty,
    }
}

/// Does the log end with success?
fn ends_well(seen: &ScanResult) -> bool {
    seen.last_success.is_some_and(|success| seen.last_failure.as_ref().is_none_or(|f| f.line <= success))
}

fn candidates<'s>(table: &'s ErrorTable, seen: &'s ScanResult) -> Vec<CauseCandidate<'s>> {
    let pairs = table.pattern.iter().zip(&seen.patterns);
    let candidate = |(pattern, seen_of): (&'s ErrorPattern, &'s PatternHits)| {
        let best =
            seen_of.hits.iter().min_by(|a, b| b.factor.total_cmp(&a.factor).then(a.line.cmp(&b.line)))?;
        let last = seen_of.hits.iter().map(|h| h.line).max();
        // A weak match counts as a warning.
        let mild = pattern.soft || best.factor < 1.0;
        let handled = pattern.handled && ends_well(seen);
        let survived = (mild || handled) && seen.last_success > last;
        let confidence = pattern.confidence * best.factor;
        Some(CauseCandidate { pattern, seen: seen_of, best, confidence, survived })
    };
    pairs.filter_map(candidate).collect()
}

/// The cause of which `c` is a consequence (`yields_to`), if it matched too.
fn cause<'c, 's>(c: &CauseCandidate<'s>, all: &'c [CauseCandidate<'s>]) -> Option<&'c CauseCandidate<'s>> {
    all.iter().find(|other| !other.survived && c.pattern.yields_to.contains(&other.pattern.id))
}

/// Ranking: errors before warnings, then layer (driver, container, packages, program), confidence, severity, position.
fn root<'c, 's>(all: &'c [CauseCandidate<'s>]) -> Option<&'c CauseCandidate<'s>> {
    let key = |c: &&CauseCandidate<'_>| {
        let percent = (c.confidence * 100.0).round() as i64;
        (c.pattern.soft, c.pattern.layer, Reverse(percent), Reverse(c.pattern.severity), c.best.line)
    };
    let counting = || all.iter().filter(|c| !c.survived);
    // Two causes that yield to each other would leave none.
    counting().filter(|c| cause(c, all).is_none()).min_by_key(key).or_else(|| counting().min_by_key(key))
}

/// The platform that the log itself indicates.
fn origin(table: &ErrorTable, seen: &ScanResult) -> Option<Platform> {
    table.origin.iter().zip(&seen.origins).find(|(_, seen)| **seen).map(|(origin, _)| origin.platform)
}

fn finding(
    root: &CauseCandidate<'_>,
    all: &[CauseCandidate<'_>],
    origin: Option<Platform>,
    facts: &HostEvidence,
) -> RootCause {
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
    // Evidence from this machine does not apply to a log from another platform.
    if origin.is_none_or(|origin| facts.platform == Some(origin)) {
        let shown: Vec<_> =
            facts.checks.iter().filter(|shown| pattern.checks.contains(&shown.check)).collect();
        // A check that found the component healthy outweighs circumstantial conditions.
        let refuted = shown.iter().any(|shown| !shown.broken);
        let probes = pattern.probes.iter().filter_map(|probe| probe.evaluate(facts));
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
    RootCause {
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

fn noticed(c: &CauseCandidate<'_>, all: &[CauseCandidate<'_>]) -> SecondaryCause {
    let why = match (c.survived, cause(c, all)) {
        (true, _) => "the program went on and succeeded".to_owned(),
        (_, Some(cause)) => format!("a consequence of {}", cause.pattern.id),
        _ => "comes after the root in the order of causes".to_owned(),
    };
    SecondaryCause {
        id: c.pattern.id.clone(),
        title: c.pattern.title.clone(),
        severity: c.pattern.severity,
        confidence: percent(c.confidence),
        evidence: c.best.evidence.clone(),
        line: c.best.line,
        why,
    }
}

/// Steps for a platform: its own first.
fn steps(pattern: &ErrorPattern, platform: Platform) -> Vec<String> {
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

fn failures(seen: &ScanResult) -> Vec<(u64, String)> {
    let mut lines: Vec<(u64, String)> = Vec::new();
    for hit in seen.first_failure.iter().chain(&seen.last_failure) {
        if lines.iter().all(|(line, _)| *line != hit.line) {
            lines.push((hit.line, hit.evidence.clone()));
        }
    }
    lines
}

fn collect(table: &ErrorTable, seen: &ScanResult) -> Vec<String> {
    let clues = table.clue.iter().zip(&seen.clues).filter(|(_, seen)| **seen).map(|(clue, _)| &clue.collect);
    let mut collect: Vec<String> = clues.cloned().collect();
    collect.push("the whole log from its first line, with the command that was run".to_owned());
    collect.push("`gpuforge detect --json` and `gpuforge doctor` on the machine of the log".to_owned());
    collect
}

fn percent(confidence: f64) -> f64 {
    (confidence * 100.0).round() / 100.0
}
