//! What kind of time is it? Five kinds, so that a breakdown adds up to something that can be acted on.

use serde::{Deserialize, Serialize};

/// What a span's time went into.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Category {
    /// Computing on the processor.
    #[default]
    Cpu = 0,
    /// Computing on a device, by its own time stamps.
    Gpu = 1,
    /// Moving data between memories.
    Transfer = 2,
    /// Waiting for a device, a lock, a file or another thread.
    Wait = 3,
    /// Recording, launching, compiling: what the runtime itself costs.
    Overhead = 4,
}

impl Category {
    /// Every category, in the order of [`Category::index`].
    pub const ALL: [Category; 5] =
        [Category::Cpu, Category::Gpu, Category::Transfer, Category::Wait, Category::Overhead];

    /// The word used in JSON and in `#[profiled(category = "…")]`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Category::Cpu => "cpu",
            Category::Gpu => "gpu",
            Category::Transfer => "transfer",
            Category::Wait => "wait",
            Category::Overhead => "overhead",
        }
    }

    /// Position in [`Category::ALL`].
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
    fn words_and_positions_agree_with_json() {
        for (index, category) in Category::ALL.into_iter().enumerate() {
            assert_eq!(category.index(), index);
            assert_eq!(serde_json::to_value(category).unwrap(), category.to_string());
        }
    }
}
