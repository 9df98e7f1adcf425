//! Order-preserving sort keys: any sort becomes an ascending sort of unsigned keys.

use gpuforge_runtime::tensor::DType;

/// Largest key of a number; all above are NaN.
const MAX_NUMBER_KEY: u32 = 0xff00_0001;

/// Dtype and direction of a sort.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SortOrder {
    kind: u32,
    descending: bool,
}

impl SortOrder {
    /// `None` for dtypes that cannot be sorted.
    pub(crate) fn of(dtype: DType, descending: bool) -> Option<SortOrder> {
        let kind = match dtype {
            DType::U32 => 0,
            DType::I32 => 1,
            DType::F32 => 2,
            DType::F16 | DType::U8 => return None,
        };
        Some(SortOrder { kind, descending })
    }

    /// As shader flags.
    pub(crate) fn flags(self) -> u32 {
        self.kind | u32::from(self.descending) << 2
    }

    /// From shader flags.
    pub(crate) fn from_flags(flags: u32) -> SortOrder {
        SortOrder { kind: flags & 3, descending: flags & 4 != 0 }
    }

    /// The key of a value.
    #[inline(always)]
    pub(crate) fn key(self, bits: u32) -> u32 {
        match (self.kind, self.descending) {
            (0, false) => bits,
            (0, true) => !bits,
            (1, false) => bits ^ 1 << 31,
            (1, true) => !(bits ^ 1 << 31),
            (_, false) => float_key(bits),
            (_, true) => reverse(float_key(bits)),
        }
    }

    /// The value of a key.
    #[inline(always)]
    pub(crate) fn bits(self, key: u32) -> u32 {
        match (self.kind, self.descending) {
            (0, false) => key,
            (0, true) => !key,
            (1, false) => key ^ 1 << 31,
            (1, true) => !key ^ 1 << 31,
            (_, false) => float_bits(key),
            (_, true) => float_bits(reverse(key)),
        }
    }
}

/// Sign-magnitude to unsigned order. That puts negative NaN below -∞; subtracting their count wraps exactly these to the end.
#[inline(always)]
fn float_key(bits: u32) -> u32 {
    let sign = (bits as i32 >> 31) as u32;
    (bits ^ (sign | 1 << 31)).wrapping_sub(0x007f_ffff)
}

#[inline(always)]
fn float_bits(key: u32) -> u32 {
    let key = key.wrapping_add(0x007f_ffff);
    let sign = (!key as i32 >> 31) as u32;
    key ^ (sign | 1 << 31)
}

/// Reverses the order of numbers; NaN stays last.
#[inline(always)]
fn reverse(key: u32) -> u32 {
    if key <= MAX_NUMBER_KEY { MAX_NUMBER_KEY - key } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_preserve_order_and_round_trip() {
        let nan = [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xffff_ffff, 0xffc0_0000, 0xff80_0001];
        let floats = [f32::NEG_INFINITY, -1.5, -1e-40, -0.0, 0.0, 1e-40, 2.0, f32::INFINITY];
        let up: Vec<u32> = floats.iter().map(|f| f.to_bits()).chain(nan).collect();
        let down: Vec<u32> = floats.iter().rev().map(|f| f.to_bits()).chain(nan).collect();
        for (bits, descending) in [(up, false), (down, true)] {
            let order = SortOrder::of(DType::F32, descending).unwrap();
            let keys: Vec<u32> = bits.iter().map(|b| order.key(*b)).collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
            assert_eq!(keys.iter().map(|k| order.bits(*k)).collect::<Vec<_>>(), bits);
            assert_eq!(SortOrder::from_flags(order.flags()), order);
        }
        for descending in [false, true] {
            let order = SortOrder::of(DType::I32, descending).unwrap();
            assert_eq!(order.key(-1i32 as u32) < order.key(1), !descending);
            assert!([0, 1, 1 << 31, u32::MAX].into_iter().all(|b| order.bits(order.key(b)) == b));
        }
    }
}
