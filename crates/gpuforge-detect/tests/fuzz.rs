//! Parser fuzzing: arbitrary input, damaged fixtures, and a mebibyte of every hostile shape never panic or hang.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails loudly and says what it skipped"
)]

use std::{
    fs,
    path::Path,
    sync::LazyLock,
    time::{Duration, Instant},
};

use gpuforge_detect::{from_text, parsers::FORMATS};
use proptest::prelude::*;

/// For a mebibyte in a debug build on a slow, shared machine; all parsers together need a quarter of it.
const BOUND: Duration = Duration::from_secs(30);
const MEBIBYTE: usize = 1 << 20;

/// Every fixture: where it is, and its text.
static FIXTURES: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let folders = fs::read_dir(root).unwrap().flatten().map(|e| e.path());
    let files = folders.flat_map(|folder| fs::read_dir(folder).unwrap().flatten().map(|e| e.path()));
    let mut texts: Vec<_> = files
        .filter(|file| file.extension().is_some_and(|e| e == "txt"))
        .map(|file| (file.display().to_string().replace('\\', "/"), fs::read_to_string(&file).unwrap()))
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

    #[test]
    fn cut_anywhere(text in fixture(), cut in any::<prop::sample::Index>()) {
        from_text(&text.as_bytes()[..cut.index(text.len())]);
    }
}

/// A paste may end anywhere.
#[test]
fn short_fixtures_truncated_at_every_length() {
    for (_, text) in FIXTURES.iter().filter(|(_, text)| text.len() < 300) {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            read(&text[..end]);
        }
    }
}

/// Runs `text` through all readers against the clock.
fn within_bound(what: &str, text: &str) {
    let started = Instant::now();
    from_text(text.as_bytes());
    let took = started.elapsed();
    assert!(took < BOUND, "{} bytes of {what:?} took {took:?}", text.len());
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    for open in ["[", "{\"a\":", "{\"card0\":[", "<a>", "<nvidia_smi_log><gpu>", "==> a <==\n["] {
        let text = open.repeat(100_000);
        within_bound(open, &text);
        for format in &FORMATS {
            (format.parse)(&text);
        }
    }
}

#[test]
fn very_long_lines_are_read_in_time() {
    for unit in ["| ", "[", ": ", ", ", "/", "\"", "<", "&", "==> ", "0", "😀", "GPU 0: "] {
        within_bound(unit, &unit.repeat(MEBIBYTE / unit.len()));
    }
}

/// One line of every format, over and over: what a reader keeps of it must not be searched line by line.
#[test]
fn repeated_lines_are_read_in_time() {
    for format in &FORMATS {
        let own = |(path, _): &&(String, String)| path.contains(&format!("fixtures/{}/", format.name));
        let (_, text) = FIXTURES.iter().find(own).unwrap();
        within_bound(format.name, &text.repeat(MEBIBYTE / text.len() + 1));
    }
}

/// Devices that all differ: the lists grow, and two of them must not be compared each with each.
#[test]
fn overlong_device_lists_are_read_in_time() {
    let bus = |n: u32| format!("{:04x}:{:02x}:{:02x}.{}", n >> 16, n >> 8 & 0xff, n >> 3 & 0x1f, n & 7);
    let rows: [&dyn Fn(u32) -> String; 8] = [
        &|n| {
            format!(
                "{} VGA compatible controller [0300]: NVIDIA Corporation X{n} [10de:{:04x}]\n",
                bus(n),
                n & 0xffff
            )
        },
        &|n| {
            format!(
                "| {} GPU{n} Off | 0000{} Off | 0 |\n| N/A | 1MiB / {n}MiB | 0% Default |\n",
                n % 999,
                bus(n)
            )
        },
        &|n| {
            format!("GPU {n}: NVIDIA X{n} (UUID: GPU-{n:08x})\n  MIG 1g.{n}gb Device {n}: (UUID: MIG-{n})\n")
        },
        &|n| format!("{n}, NVIDIA X{n}, 0000{}, {n} MiB\n", bus(n)),
        &|n| format!("GPU 0000{}\n    Product Name : X{n}\n    MIG Device\n        Index : {n}\n", bus(n)),
        &|n| format!("<gpu id=\"0000{}\"><product_name>X{n}</product_name><a{n}>\n", bus(n)),
        &|n| format!("Model: NVIDIA X{n}\nBus Location: {}\n", bus(n)),
        &|n| format!("Unable to determine the device handle for GPU{}: {}: Error {n}\n", n % 999, bus(n)),
    ];
    let mut all = "| NVIDIA-SMI 1.0 |\nNVSMI LOG\n<nvidia_smi_log>\nname, x\n".to_owned();
    for row in rows {
        let start = all.len();
        all.extend((0..).map(row).take(MEBIBYTE / 8 / row(1).len()));
        assert!(all.len() > start);
    }
    within_bound("devices of all formats", &all);
    for row in rows {
        within_bound(&row(1), &(0..).map(row).take(MEBIBYTE / 2 / row(1).len()).collect::<String>());
    }
}
