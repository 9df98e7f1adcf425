//! How does a file look after something went wrong with it? Damage as data, done to bytes or to a file in place.

use std::{fs, io, path::Path};

/// What happened to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// Gone.
    Missing,
    /// There, with nothing in it: a full disk, a crash before the first write.
    Empty,
    /// Only this share of it (percent): a crash in the middle of a write.
    Cut(u8),
    /// Whole, with one bit the other way at this share of it (percent).
    Bit(u8),
    /// As long as it was, all zeros: what some file systems leave after a power cut.
    Zeros,
    /// As long as it was, other bytes, not even text.
    Noise,
    /// Whole, and more behind it: two writers.
    Twice,
}

impl Damage {
    /// One of each, and those with a share at its edges.
    pub const EVERY: [Damage; 11] = [
        Damage::Missing,
        Damage::Empty,
        Damage::Cut(1),
        Damage::Cut(50),
        Damage::Cut(99),
        Damage::Bit(0),
        Damage::Bit(50),
        Damage::Bit(99),
        Damage::Zeros,
        Damage::Noise,
        Damage::Twice,
    ];

    /// The bytes afterwards; `None` when there is no file any more. Pure.
    pub fn of(self, bytes: &[u8]) -> Option<Vec<u8>> {
        let share = |percent: u8| bytes.len() * usize::from(percent) / 100;
        let mut out = bytes.to_vec();
        match self {
            Damage::Missing => return None,
            Damage::Empty => out.clear(),
            Damage::Cut(percent) => out.truncate(share(percent)),
            Damage::Bit(percent) => {
                if let Some(byte) = out.get_mut(share(percent)) {
                    *byte ^= 1;
                }
            }
            Damage::Zeros => out.fill(0),
            Damage::Noise => {
                out.iter_mut().zip((0u8..=255).cycle()).for_each(|(b, i)| *b = i.wrapping_mul(197) | 0x80)
            }
            Damage::Twice => out.extend_from_slice(bytes),
        }
        Some(out)
    }

    /// Does it to a file in place.
    pub fn to(self, path: &Path) -> io::Result<()> {
        match self.of(&fs::read(path)?) {
            Some(bytes) => fs::write(path, bytes),
            None => fs::remove_file(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_changes_the_file() {
        let bytes: Vec<u8> = (0..200).collect();
        for damage in Damage::EVERY {
            assert_ne!(damage.of(&bytes).as_deref(), Some(bytes.as_slice()), "{damage:?}");
        }
        assert_eq!(Damage::Cut(50).of(&bytes).unwrap().len(), 100);
        assert_eq!(Damage::Bit(99).of(&[]), Some(Vec::new()), "nothing to damage");
    }

    #[test]
    fn noise_covers_long_files_too() {
        let long = vec![b'a'; 1000];
        let noise = Damage::Noise.of(&long).unwrap();
        assert!(noise.iter().all(|b| *b >= 0x80) && noise.len() == 1000);
    }

    #[test]
    fn files_are_damaged_in_place() {
        let path = std::env::temp_dir().join(format!("gpuforge-damage-{}", std::process::id()));
        fs::write(&path, "whole").unwrap();
        Damage::Cut(50).to(&path).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "wh");
        Damage::Missing.to(&path).unwrap();
        assert!(!path.exists());
        assert!(Damage::Empty.to(&path).is_err(), "a file that is not there cannot be damaged");
    }
}
