//! GPU spec table: release year and published memory bandwidth per model, one row each.
//!
//! Used for the suitability score only: nothing here is reported as measured. A model that is not listed is scored by
//! its architecture. To add one, add a row.

use crate::model::Vendor;

/// Published figures of a GPU model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GpuSpec {
    /// Words of the name that identify this model.
    pub model: &'static str,
    /// Year of release.
    pub year: u16,
    /// Memory bandwidth in GB/s; the highest of its memory variants.
    pub bandwidth: u16,
}

/// The row whose words form the longest consecutive match in the name.
pub fn find(vendor: Vendor, name: &str) -> Option<GpuSpec> {
    let words: String = name.to_ascii_lowercase().replace("(r)", " ").replace("(tm)", " ");
    let words: Vec<&str> =
        words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let matches = |model: &str| {
        let model: Vec<&str> = model.split(' ').collect();
        words.windows(model.len()).any(|w| w == model)
    };
    let fitting = ROWS.iter().filter(|(model, maker, ..)| *maker == vendor && matches(model));
    let best = fitting.max_by_key(|(model, ..)| (model.split(' ').count(), model.len()))?;
    let (model, _, year, bandwidth) = *best;
    Some(GpuSpec { model, year, bandwidth })
}

/// Model words, vendor, release year, GB/s.
const ROWS: [(&str, Vendor, u16, u16); 191] = [
    ("b300", Vendor::Nvidia, 2025, 8000),
    ("b200", Vendor::Nvidia, 2024, 8000),
    ("gb200", Vendor::Nvidia, 2024, 8000),
    ("gb300", Vendor::Nvidia, 2025, 8000),
    ("h200", Vendor::Nvidia, 2024, 4800),
    ("h20", Vendor::Nvidia, 2024, 4000),
    ("h100 nvl", Vendor::Nvidia, 2023, 3900),
    ("h100 pcie", Vendor::Nvidia, 2022, 2000),
    ("h100", Vendor::Nvidia, 2022, 3350),
    ("h800", Vendor::Nvidia, 2023, 3350),
    ("gh200", Vendor::Nvidia, 2023, 4000),
    ("a100", Vendor::Nvidia, 2020, 1555),
    ("a100 80gb", Vendor::Nvidia, 2020, 2039),
    ("a100 pcie 80gb", Vendor::Nvidia, 2021, 1935),
    ("a100 sxm4 80gb", Vendor::Nvidia, 2020, 2039),
    ("a800", Vendor::Nvidia, 2022, 2039),
    ("a30", Vendor::Nvidia, 2021, 933),
    ("a40", Vendor::Nvidia, 2020, 696),
    ("a10g", Vendor::Nvidia, 2021, 600),
    ("a10", Vendor::Nvidia, 2021, 600),
    ("a16", Vendor::Nvidia, 2021, 200),
    ("a2", Vendor::Nvidia, 2021, 200),
    ("l40s", Vendor::Nvidia, 2023, 864),
    ("l40", Vendor::Nvidia, 2022, 864),
    ("l20", Vendor::Nvidia, 2023, 864),
    ("l4", Vendor::Nvidia, 2023, 300),
    ("tesla t4", Vendor::Nvidia, 2018, 320),
    ("t4", Vendor::Nvidia, 2018, 320),
    ("v100", Vendor::Nvidia, 2017, 900),
    ("p100", Vendor::Nvidia, 2016, 732),
    ("p40", Vendor::Nvidia, 2016, 346),
    ("p4", Vendor::Nvidia, 2016, 192),
    ("k80", Vendor::Nvidia, 2014, 240),
    ("m60", Vendor::Nvidia, 2015, 160),
    ("m40", Vendor::Nvidia, 2015, 288),
    ("rtx pro 6000", Vendor::Nvidia, 2025, 1792),
    ("rtx pro 5000", Vendor::Nvidia, 2025, 1344),
    ("rtx pro 4500", Vendor::Nvidia, 2025, 896),
    ("rtx pro 4000", Vendor::Nvidia, 2025, 672),
    ("rtx 6000 ada", Vendor::Nvidia, 2022, 960),
    ("rtx 5000 ada", Vendor::Nvidia, 2023, 576),
    ("rtx 4500 ada", Vendor::Nvidia, 2023, 432),
    ("rtx 4000 ada", Vendor::Nvidia, 2023, 360),
    ("rtx 2000 ada", Vendor::Nvidia, 2024, 224),
    ("rtx a6000", Vendor::Nvidia, 2020, 768),
    ("rtx a5500", Vendor::Nvidia, 2022, 768),
    ("rtx a5000", Vendor::Nvidia, 2021, 768),
    ("rtx a4500", Vendor::Nvidia, 2021, 640),
    ("rtx a4000", Vendor::Nvidia, 2021, 448),
    ("rtx a2000", Vendor::Nvidia, 2021, 288),
    ("rtx 8000", Vendor::Nvidia, 2018, 672),
    ("rtx 6000", Vendor::Nvidia, 2018, 672),
    ("rtx 5000", Vendor::Nvidia, 2018, 448),
    ("rtx 5090", Vendor::Nvidia, 2025, 1792),
    ("rtx 5090 laptop", Vendor::Nvidia, 2025, 896),
    ("rtx 5080", Vendor::Nvidia, 2025, 960),
    ("rtx 5070 ti", Vendor::Nvidia, 2025, 896),
    ("rtx 5070", Vendor::Nvidia, 2025, 672),
    ("rtx 5060 ti", Vendor::Nvidia, 2025, 448),
    ("rtx 5060", Vendor::Nvidia, 2025, 448),
    ("rtx 5050", Vendor::Nvidia, 2025, 320),
    ("rtx 4090", Vendor::Nvidia, 2022, 1008),
    ("rtx 4090 laptop", Vendor::Nvidia, 2023, 576),
    ("rtx 4080 super", Vendor::Nvidia, 2024, 736),
    ("rtx 4080", Vendor::Nvidia, 2022, 717),
    ("rtx 4080 laptop", Vendor::Nvidia, 2023, 432),
    ("rtx 4070 ti super", Vendor::Nvidia, 2024, 672),
    ("rtx 4070 ti", Vendor::Nvidia, 2023, 504),
    ("rtx 4070 super", Vendor::Nvidia, 2024, 504),
    ("rtx 4070", Vendor::Nvidia, 2023, 504),
    ("rtx 4070 laptop", Vendor::Nvidia, 2023, 256),
    ("rtx 4060 ti", Vendor::Nvidia, 2023, 288),
    ("rtx 4060", Vendor::Nvidia, 2023, 272),
    ("rtx 4050", Vendor::Nvidia, 2023, 192),
    ("rtx 3090 ti", Vendor::Nvidia, 2022, 1008),
    ("rtx 3090", Vendor::Nvidia, 2020, 936),
    ("rtx 3080 ti", Vendor::Nvidia, 2021, 912),
    ("rtx 3080", Vendor::Nvidia, 2020, 760),
    ("rtx 3070 ti", Vendor::Nvidia, 2021, 608),
    ("rtx 3070", Vendor::Nvidia, 2020, 448),
    ("rtx 3060 ti", Vendor::Nvidia, 2020, 448),
    ("rtx 3060", Vendor::Nvidia, 2021, 360),
    ("rtx 3050", Vendor::Nvidia, 2022, 224),
    ("rtx 2080 ti", Vendor::Nvidia, 2018, 616),
    ("rtx 2080 super", Vendor::Nvidia, 2019, 496),
    ("rtx 2080", Vendor::Nvidia, 2018, 448),
    ("rtx 2070", Vendor::Nvidia, 2018, 448),
    ("rtx 2060", Vendor::Nvidia, 2019, 336),
    ("gtx 1660", Vendor::Nvidia, 2019, 192),
    ("gtx 1650", Vendor::Nvidia, 2019, 128),
    ("titan rtx", Vendor::Nvidia, 2018, 672),
    ("titan v", Vendor::Nvidia, 2017, 653),
    ("titan xp", Vendor::Nvidia, 2017, 547),
    ("gtx 1080 ti", Vendor::Nvidia, 2017, 484),
    ("gtx 1080", Vendor::Nvidia, 2016, 320),
    ("gtx 1070", Vendor::Nvidia, 2016, 256),
    ("gtx 1060", Vendor::Nvidia, 2016, 192),
    ("gtx 1050", Vendor::Nvidia, 2016, 112),
    ("gtx 980", Vendor::Nvidia, 2014, 224),
    ("gtx 970", Vendor::Nvidia, 2014, 224),
    ("gtx 960", Vendor::Nvidia, 2015, 112),
    ("gtx 960m", Vendor::Nvidia, 2015, 80),
    ("quadro k420", Vendor::Nvidia, 2014, 29),
    ("gb10", Vendor::Nvidia, 2025, 273),
    ("thor", Vendor::Nvidia, 2025, 273),
    ("orin", Vendor::Nvidia, 2022, 204),
    ("xavier", Vendor::Nvidia, 2018, 137),
    ("mi355x", Vendor::Amd, 2025, 8000),
    ("mi350x", Vendor::Amd, 2025, 8000),
    ("mi325x", Vendor::Amd, 2024, 6000),
    ("mi300x", Vendor::Amd, 2023, 5300),
    ("mi300a", Vendor::Amd, 2023, 5300),
    ("mi308x", Vendor::Amd, 2024, 5300),
    ("mi250x", Vendor::Amd, 2021, 3277),
    ("mi250", Vendor::Amd, 2021, 3277),
    ("mi210", Vendor::Amd, 2022, 1638),
    ("mi100", Vendor::Amd, 2020, 1228),
    ("mi60", Vendor::Amd, 2018, 1024),
    ("mi50", Vendor::Amd, 2018, 1024),
    ("mi25", Vendor::Amd, 2017, 484),
    ("ai pro r9700", Vendor::Amd, 2025, 640),
    ("rx 9070 xt", Vendor::Amd, 2025, 645),
    ("rx 9070", Vendor::Amd, 2025, 645),
    ("rx 9060 xt", Vendor::Amd, 2025, 322),
    ("rx 7900 xtx", Vendor::Amd, 2022, 960),
    ("rx 7900 xt", Vendor::Amd, 2022, 800),
    ("rx 7900 gre", Vendor::Amd, 2023, 576),
    ("rx 7800 xt", Vendor::Amd, 2023, 624),
    ("rx 7700 xt", Vendor::Amd, 2023, 432),
    ("rx 7600", Vendor::Amd, 2023, 288),
    ("w7900", Vendor::Amd, 2023, 864),
    ("w7800", Vendor::Amd, 2023, 576),
    ("w7600", Vendor::Amd, 2023, 288),
    ("w6800", Vendor::Amd, 2021, 512),
    ("rx 6950 xt", Vendor::Amd, 2022, 576),
    ("rx 6900 xt", Vendor::Amd, 2020, 512),
    ("rx 6800 xt", Vendor::Amd, 2020, 512),
    ("rx 6800", Vendor::Amd, 2020, 512),
    ("rx 6750 xt", Vendor::Amd, 2022, 432),
    ("rx 6700 xt", Vendor::Amd, 2021, 384),
    ("rx 6700", Vendor::Amd, 2021, 320),
    ("rx 6600 xt", Vendor::Amd, 2021, 256),
    ("rx 6600", Vendor::Amd, 2021, 224),
    ("rx 5700 xt", Vendor::Amd, 2019, 448),
    ("rx 5700", Vendor::Amd, 2019, 448),
    ("rx 5600 xt", Vendor::Amd, 2020, 288),
    ("rx 5500", Vendor::Amd, 2019, 224),
    ("radeon vii", Vendor::Amd, 2019, 1024),
    ("vega 64", Vendor::Amd, 2017, 484),
    ("vega 56", Vendor::Amd, 2017, 410),
    ("rx 590", Vendor::Amd, 2018, 256),
    ("rx 580", Vendor::Amd, 2017, 256),
    ("rx 570", Vendor::Amd, 2017, 224),
    ("rx 480", Vendor::Amd, 2016, 256),
    ("rx 470", Vendor::Amd, 2016, 211),
    ("hd 7870", Vendor::Amd, 2012, 154),
    ("8060s", Vendor::Amd, 2025, 256),
    ("890m", Vendor::Amd, 2024, 120),
    ("880m", Vendor::Amd, 2024, 120),
    ("780m", Vendor::Amd, 2023, 90),
    ("680m", Vendor::Amd, 2022, 77),
    ("arc b580", Vendor::Intel, 2024, 456),
    ("arc b570", Vendor::Intel, 2024, 380),
    ("arc pro b60", Vendor::Intel, 2025, 456),
    ("arc pro b50", Vendor::Intel, 2025, 224),
    ("arc a770", Vendor::Intel, 2022, 560),
    ("arc a750", Vendor::Intel, 2022, 512),
    ("arc a580", Vendor::Intel, 2023, 512),
    ("arc a380", Vendor::Intel, 2022, 186),
    ("arc a310", Vendor::Intel, 2022, 124),
    ("flex 170", Vendor::Intel, 2022, 576),
    ("flex 140", Vendor::Intel, 2022, 186),
    ("max 1550", Vendor::Intel, 2023, 3277),
    ("max 1100", Vendor::Intel, 2023, 1229),
    ("iris xe max", Vendor::Intel, 2020, 68),
    ("m5", Vendor::Apple, 2025, 153),
    ("m4 max", Vendor::Apple, 2024, 546),
    ("m4 pro", Vendor::Apple, 2024, 273),
    ("m4", Vendor::Apple, 2024, 120),
    ("m3 ultra", Vendor::Apple, 2025, 819),
    ("m3 max", Vendor::Apple, 2023, 400),
    ("m3 pro", Vendor::Apple, 2023, 150),
    ("m3", Vendor::Apple, 2023, 100),
    ("m2 ultra", Vendor::Apple, 2023, 800),
    ("m2 max", Vendor::Apple, 2023, 400),
    ("m2 pro", Vendor::Apple, 2023, 200),
    ("m2", Vendor::Apple, 2022, 100),
    ("m1 ultra", Vendor::Apple, 2022, 800),
    ("m1 max", Vendor::Apple, 2021, 400),
    ("m1 pro", Vendor::Apple, 2021, 200),
    ("m1", Vendor::Apple, 2020, 68),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_matching_model_wins() {
        let check = |vendor, name: &str, want: Option<&str>| {
            assert_eq!(find(vendor, name).map(|c| c.model), want, "{name}")
        };
        check(Vendor::Nvidia, "NVIDIA GeForce RTX 4070 Ti SUPER", Some("rtx 4070 ti super"));
        check(Vendor::Nvidia, "NVIDIA GeForce RTX 4070 Laptop GPU", Some("rtx 4070 laptop"));
        check(Vendor::Nvidia, "NVIDIA A100-SXM4-80GB", Some("a100 sxm4 80gb"));
        check(Vendor::Nvidia, "GM107M [GeForce GTX 960M]", Some("gtx 960m"));
        check(Vendor::Intel, "Intel(R) Arc(TM) B580 Graphics", Some("arc b580"));
        check(Vendor::Apple, "Apple M3 Ultra", Some("m3 ultra"));
        check(Vendor::Amd, "NVIDIA GeForce RTX 4090", None);
        check(Vendor::Nvidia, "NVIDIA Something Else", None);
    }

    #[test]
    fn rows_are_unique_and_plausible() {
        for (i, (model, vendor, year, bandwidth)) in ROWS.iter().enumerate() {
            assert!((2010..=2030).contains(year) && (20..=10_000).contains(bandwidth), "{model}");
            assert!(ROWS[..i].iter().all(|(m, v, ..)| (m, v) != (model, vendor)), "{model} twice");
        }
    }
}
