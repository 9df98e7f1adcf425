//! XOR transform with a repeating key, which is always returned.

use gpuforge_ops::{Op as _, Threads, view::tensor, xor};

use super::LatticeError;

/// Length of a generated key.
pub const KEY_BYTES: usize = 32;

/// XORs bytes with a repeated key and returns both; without a key, a random one of [`KEY_BYTES`] is generated. Applied twice with
/// the same key, it restores the bytes. A key shorter than the data is no encryption.
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

/// A key from the operating system's random source.
fn random_key() -> Result<Vec<u8>, LatticeError> {
    let mut key = vec![0; KEY_BYTES];
    getrandom::fill(&mut key).map_err(|e| LatticeError::NoKey(e.to_string()))?;
    Ok(key)
}
