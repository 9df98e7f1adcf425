//! Vocabulary: paraphrases of established terms, and what to say instead.
//!
//! A reader greps for the term of the field. A paraphrase in a name or a comment hides the code from that search.

use super::{
    Finding,
    tree::{File, Tree},
};

/// A paraphrase, in lower case, and the established term.
const PARAPHRASES: [(&str, &str); 16] = [
    ("abreast", "batched, SIMD across series"),
    ("asks for bars", "prefetch"),
    ("by heart", "branch-predicted, cached"),
    ("crew", "worker pool"),
    ("exponential mean", "EMA"),
    ("first cache", "L1"),
    ("foretold", "predicted"),
    ("interpreter's lock", "GIL"),
    ("learned by", "trained, predicted"),
    ("no number", "NaN"),
    ("past the caches", "non-temporal store"),
    ("rectifier", "ReLU"),
    ("second cache", "L2"),
    ("shelf", "free list, size class"),
    ("side by side", "contiguous, batched, in parallel"),
    ("twin", "CPU reference kernel"),
];

/// Paraphrases in sources, shaders, Python and documents. This file names them all, and the changelog tells history.
pub(super) fn paraphrases(tree: &Tree) -> Vec<Finding> {
    let own = "xtask/src/tidy/vocabulary.rs";
    let files = tree.files.iter().filter(|file| file.path != own && is_checked(file));
    files.flat_map(|file| file.text.lines().zip(1..).filter_map(move |row| in_line(file, row))).collect()
}

fn is_checked(file: &File) -> bool {
    let document = file.path.ends_with(".md") && (!file.path.contains('/') || file.path.starts_with("docs/"));
    let code = [".rs", ".wgsl", ".py"].iter().any(|ending| file.path.ends_with(ending));
    (document && file.path != "CHANGELOG.md") || (code && !file.is_test())
}

fn in_line(file: &File, (line, number): (&str, usize)) -> Option<Finding> {
    let lower = line.to_lowercase();
    let (paraphrase, term) = PARAPHRASES.iter().find(|(paraphrase, _)| has_words(&lower, paraphrase))?;
    Some(Finding::new(&file.path, number, format!("`{paraphrase}`: say {term}")))
}

/// Is the phrase in the line as whole words? `screwed` has no crew.
fn has_words(line: &str, phrase: &str) -> bool {
    let in_word = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(phrase).any(|(at, _)| {
        let before = line.get(..at).and_then(|text| text.chars().next_back());
        let after = line.get(at + phrase.len()..).and_then(|text| text.chars().next());
        !in_word(before) && !in_word(after)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paraphrases_are_found_as_whole_words_and_the_term_is_named() {
        let tree = Tree::of(&[
            ("crates/a/src/lib.rs", "//! A crew of threads.\n// screwed, crewed\n// Two series ABREAST.\n"),
            ("crates/a/tests/x.rs", "// a crew\n"),
            ("CHANGELOG.md", "a crew\n"),
            ("docs/a.md", "numbers lie side by side\n"),
        ]);
        let found: Vec<String> =
            paraphrases(&tree).iter().map(|f| format!("{}:{} {}", f.path, f.line, f.wrong)).collect();
        assert_eq!(
            found,
            [
                "crates/a/src/lib.rs:1 `crew`: say worker pool",
                "crates/a/src/lib.rs:3 `abreast`: say batched, SIMD across series",
                "docs/a.md:1 `side by side`: say contiguous, batched, in parallel",
            ]
        );
    }
}
