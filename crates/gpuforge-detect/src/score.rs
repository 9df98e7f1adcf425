//! GPU suitability score (0-100) and ranking. Pure, with a reason for every term.
//!
//! Four terms add up to 100: memory (35), memory bandwidth of the model (30), age of the architecture (20) and framework
//! support (15). Memory and bandwidth count logarithmically, so that the scale separates a laptop chip from a card and a
//! card from a data-centre module. Unknown counts as the lowest class, and the reason says so. A device that cannot
//! compute scores 0.

use crate::{
    gpu_specs,
    model::{Gpu, GpuType, SelectedGpu, Usable, Vendor},
};

const MEMORY: f64 = 35.0;
const BANDWIDTH: f64 = 30.0;
const AGE: f64 = 20.0;
const FRAMEWORKS: f64 = 15.0;

/// Max memory (GiB) and bandwidth (GB/s) on the market, which score full points.
const MAX_MEMORY: f64 = 288.0;
const MAX_BANDWIDTH: f64 = 8000.0;
const MIN_BANDWIDTH: f64 = 20.0;
const FIRST_YEAR: f64 = 2010.0;
const LAST_YEAR: f64 = 2026.0;

/// A score and its terms.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// 0-100.
    pub points: u8,
    /// One line per term.
    pub reasons: Vec<String>,
}

/// Scores one GPU. For integrated GPUs, half of `system_memory` counts as theirs.
pub fn score(gpu: &Gpu, system_memory: Option<u64>) -> Score {
    if gpu.kind == GpuType::Software {
        return Score { points: 0, reasons: vec!["software adapter, runs on the CPU".to_owned()] };
    }
    if gpu.usable_for_compute == Usable::No {
        let why = gpu.usable_reason.as_deref().unwrap_or("not usable for compute");
        return Score { points: 0, reasons: vec![why.to_owned()] };
    }
    let card = gpu.vendor.and_then(|v| gpu_specs::find(v, gpu.display_name()));
    let year = card.map(|c| c.year).or_else(|| gpu.arch.as_deref().and_then(arch_year));
    let terms = [
        memory_term(gpu, system_memory),
        bandwidth_term(card, gpu.kind),
        age_term(year),
        framework_term(gpu, year),
    ];
    let points: f64 = terms.iter().map(|(points, _)| points).sum();
    let reasons = terms.into_iter().map(|(points, why)| format!("{points:4.1} {why}")).collect();
    Score { points: points.round().clamp(0.0, 100.0) as u8, reasons }
}

fn memory_term(gpu: &Gpu, system_memory: Option<u64>) -> (f64, String) {
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    let points = |gib: f64| MEMORY * ((1.0 + gib).ln() / (1.0 + MAX_MEMORY).ln()).min(1.0);
    let shared =
        gpu.system_shared_bytes.or(gpu.gtt_bytes).or(gpu.working_set_bytes).or(system_memory.map(|b| b / 2));
    match (gpu.memory_bytes, shared) {
        (own, Some(shared)) if gpu.kind == GpuType::Integrated => {
            let bytes = shared.max(own.unwrap_or(0));
            (points(gib(bytes)), format!("memory: {:.0} GiB shared with the CPU", gib(bytes)))
        }
        (Some(own), _) => (points(gib(own)), format!("memory: {:.0} GiB of its own", gib(own))),
        (None, _) => (0.0, "memory: not known, counts as none".to_owned()),
    }
}

fn bandwidth_term(card: Option<gpu_specs::GpuSpec>, kind: GpuType) -> (f64, String) {
    let points = |gb_s: f64| {
        let share = (gb_s / MIN_BANDWIDTH).ln() / (MAX_BANDWIDTH / MIN_BANDWIDTH).ln();
        BANDWIDTH * share.clamp(0.0, 1.0)
    };
    match card {
        Some(card) => (
            points(f64::from(card.bandwidth)),
            format!("bandwidth class: {} ({} GB/s published)", card.model, card.bandwidth),
        ),
        None => {
            let lowest = if kind == GpuType::Discrete { 100.0 } else { 40.0 };
            (points(lowest), "bandwidth class: model not listed, counts as the lowest".to_owned())
        }
    }
}

fn age_term(year: Option<u16>) -> (f64, String) {
    match year {
        Some(year) => {
            let share = (f64::from(year) - FIRST_YEAR) / (LAST_YEAR - FIRST_YEAR);
            (AGE * share.clamp(0.0, 1.0), format!("architecture of {year}"))
        }
        None => (0.0, "architecture: not known, counts as the oldest".to_owned()),
    }
}

/// Framework support by vendor and generation.
fn framework_term(gpu: &Gpu, year: Option<u16>) -> (f64, String) {
    let year = year.unwrap_or(0);
    let integrated = gpu.kind == GpuType::Integrated;
    let (share, why) = match gpu.vendor {
        Some(Vendor::Nvidia) if year >= 2018 => (1.0, "CUDA, current toolkits"),
        Some(Vendor::Nvidia) if year >= 2014 => (0.5, "CUDA up to 12; dropped by CUDA 13"),
        Some(Vendor::Nvidia) => (0.15, "CUDA: too old for current toolkits, or not known"),
        Some(Vendor::Amd) if gpu.arch.as_deref().is_some_and(rocm_official) => (0.8, "ROCm, official target"),
        Some(Vendor::Amd) if year >= 2017 && !integrated => (0.6, "ROCm, not every release"),
        Some(Vendor::Amd) => (0.3, "Vulkan; ROCm unofficial"),
        Some(Vendor::Intel) if !integrated => (0.6, "oneAPI and Vulkan"),
        Some(Vendor::Intel) => (0.3, "Vulkan, OpenCL"),
        Some(Vendor::Apple) => (0.65, "Metal (MPS)"),
        Some(Vendor::Other) | None => (0.15, "Vulkan at most"),
    };
    (FRAMEWORKS * share, format!("frameworks: {why}"))
}

/// gfx targets that a ROCm release lists as supported (ROCm 7 compatibility matrix).
fn rocm_official(arch: &str) -> bool {
    const TARGETS: [&str; 11] = [
        "gfx908", "gfx90a", "gfx942", "gfx950", "gfx1030", "gfx1100", "gfx1101", "gfx1102", "gfx1200",
        "gfx1201", "gfx1151",
    ];
    TARGETS.contains(&arch)
}

/// Release year of the first chip of an architecture; longest prefix wins.
fn arch_year(arch: &str) -> Option<u16> {
    const ROWS: [(&str, u16); 28] = [
        ("2.", 2010),
        ("3.", 2012),
        ("5.", 2014),
        ("6.", 2016),
        ("7.0", 2017),
        ("7.2", 2018),
        ("7.5", 2018),
        ("8.", 2020),
        ("8.9", 2022),
        ("9.", 2022),
        ("10.", 2024),
        ("11.", 2025),
        ("12.0", 2025),
        ("12.1", 2025),
        ("12.55", 2022),
        ("20.", 2024),
        ("gfx8", 2015),
        ("gfx900", 2017),
        ("gfx906", 2018),
        ("gfx908", 2020),
        ("gfx90a", 2021),
        ("gfx90c", 2020),
        ("gfx94", 2023),
        ("gfx95", 2025),
        ("gfx101", 2019),
        ("gfx103", 2020),
        ("gfx11", 2022),
        ("gfx12", 2025),
    ];
    ROWS.iter()
        .filter(|(start, _)| arch.starts_with(start))
        .max_by_key(|(start, _)| start.len())
        .map(|(_, year)| *year)
}

/// The highest-ranked GPU and why, or why none. Only devices that are proven usable and not hidden are candidates; ties
/// go to the first.
pub fn best(gpus: &[Gpu]) -> (Option<SelectedGpu>, String) {
    let usable =
        |g: &Gpu| g.usable_for_compute == Usable::Yes && g.hidden_by.is_none() && g.kind != GpuType::Software;
    let mut candidates: Vec<(usize, &Gpu)> = gpus.iter().enumerate().filter(|(_, g)| usable(g)).collect();
    candidates.sort_by_key(|(i, g)| (std::cmp::Reverse(g.score.unwrap_or(0)), *i));
    let Some((index, gpu)) = candidates.first().copied() else {
        return (None, no_gpu_reason(gpus));
    };
    let points = gpu.score.unwrap_or(0);
    let reason = match candidates.get(1) {
        None if gpus.len() == 1 => "the only GPU".to_owned(),
        None => "the only GPU that is proven usable".to_owned(),
        Some((_, next)) if next.score == gpu.score => format!("first of several with score {points}"),
        Some((_, next)) => {
            format!("score {points}, next {} ({})", next.display_name(), next.score.unwrap_or(0))
        }
    };
    let best = SelectedGpu {
        index,
        name: gpu.display_name().to_owned(),
        bus_id: gpu.bus_id.clone(),
        reason: reason.clone(),
    };
    (Some(best), reason)
}

fn no_gpu_reason(gpus: &[Gpu]) -> String {
    let all = |test: fn(&Gpu) -> bool| gpus.iter().all(test);
    if gpus.is_empty() {
        "no GPU was found".to_owned()
    } else if all(|g| g.kind == GpuType::Software) {
        "the only adapters are software, and run on the CPU themselves".to_owned()
    } else if all(|g| g.hidden_by.is_some() || g.kind == GpuType::Software) {
        "every GPU is hidden by an environment variable".to_owned()
    } else if gpus.iter().any(|g| g.usable_for_compute == Usable::Unknown) {
        "no GPU is proven usable for compute; some are listed without a driver that says so".to_owned()
    } else {
        "no GPU is usable for compute".to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Evidence;

    fn card(vendor: Vendor, name: &str, gib: u64, kind: GpuType) -> Gpu {
        let mut gpu = Gpu { vendor: Some(vendor), name: Some(name.to_owned()), kind, ..Gpu::default() };
        gpu.memory_bytes = (gib > 0).then_some(gib << 30);
        gpu.set_usability(Usable::Yes, Evidence::Opened, "test");
        gpu
    }

    #[test]
    fn current_cards_rank_as_expected() {
        let d = GpuType::Discrete;
        let row = [
            card(Vendor::Nvidia, "NVIDIA B200", 180, d),
            card(Vendor::Nvidia, "NVIDIA H200", 141, d),
            card(Vendor::Nvidia, "NVIDIA H100 80GB HBM3", 80, d),
            card(Vendor::Nvidia, "NVIDIA A100-SXM4-40GB", 40, d),
            card(Vendor::Nvidia, "NVIDIA GeForce RTX 4090", 24, d),
            card(Vendor::Nvidia, "NVIDIA GeForce RTX 3090", 24, d),
            card(Vendor::Nvidia, "NVIDIA GeForce RTX 3060", 12, d),
            card(Vendor::Nvidia, "NVIDIA GeForce GTX 1080", 8, d),
            card(Vendor::Nvidia, "Quadro K420", 1, d),
        ];
        let scores: Vec<u8> = row.iter().map(|g| score(g, None).points).collect();
        assert!(scores.windows(2).all(|w| w[0] > w[1]), "{scores:?}");
        assert!(scores[0] <= 100 && scores[0] >= 90 && scores[8] <= 25, "{scores:?}");
    }

    #[test]
    fn more_memory_never_lowers_a_score() {
        let mut last = 0;
        for gib in 0..=320 {
            let points = score(&card(Vendor::Amd, "unlisted", gib, GpuType::Discrete), None).points;
            assert!(points >= last, "{gib} GiB");
            last = points;
        }
    }

    #[test]
    fn software_and_unusable_devices_score_zero_and_are_never_selected() {
        let soft = card(Vendor::Other, "llvmpipe", 0, GpuType::Software);
        let mut broken = card(Vendor::Nvidia, "NVIDIA H100", 80, GpuType::Discrete);
        broken.set_usability(Usable::No, Evidence::Failed, "lost");
        assert_eq!((score(&soft, None).points, score(&broken, None).points), (0, 0));
        let (none, why) = best(&[soft]);
        assert!(none.is_none() && why.contains("software"));
        assert!(best(&[broken]).0.is_none());
        assert!(best(&[]).1.contains("no GPU was found"));
    }

    #[test]
    fn the_highest_score_is_selected_and_ties_go_to_the_first() {
        let with =
            |points: u8| Gpu { score: Some(points), ..card(Vendor::Nvidia, "x", 8, GpuType::Discrete) };
        assert_eq!(best(&[with(10), with(70), with(70)]).0.map(|b| b.index), Some(1));
        let mut hidden = with(90);
        hidden.hidden_by = Some("CUDA_VISIBLE_DEVICES".to_owned());
        assert_eq!(best(&[hidden, with(10)]).0.map(|b| b.index), Some(1));
    }
}
