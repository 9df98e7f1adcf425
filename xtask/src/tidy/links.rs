//! Dead links: relative links, anchors and file names in our documents must exist.

use super::{
    Finding,
    tree::{File, Tree},
};

/// Documents in which every file name between backticks must exist: maps that a newcomer follows.
const MAPS: [&str; 3] = ["ARCHITECTURE.md", "README.md", "CONTRIBUTING.md"];

/// Documents with a limit of lines.
const LIMITS: [(&str, usize); 2] = [("ARCHITECTURE.md", 250), ("README.md", 120)];

/// Endings that make a word between backticks the name of a source file.
const SOURCES: [&str; 7] = [".rs", ".wgsl", ".py", ".md", ".js", ".html", ".css"];

/// Links to files or headings that do not exist.
pub(super) fn dead_links(tree: &Tree) -> Vec<Finding> {
    documents(tree)
        .flat_map(|file| in_prose(&file.text).flat_map(move |row| links_in(tree, file, row)))
        .collect()
}

/// File names that no file has.
pub(super) fn file_names(tree: &Tree) -> Vec<Finding> {
    let maps = tree.files.iter().filter(|file| MAPS.contains(&file.path.as_str()));
    maps.flat_map(|file| in_prose(&file.text).flat_map(move |row| names_in(tree, file, row))).collect()
}

/// Documents above their limit: what is long is not read.
pub(super) fn line_limits(tree: &Tree) -> Vec<Finding> {
    let over = |(path, most): &(&str, usize)| {
        let lines = tree.get(path)?.lines().count();
        (lines > *most).then(|| Finding::new(path, lines, format!("{lines} lines, {most} at most")))
    };
    LIMITS.iter().filter_map(over).collect()
}

fn documents(tree: &Tree) -> impl Iterator<Item = &File> {
    tree.files.iter().filter(|file| {
        file.path.ends_with(".md") && (!file.path.contains('/') || file.path.starts_with("docs/"))
    })
}

/// Numbered lines outside fenced code.
fn in_prose(text: &str) -> impl Iterator<Item = (&str, usize)> {
    let mut fenced = false;
    text.lines().zip(1..).filter(move |(line, _)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    })
}

fn links_in(tree: &Tree, file: &File, (line, number): (&str, usize)) -> Vec<Finding> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split_once(')').map(|(target, _)| target));
    let html = line.split("src=\"").skip(1).filter_map(|rest| rest.split_once('"').map(|(target, _)| target));
    let local =
        targets.chain(html).filter(|target| !target.contains("://") && !target.starts_with("mailto:"));
    local
        .filter(|target| !exists(tree, &file.path, target))
        .map(|target| Finding::new(&file.path, number, format!("the link `{target}` leads nowhere")))
        .collect()
}

/// Does a relative link lead to a file of the tree, and its anchor to a heading?
fn exists(tree: &Tree, from: &str, target: &str) -> bool {
    let (path, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if path.is_empty() { from.to_owned() } else { resolve(from, path) };
    let directory = format!("{}/", path.trim_end_matches('/'));
    let found = tree.paths.contains(&path) || tree.paths.iter().any(|p| p.starts_with(&directory));
    let heading = |text: &str| in_prose(text).any(|(line, _)| line.starts_with('#') && slug(line) == anchor);
    found && (anchor.is_empty() || tree.get(&path).is_some_and(heading))
}

/// `docs/a.md` + `../b.md` = `b.md`.
fn resolve(from: &str, target: &str) -> String {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchor that a heading gets: lower case, spaces as hyphens, punctuation dropped.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .collect()
}

fn names_in(tree: &Tree, file: &File, (line, number): (&str, usize)) -> Vec<Finding> {
    let quoted = line.split('`').skip(1).step_by(2);
    let names = quoted.filter(|word| is_file_name(word));
    names
        .filter(|name| !has_file(tree, name))
        .map(|name| Finding::new(&file.path, number, format!("no file is called `{name}`")))
        .collect()
}

/// A path or file name: no spaces, placeholders or code.
fn is_file_name(word: &str) -> bool {
    let plain = word.chars().all(|c| c.is_alphanumeric() || "._-/*{},".contains(c));
    let ending = SOURCES.iter().any(|ending| word.ends_with(ending));
    plain
        && (ending || word.starts_with("crates/") || word.starts_with("xtask/") || word.starts_with("docs/"))
}

/// Is it the path of a file or directory, or the end of one? `{a,b}` and `*` stand for each name and any name.
fn has_file(tree: &Tree, name: &str) -> bool {
    if let Some((start, rest)) = name.split_once('{')
        && let Some((list, end)) = rest.split_once('}')
    {
        return list.split(',').all(|part| has_file(tree, &format!("{start}{part}{end}")));
    }
    let name = name.trim_end_matches('/');
    let (start, end) = name.split_once('*').unwrap_or((name, ""));
    let star = name.contains('*');
    tree.paths.iter().any(|path| {
        let matches = |at: usize| {
            let rest = path.get(at..).unwrap_or_default();
            rest.strip_prefix(start).is_some_and(|tail| {
                if star { tail.ends_with(end) } else { tail.is_empty() || tail.starts_with('/') }
            })
        };
        matches(0) || path.match_indices('/').any(|(at, _)| matches(at + 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(document: &str) -> Tree {
        Tree::of(&[
            ("README.md", document),
            ("docs/a.md", "# The one\n[up](../README.md)\n"),
            ("crates/x/src/jit/x64.rs", ""),
            ("crates/x/src/jit/ir.rs", ""),
        ])
    }

    fn wrong(rule: fn(&Tree) -> Vec<Finding>, document: &str) -> Vec<String> {
        rule(&tree(document)).into_iter().map(|finding| finding.wrong).collect()
    }

    #[test]
    fn links_lead_to_files_and_headings() {
        let good = "[a](docs/a.md) [b](docs/a.md#the-one) [c](https://x.y/z) [d](docs) [e](#top)\n# Top\n";
        assert_eq!(wrong(dead_links, good), Vec::<String>::new());
        assert_eq!(
            wrong(dead_links, "[a](docs/b.md), [b](docs/a.md#two), <img src=\"x.svg\">"),
            [
                "the link `docs/b.md` leads nowhere",
                "the link `docs/a.md#two` leads nowhere",
                "the link `x.svg` leads nowhere"
            ]
        );
        assert_eq!(wrong(dead_links, "```\n[a](nowhere.md)\n```"), Vec::<String>::new());
    }

    #[test]
    fn file_names_in_maps_exist() {
        let good = "`jit/x64.rs`, `x64.rs`, `crates/x`, `jit/{x64,ir}.rs`, `jit/*.rs`, `a.b()`, `rsi(14)`";
        assert_eq!(wrong(file_names, good), Vec::<String>::new());
        assert_eq!(
            wrong(file_names, "`jit/a64.rs`, `jit/{x64,a64}.rs`, `crates/y`, `64.rs`"),
            [
                "no file is called `jit/a64.rs`",
                "no file is called `jit/{x64,a64}.rs`",
                "no file is called `crates/y`",
                "no file is called `64.rs`"
            ]
        );
    }

    #[test]
    fn limits_hold_at_the_boundary() {
        assert_eq!(wrong(line_limits, &"x\n".repeat(120)), Vec::<String>::new());
        assert_eq!(wrong(line_limits, &"x\n".repeat(121)), ["121 lines, 120 at most"]);
    }
}
