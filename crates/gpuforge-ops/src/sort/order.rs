//! In which order do numbers stand? As unsigned keys: a sort of any kind is an ascending sort of keys.

use gpuforge_runtime::tensor::DType;

/// Keys up to this are numbers, all above are NaN.
const GREATEST: u32 = 0xff00_0001;

/// A kind of number and a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Order {
    kind: u32,
    descending: bool,
}

impl Order {
    /// `None` for kinds that cannot be sorted.
    pub(crate) fn of(dtype: DType, descending: bool) -> Option<Order> {
        let kind = match dtype {
            DType::U32 => 0,
            DType::I32 => 1,
            DType::F32 => 2,
            DType::F16 | DType::U8 => return None,
        };
        Some(Order { kind, descending })
    }

    /// How the shaders are told.
    pub(crate) fn flags(self) -> u32 {
        self.kind | u32::from(self.descending) << 2
    }

    /// What [`Order::flags`] said.
    pub(crate) fn from_flags(flags: u32) -> Order {
        Order { kind: flags & 3, descending: flags & 4 != 0 }
    }

    /// The key of a number's bits.
    #[inline(always)]
    pub(crate) fn key(self, bits: u32) -> u32 {
        match (self.kind, self.descending) {
            (0, false) => bits,
            (0, true) => !bits,
            (1, false) => bits ^ 1 << 31,
            (1, true) => !(bits ^ 1 << 31),
            (_, false) => float(bits),
            (_, true) => turn(float(bits)),
        }
    }

    /// The bits of a key's number.
    #[inline(always)]
    pub(crate) fn bits(self, key: u32) -> u32 {
        match (self.kind, self.descending) {
            (0, false) => key,
            (0, true) => !key,
            (1, false) => key ^ 1 << 31,
            (1, true) => !key ^ 1 << 31,
            (_, false) => float_back(key),
            (_, true) => float_back(turn(key)),
        }
    }
}

/// Negative numbers count backwards from the sign. That puts negative NaN below -∞; moving all keys down by as many as
/// there are of them wraps exactly these to the end.
#[inline(always)]
fn float(bits: u32) -> u32 {
    let sign = (bits as i32 >> 31) as u32;
    (bits ^ (sign | 1 << 31)).wrapping_sub(0x007f_ffff)
}

#[inline(always)]
fn float_back(key: u32) -> u32 {
    let key = key.wrapping_add(0x007f_ffff);
    let sign = (!key as i32 >> 31) as u32;
    key ^ (sign | 1 << 31)
}

/// Numbers the other way round; NaN stays last.
#[inline(always)]
fn turn(key: u32) -> u32 {
    if key <= GREATEST { GREATEST - key } else { key }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_stand_in_order_and_come_back() {
        let nan = [0x7f80_0001, 0x7fc0_0000, 0x7fff_ffff, 0xffff_ffff, 0xffc0_0000, 0xff80_0001];
        let floats = [f32::NEG_INFINITY, -1.5, -1e-40, -0.0, 0.0, 1e-40, 2.0, f32::INFINITY];
        let up: Vec<u32> = floats.iter().map(|f| f.to_bits()).chain(nan).collect();
        let down: Vec<u32> = floats.iter().rev().map(|f| f.to_bits()).chain(nan).collect();
        for (bits, descending) in [(up, false), (down, true)] {
            let order = Order::of(DType::F32, descending).unwrap();
            let keys: Vec<u32> = bits.iter().map(|b| order.key(*b)).collect();
            assert!(keys.is_sorted_by(|a, b| a < b), "{keys:x?}");
            assert_eq!(keys.iter().map(|k| order.bits(*k)).collect::<Vec<_>>(), bits);
            assert_eq!(Order::from_flags(order.flags()), order);
        }
        for descending in [false, true] {
            let order = Order::of(DType::I32, descending).unwrap();
            assert_eq!(order.key(-1i32 as u32) < order.key(1), !descending);
            assert!([0, 1, 1 << 31, u32::MAX].into_iter().all(|b| order.bits(order.key(b)) == b));
        }
    }
}
