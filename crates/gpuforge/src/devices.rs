//! Device filter: allow and deny lists over the inventory, ordered by preference; pure.

use gpuforge_detect::{
    Inventory,
    model::{Gpu, GpuType, Usable},
    overrides::matches_device,
};

/// Allow and deny lists: positions, bus ids, vendors or parts of names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeviceFilter {
    /// Only these; empty allows all.
    pub allow: Vec<String>,
    /// Never these.
    pub deny: Vec<String>,
}

impl DeviceFilter {
    /// Indices of the allowed GPUs: the chosen one first, then the other usable ones by score. Empty if the CPU was chosen: a
    /// fallback chain never adds a GPU that nobody chose.
    pub fn order(&self, inventory: &Inventory) -> Vec<usize> {
        let Some(best) = &inventory.best else { return Vec::new() };
        let usable = |i: usize, g: &Gpu| {
            i == best.index || (g.usable_for_compute == Usable::Yes && g.hidden_by.is_none())
        };
        let mut order: Vec<(usize, &Gpu)> =
            inventory.gpus.iter().enumerate().filter(|(i, g)| usable(*i, g) && self.allows(*i, g)).collect();
        order.sort_by_key(|(i, g)| (*i != best.index, std::cmp::Reverse(g.score), *i));
        order.into_iter().map(|(i, _)| i).collect()
    }

    /// As [`order`](Self::order), followed by the allowed software adapters: used only where a measurement finds them faster.
    pub fn routable(&self, inventory: &Inventory) -> Vec<usize> {
        let mut all = self.order(inventory);
        let software = |(i, g): &(usize, &Gpu)| {
            g.kind == GpuType::Software && g.hidden_by.is_none() && !all.contains(i) && self.allows(*i, g)
        };
        let more: Vec<usize> = inventory.gpus.iter().enumerate().filter(software).map(|(i, _)| i).collect();
        all.extend(more);
        all
    }

    fn allows(&self, index: usize, gpu: &Gpu) -> bool {
        let named =
            |list: &[String]| list.iter().any(|text| text.parse() == Ok(index) || matches_device(text, gpu));
        (self.allow.is_empty() || named(&self.allow)) && !named(&self.deny)
    }
}

#[cfg(test)]
mod tests {
    use gpuforge_detect::model::{SelectedGpu, Vendor};

    use super::*;

    fn machine() -> Inventory {
        let gpu = |vendor, name: &str, score, usable| Gpu {
            vendor: Some(vendor),
            name: Some(name.to_owned()),
            score: Some(score),
            usable_for_compute: usable,
            ..Gpu::default()
        };
        let gpus = vec![
            gpu(Vendor::Intel, "UHD 770", 20, Usable::Yes),
            gpu(Vendor::Nvidia, "RTX 3090", 60, Usable::Yes),
            gpu(Vendor::Nvidia, "RTX 4090", 70, Usable::Yes),
            gpu(Vendor::Other, "llvmpipe", 0, Usable::No),
        ];
        Inventory {
            gpus,
            best: Some(SelectedGpu { index: 2, ..SelectedGpu::default() }),
            ..Inventory::default()
        }
    }

    fn order(allow: &[&str], deny: &[&str]) -> Vec<usize> {
        let list = |items: &[&str]| items.iter().map(|i| (*i).to_owned()).collect();
        DeviceFilter { allow: list(allow), deny: list(deny) }.order(&machine())
    }

    #[test]
    fn the_chosen_one_comes_first_and_lists_are_obeyed() {
        assert_eq!(order(&[], &[]), [2, 1, 0]);
        assert_eq!(order(&["nvidia"], &[]), [2, 1]);
        assert_eq!(order(&[], &["4090"]), [1, 0]);
        assert_eq!(order(&["0", "RTX"], &["3090"]), [2, 0]);
        assert_eq!(order(&["voodoo"], &[]), Vec::<usize>::new());
    }

    #[test]
    fn a_software_adapter_comes_last_where_measurements_decide() {
        let mut here = machine();
        here.gpus[3].kind = GpuType::Software;
        assert_eq!(DeviceFilter::default().routable(&here), [2, 1, 0, 3]);
        here.best = None;
        assert_eq!(DeviceFilter::default().routable(&here), [3]);
        let never = DeviceFilter { deny: vec!["llvmpipe".to_owned()], ..DeviceFilter::default() };
        assert_eq!(never.routable(&here), Vec::<usize>::new());
    }

    #[test]
    fn nobody_chose_a_gpu_so_none_is_in_the_chain() {
        let nothing = Inventory { best: None, ..machine() };
        assert_eq!(DeviceFilter::default().order(&nothing), Vec::<usize>::new());
    }

    #[test]
    fn a_software_adapter_is_used_only_when_it_was_chosen() {
        let named = Inventory { best: Some(SelectedGpu { index: 3, ..SelectedGpu::default() }), ..machine() };
        assert_eq!(DeviceFilter::default().order(&named).first(), Some(&3));
    }
}
