// Order-preserving sort keys. Flags: bits 0-1 dtype (unsigned, signed, float), bit 2 descending.
fn reverse(k: u32) -> u32 {
    return select(k, 0xff000001u - k, k <= 0xff000001u);
}

fn key_of(bits: u32, flags: u32) -> u32 {
    let down = (flags & 4u) != 0u;
    if ((flags & 3u) == 2u) {
        let k = select(bits ^ 0x80000000u, ~bits, bits >= 0x80000000u) - 0x007fffffu;
        return select(k, reverse(k), down);
    }
    let k = bits ^ ((flags & 1u) << 31u);
    return select(k, ~k, down);
}

fn bits_of(key: u32, flags: u32) -> u32 {
    let down = (flags & 4u) != 0u;
    if ((flags & 3u) == 2u) {
        let k = select(key, reverse(key), down) + 0x007fffffu;
        return select(~k, k ^ 0x80000000u, k >= 0x80000000u);
    }
    return select(key, ~key, down) ^ ((flags & 1u) << 31u);
}
