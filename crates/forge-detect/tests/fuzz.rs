//! Can any text make a reader panic or hang? Arbitrary input, damaged fixtures, and a mebibyte of every hostile shape.

use std::{
    fs,
    path::Path,
    sync::LazyLock,
    time::{Duration, Instant},
};

use forge_detect::{from_text, text::FORMATS};
use proptest::prelude::*;

/// For a mebibyte in a debug build on a slow, shared machine; a linear reader needs a tenth of it.
const BOUND: Duration = Duration::from_secs(10);
const MEBIBYTE: usize = 1 << 20;

/// Every fixture: where it is, and its text.
static FIXTURES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let folders = fs::read_dir(root).unwrap().flatten().map(|e| e.path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap().flatten().map(|e| e.path()));
    let mut texts: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|e| e == "txt"))
        .map(|file| (file.display().to_string(), fs::read_to_string(&file).unwrap()))
        .collect();
    texts.sort();
    assert!(texts.len() > 50, "the fixtures are missing");
    texts
});

/// Runs every reader on its own, and all of them together.
fn read(text: &str) {
    for format in &FORMATS {
        (format.parse)(text);
    }
    from_text(text.as_bytes());
}

fn fixture() -> impl Strategy<Value = &'static str> {
    (0..FIXTURES.len()).prop_map(|i| FIXTURES[i].1.as_str())
}

/// Numbers and marks that overflow, repeat or unbalance what a reader expects.
const BOMBS: [&str; 16] = [
    "18446744073709551616",
    "-1",
    "99999999999999999999999999999999999999",
    "0x",
    "0xffffffffffffffffff",
    "1e400",
    "00000000:FF:1F.7",
    "ffffffff:ff:ff.f",
    "MiB / 99999999999999999MiB",
    " : ",
    "==> <==",
    "|||||||||||",
    "[[[[",
    "{\"",
    "\u{1b}[",
    "ÿ€😀\u{0}",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
        from_text(&bytes);
        read(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn arbitrary_text(text in "(?s).{0,600}") {
        read(&text);
    }

    /// Words that readers look for, in any order.
    #[test]
    fn words_of_the_formats(words in proptest::collection::vec((fixture(), any::<prop::sample::Index>(), any::<bool>()), 1..60)) {
        let mut text = String::new();
        for (fixture, index, line_end) in words {
            let words: Vec<&str> = fixture.split(' ').collect();
            text.push_str(words[index.index(words.len())]);
            text.push(if line_end { '\n' } else { ' ' });
        }
        read(&text);
    }

    #[test]
    fn flipped_bytes(text in fixture(), flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20)) {
        let mut bytes = text.as_bytes().to_vec();
        for (index, byte) in flips {
            let at = index.index(bytes.len());
            bytes[at] = byte;
        }
        from_text(&bytes);
        read(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn shuffled_doubled_and_dropped_lines(text in fixture(), picks in proptest::collection::vec(any::<prop::sample::Index>(), 0..120)) {
        let lines: Vec<&str> = text.lines().collect();
        let picked: Vec<&str> = picks.iter().map(|i| lines[i.index(lines.len())]).collect();
        read(&picked.join("\n"));
    }

    #[test]
    fn bombs_inside(text in fixture(), bombs in proptest::collection::vec((any::<prop::sample::Index>(), 0..BOMBS.len()), 1..8)) {
        let mut text = text.to_owned();
        for (index, bomb) in bombs {
            let mut at = index.index(text.len() + 1);
            while !text.is_char_boundary(at) {
                at -= 1;
            }
            text.insert_str(at, BOMBS[bomb]);
        }
        read(&text);
    }

    #[test]
    fn two_fixtures_cut_together(a in fixture(), b in fixture(), cut in any::<prop::sample::Index>()) {
        let mut at = cut.index(a.len() + 1);
        while !a.is_char_boundary(at) {
            at -= 1;
        }
        read(&format!("{}{b}", &a[..at]));
    }
}

/// A paste may end anywhere.
#[test]
fn fixtures_cut_at_every_length() {
    for (_, text) in FIXTURES.iter() {
        // Small ones at every byte, larger ones at some four hundred places.
        let step = (text.len() / 400).max(1);
        for end in (0..text.len()).step_by(step).filter(|end| text.is_char_boundary(*end)) {
            read(&text[..end]);
            from_text(&text.as_bytes()[..end]);
        }
    }
}

/// Runs `text` through every reader against the clock.
fn within_bound(what: &str, text: &str) {
    let mut slow = Vec::new();
    for format in &FORMATS {
        let started = Instant::now();
        (format.parse)(text);
        if started.elapsed() > BOUND {
            slow.push(format!("{}: {:?}", format.name, started.elapsed()));
        }
    }
    let started = Instant::now();
    from_text(text.as_bytes());
    if started.elapsed() > BOUND {
        slow.push(format!("all together: {:?}", started.elapsed()));
    }
    assert!(slow.is_empty(), "{} bytes of {what:?} took too long: {slow:?}", text.len());
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for open in [
        "[",
        "{\"a\":",
        "{\"card0\":",
        "[{\"device_name\":[",
        "<a>",
        "<nvidia_smi_log><gpu>",
        "==> a <==\n[",
        "(",
        "| ",
    ] {
        within_bound(open, &open.repeat(100_000));
    }
}

#[test]
fn very_long_lines_are_read_in_time() {
    for unit in [
        "a", " ", "|", "[", "]", ":", ": ", ",", "/", "\"", "\\", "<", "&", "=", ".", "0", "+-", "- ", "\t",
        "😀", "a, ", "[a:", "GPU ",
    ] {
        within_bound(unit, &unit.repeat(MEBIBYTE / unit.len()));
    }
}

#[test]
fn repeated_lines_are_read_in_time() {
    let lines: std::collections::BTreeSet<&str> =
        FIXTURES.iter().flat_map(|(_, text)| text.lines()).filter(|l| l.len() > 3).collect();
    // All lines take minutes; every reader has an anchor among each hundred of them.
    for line in lines.iter().step_by(29) {
        let unit = format!("{line}\n");
        let text = unit.repeat(MEBIBYTE / 4 / unit.len());
        let started = Instant::now();
        from_text(text.as_bytes());
        assert!(started.elapsed() < BOUND, "{} bytes of {line:?}: {:?}", text.len(), started.elapsed());
    }
}
