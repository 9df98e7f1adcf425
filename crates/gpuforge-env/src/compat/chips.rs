//! GPU lookup by name: compute capability, gfx target or Intel family, and memory; for use where no driver reports them.

use gpuforge_detect::{model::Vendor, pci};

use super::table::{ChipRow, CloudRow, CompatTable};

/// Table entry that matches a GPU name.
#[derive(Debug, Clone, Copy)]
pub struct ChipMatch<'a> {
    /// The row.
    pub row: &'a ChipRow,
    /// Memory in GiB, where all cards of that name have the same.
    pub gib: Option<u32>,
}

/// Looks up a GPU name; `vendor` narrows the search where it is known.
pub fn find<'a>(table: &'a CompatTable, vendor: Option<Vendor>, name: &str) -> Option<ChipMatch<'a>> {
    let words = words(name);
    let vendor = vendor.or_else(|| pci::vendor_in_name(name));
    let rows = table.chip.iter().filter(|row| vendor.is_none_or(|v| v == row.vendor));
    // A chip code name is more reliable than a marketing name: "TU117 [GeForce MX450]".
    let best = |names: fn(&ChipRow) -> &[String]| {
        let fits = rows.clone().filter_map(|row| Some((longest_match(&words, names(row))?, row)));
        fits.max_by_key(|(length, _)| *length).map(|(_, row)| row)
    };
    let row = best(|row| &row.codes).or_else(|| best(|row| &row.models))?;
    Some(ChipMatch { row, gib: memory(table, &words) })
}

/// The row of a cloud instance type: `g5.2xlarge`, `a2-highgpu-1g`.
pub fn cloud<'a>(table: &'a CompatTable, provider: &str, kind: &str) -> Option<&'a CloudRow> {
    let kind = kind.to_ascii_lowercase();
    let rows = table.cloud.iter().filter(|row| row.provider == provider && kind.starts_with(&row.begins));
    rows.max_by_key(|row| row.begins.len())
}

/// The closest known name (Jaro-Winkler) to an unknown one.
pub fn nearest(table: &CompatTable, name: &str) -> Option<String> {
    let name = words(name).join(" ");
    let models =
        table.memory.keys().chain(table.chip.iter().flat_map(|c| &c.models)).filter(|m| !m.contains('#'));
    let near = models.map(|m| (strsim::jaro_winkler(&name, m), m)).filter(|(near, _)| *near > 0.7);
    near.max_by(|a, b| a.0.total_cmp(&b.0)).map(|(_, model)| model.clone())
}

fn memory(table: &CompatTable, words: &[String]) -> Option<u32> {
    // "A100-SXM4-80GB" and "GTX 1060 6GB" state it themselves.
    let said = words.iter().find_map(|w| w.strip_suffix("gb")?.parse().ok());
    said.or_else(|| {
        let rows = table.memory.iter().filter_map(|(model, gib)| Some((match_len(words, model)?, *gib)));
        rows.max_by_key(|(length, _)| *length).map(|(_, gib)| gib)
    })
}

/// Lower-case words, without trademark signs.
fn words(name: &str) -> Vec<String> {
    let plain = name.to_ascii_lowercase().replace("(r)", " ").replace("(tm)", " ");
    plain
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '.')
        .filter(|w| !w.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Length of the longest of these names that matches.
fn longest_match(words: &[String], names: &[String]) -> Option<(usize, usize)> {
    names.iter().filter_map(|name| match_len(words, name)).max()
}

/// Words and letters of the model, if its words occur consecutively in the name.
fn match_len(words: &[String], model: &str) -> Option<(usize, usize)> {
    let model: Vec<&str> = model.split(' ').collect();
    let found = words.windows(model.len()).any(|w| w.iter().zip(&model).all(|(w, m)| word_matches(w, m)));
    // An exact letter weighs more than a wildcard: "rtx 4000" before "rtx 40##".
    let letters = model.iter().flat_map(|w| w.chars()).filter(|c| *c != '#').count();
    found.then_some((model.len(), letters))
}

/// Does the word match the pattern, where `#` is a digit? Suffix letters of chip names (`gm107m`, `ga102gl`) are allowed.
fn word_matches(word: &str, pattern: &str) -> bool {
    let fits = |w: char, p: char| if p == '#' { w.is_ascii_digit() } else { w == p };
    let (word, pattern): (Vec<char>, Vec<char>) = (word.chars().collect(), pattern.chars().collect());
    let begins = word.len() >= pattern.len() && word.iter().zip(&pattern).all(|(w, p)| fits(*w, *p));
    let rest = word.get(pattern.len()..).unwrap_or_default();
    // "gm107" is a chip and "gm107m" its mobile form; "l40" and "l40s" are two models.
    let chip = pattern.len() == 5
        && pattern.iter().take(2).all(char::is_ascii_alphabetic)
        && !pattern.contains(&'#');
    // "12.55" is a family of IP versions, "12.55.8" one of them.
    let family = pattern.contains(&'.') && rest.first() == Some(&'.');
    begins
        && (rest.is_empty()
            || family
            || (chip && rest.len() <= 2 && rest.iter().all(char::is_ascii_alphabetic)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpu_names_map_to_targets() {
        let table = crate::compat::embedded();
        let check = |name: &str, target: Option<&str>, gib: Option<u32>| {
            let known = find(&table, None, name);
            assert_eq!(known.map(|k| k.row.target.as_str()), target, "{name}");
            assert_eq!(known.and_then(|k| k.gib), gib, "{name}");
        };
        check("NVIDIA GeForce RTX 4090", Some("8.9"), Some(24));
        check("rtx 4090 laptop", Some("8.9"), Some(16));
        check("NVIDIA A100-SXM4-80GB", Some("8.0"), Some(80));
        check("A100", Some("8.0"), None);
        check("GTX 1060 6GB", Some("6.1"), Some(6));
        check("GM107M [GeForce GTX 960M]", Some("5.0"), None);
        check("GeForce GTX 960", Some("5.2"), None);
        check("GA102GL [RTX A6000]", Some("8.6"), Some(48));
        check("NVIDIA RTX 6000 Ada Generation", Some("8.9"), Some(48));
        check("Quadro RTX 6000", Some("7.5"), None);
        check("NVIDIA RTX PRO 6000 Blackwell Workstation Edition", Some("12.0"), Some(96));
        check("NVIDIA RTX 4000 SFF Ada Generation", Some("8.9"), None);
        check("L40S", Some("8.9"), Some(48));
        check("Tesla T4", Some("7.5"), Some(16));
        check("Tesla V100-SXM2-16GB", Some("7.0"), Some(16));
        check("Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]", Some("gfx1100"), Some(20));
        check("AMD Radeon RX 6700 XT", Some("gfx1031"), Some(12));
        check("AMD Instinct MI300X", Some("gfx942"), Some(192));
        check("Radeon RX 580", Some("gfx803"), None);
        check("Intel(R) Arc(TM) A770 Graphics", Some("xe-hpg"), None);
        check("Intel(R) Arc(TM) B580 Graphics", Some("xe2"), Some(12));
        check("Intel(R) UHD Graphics 770", Some("gen"), None);
        check("Apple M3 Max", Some("apple"), None);
        check("Voodoo 2", None, None);
    }

    #[test]
    fn cloud_instance_types_map_to_gpus() {
        let table = crate::compat::embedded();
        let gpu = |provider, kind| cloud(&table, provider, kind).map(|row| row.gpu.clone());
        assert_eq!(gpu("aws", "g5.2xlarge"), Some(Some("A10G".to_owned())));
        assert_eq!(gpu("aws", "g5g.xlarge"), Some(Some("T4G".to_owned())));
        assert_eq!(gpu("aws", "c7i.large"), Some(None));
        assert_eq!(gpu("gcp", "a2-ultragpu-1g"), Some(Some("A100".to_owned())));
        assert_eq!(gpu("aws", "x9z"), None);
        for row in table.cloud.iter().filter_map(|row| row.gpu.as_ref()) {
            assert!(find(&table, None, row).is_some(), "{row}");
        }
        assert_eq!(nearest(&table, "rtx 409").as_deref(), Some("rtx 4090"));
    }
}
