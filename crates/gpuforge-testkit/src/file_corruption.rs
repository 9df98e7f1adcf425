//! File corruption as data: missing, empty, truncated, bit flip, zeroed, noise, duplicated; applied to bytes or files.

use std::{fs, io, path::Path};

/// A kind of file corruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Corruption {
    /// Deleted.
    Missing,
    /// Empty: a full disk, a crash before the first write.
    Empty,
    /// Truncated to this percentage: a crash in the middle of a write.
    Truncated(u8),
    /// One bit flipped at this percentage of the file.
    BitFlip(u8),
    /// Zeroed at the same length: what some file systems leave after a power loss.
    Zeros,
    /// Random bytes of the same length, not even text.
    Noise,
    /// The content twice: two writers.
    Duplicated,
}

impl Corruption {
    /// One of each, and those with a percentage at its edges.
    pub const ALL: [Corruption; 11] = [
        Corruption::Missing,
        Corruption::Empty,
        Corruption::Truncated(1),
        Corruption::Truncated(50),
        Corruption::Truncated(99),
        Corruption::BitFlip(0),
        Corruption::BitFlip(50),
        Corruption::BitFlip(99),
        Corruption::Zeros,
        Corruption::Noise,
        Corruption::Duplicated,
    ];

    /// The corrupted bytes; `None` when the file is deleted. Pure.
    pub fn apply(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let share = |percent: u8| bytes.len() * usize::from(percent) / 100;
        let mut out = bytes.to_vec();
        match self {
            Corruption::Missing => return None,
            Corruption::Empty => out.clear(),
            Corruption::Truncated(percent) => out.truncate(share(percent)),
            Corruption::BitFlip(percent) => {
                if let Some(byte) = out.get_mut(share(percent)) {
                    *byte ^= 1;
                }
            }
            Corruption::Zeros => out.fill(0),
            Corruption::Noise => {
                out.iter_mut().zip((0u8..=255).cycle()).for_each(|(b, i)| *b = i.wrapping_mul(197) | 0x80)
            }
            Corruption::Duplicated => out.extend_from_slice(bytes),
        }
        Some(out)
    }

    /// Corrupts a file in place.
    pub fn apply_to_file(self, path: &Path) -> io::Result<()> {
        match self.apply(&fs::read(path)?) {
            Some(bytes) => fs::write(path, bytes),
            None => fs::remove_file(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_corruption_changes_the_file() {
        let bytes: Vec<u8> = (0..200).collect();
        for corruption in Corruption::ALL {
            assert_ne!(corruption.apply(&bytes).as_deref(), Some(bytes.as_slice()), "{corruption:?}");
        }
        assert_eq!(Corruption::Truncated(50).apply(&bytes).unwrap().len(), 100);
        assert_eq!(Corruption::BitFlip(99).apply(&[]), Some(Vec::new()), "nothing to corrupt");
    }

    #[test]
    fn noise_covers_long_files() {
        let long = vec![b'a'; 1000];
        let noise = Corruption::Noise.apply(&long).unwrap();
        assert!(noise.iter().all(|b| *b >= 0x80) && noise.len() == 1000);
    }

    #[test]
    fn files_are_corrupted_in_place() {
        let path = std::env::temp_dir().join(format!("gpuforge-corruption-{}", std::process::id()));
        fs::write(&path, "whole").unwrap();
        Corruption::Truncated(50).apply_to_file(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "wh");
        Corruption::Missing.apply_to_file(&path).unwrap();
        assert!(!path.exists());
        assert!(Corruption::Empty.apply_to_file(&path).is_err(), "a missing file cannot be corrupted");
    }
}
