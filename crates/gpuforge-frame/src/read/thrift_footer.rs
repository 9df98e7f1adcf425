//! Parquet footer validation (Thrift compact protocol): element counts must fit the footer's length.
//!
//! The decoder allocates for as many row groups as the footer claims, and a failed allocation aborts the process. So a
//! hostile footer is rejected by one pass over it that allocates nothing.

/// Maximum nesting depth; a footer has about ten levels.
const MAX_DEPTH: usize = 64;

/// Do all element counts fit the remaining bytes?
pub(super) fn plausible(footer: &[u8]) -> bool {
    let mut walk = ThriftWalker(footer);
    walk.structure(0).is_some()
}

/// Cursor over a footer. `None` from any step: truncated, or a count exceeds the remaining bytes.
struct ThriftWalker<'a>(&'a [u8]);

impl ThriftWalker<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    fn skip(&mut self, bytes: usize) -> Option<()> {
        self.0 = self.0.get(bytes..)?;
        Some(())
    }

    /// A varint: seven bits per byte.
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A count of elements of at least a byte each.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.varint()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn structure(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        loop {
            let header = self.byte()?;
            if header == 0 {
                return Some(());
            }
            if header >> 4 == 0 {
                self.varint()?;
            }
            match header & 0x0f {
                // A boolean field has its value in the header.
                1 | 2 => {}
                kind => self.value(kind, depth)?,
            }
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.varint().map(|_| ()),
            7 => self.skip(8),
            8 => {
                let length = self.count()?;
                self.skip(length)
            }
            9 | 10 => self.list(depth),
            11 => self.map(depth),
            12 => self.structure(depth + 1),
            _ => None,
        }
    }

    fn list(&mut self, depth: usize) -> Option<()> {
        let header = self.byte()?;
        let count = match header >> 4 {
            15 => self.count()?,
            few => usize::from(few),
        };
        (0..count).try_for_each(|_| self.value(header & 0x0f, depth + 1))
    }

    fn map(&mut self, depth: usize) -> Option<()> {
        let count = self.count()?;
        if count == 0 {
            return Some(());
        }
        let kinds = self.byte()?;
        (0..count).try_for_each(|_| {
            self.value(kinds >> 4, depth + 1)?;
            self.value(kinds & 0x0f, depth + 1)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn list_longer_than_the_footer_is_rejected() {
        // Field 4, a list of 2^31-1 structures.
        let claims = [0x49, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x07, 0x00];
        assert!(!plausible(&claims));
        // Field 4, a list of one empty structure, and the end.
        assert!(plausible(&[0x49, 0x1c, 0x00, 0x00]));
        assert!(!plausible(&[]));
        assert!(!plausible(&[0x1c; 200]), "structures without end");
    }

    proptest! {
        #[test]
        fn any_bytes_are_accepted_or_rejected(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = plausible(&bytes);
        }
    }
}
