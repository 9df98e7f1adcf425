//! Span categories: CPU, GPU, transfer, wait, overhead; few, so that a breakdown is actionable.

use serde::{Deserialize, Serialize};

/// What a span spent its time on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Category {
    /// Computing on the CPU.
    #[default]
    Cpu = 0,
    /// Computing on a device, from its own timestamps.
    Gpu = 1,
    /// Moving data between memories.
    Transfer = 2,
    /// Waiting for a device, a lock, a file or another thread.
    Wait = 3,
    /// Runtime overhead: recording, launching, compiling.
    Overhead = 4,
}

impl Category {
    /// Every category, in the order of [`Category::index`].
    pub const ALL: [Category; 5] =
        [Category::Cpu, Category::Gpu, Category::Transfer, Category::Wait, Category::Overhead];

    /// The name in JSON and in `#[profiled(category = "…")]`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Category::Cpu => "cpu",
            Category::Gpu => "gpu",
            Category::Transfer => "transfer",
            Category::Wait => "wait",
            Category::Overhead => "overhead",
        }
    }

    /// Index in [`Category::ALL`].
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl std::fmt::Display for Category {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_indices_agree_with_json() {
        for (index, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category.index(), index);
            assert_eq!(serde_json::to_value(category).unwrap(), category.to_string());
        }
    }
}
