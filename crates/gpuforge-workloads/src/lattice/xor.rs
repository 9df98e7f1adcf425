//! How are bytes hidden and found again? XOR with a repeating key, which is always handed back: without it nothing is found.

use gpuforge_ops::{Op as _, Threads, view::tensor, xor};

use super::LatticeError;

/// Bytes of a key that is made here.
pub const KEY_BYTES: usize = 32;

/// The bytes XOR the repeated key, and the key; without one, a random one of [`KEY_BYTES`] from the system. Applied twice with
/// the same key, it gives the bytes back. A key that is shorter than the data hides nothing from whoever tries.
pub fn xor_transform(data: &[u8], key: Option<&[u8]>) -> Result<(Vec<u8>, Vec<u8>), LatticeError> {
    let key = match key {
        Some(key) => key.to_vec(),
        None => random_key()?,
    };
    let op = xor(&tensor(data, &[data.len()], "data")?, &tensor(&key, &[key.len()], "key")?);
    op.outputs()?;
    let mut out = vec![0; data.len()];
    op.cpu(&[data, &key], &mut [&mut out], Threads::all())?;
    Ok((out, key))
}

/// A key from the system's source of randomness.
fn random_key() -> Result<Vec<u8>, LatticeError> {
    let mut key = vec![0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|e| LatticeError::NoKey(e.to_string()))?;
    Ok(key)
}
