//! Staging buffer ring: reused upload and readback buffers, so that a transfer costs a copy, not an allocation.
//!
//! Upload buffers are remapped as soon as the device has read them, and wait mapped. None of them comes from the pool:
//! they are bounded here, and the idle maximum is subtracted from the pool's budget (`Engine::reserved`).

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use crate::units::Bytes;

/// Larger transfers are split into chunks: the CPU copies one while the device copies another (double buffering).
pub(super) const CHUNK: u64 = 2 << 20;
/// Bytes in flight per direction; also the maximum kept idle. Two chunks, small enough to stay in the CPU's caches: two
/// larger chunks, or a single one, were slower in a round trip.
pub(super) const WINDOW: u64 = 2 * CHUNK;
/// The smallest staging buffer.
const MIN_SIZE: u64 = 4 << 10;

/// State of a `map_async`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    Waiting,
    Ready,
    Failed,
}

/// Completion flag, set by a driver callback.
#[derive(Debug, Clone, Default)]
pub(super) struct MapFlag(Arc<AtomicU8>);

impl MapFlag {
    pub(super) fn get(&self) -> Mapping {
        match self.0.load(Ordering::Acquire) {
            0 => Mapping::Waiting,
            1 => Mapping::Ready,
            _ => Mapping::Failed,
        }
    }

    pub(super) fn set(&self, ok: bool) {
        self.0.store(if ok { 1 } else { 2 }, Ordering::Release);
    }
}

/// Starts mapping the first `size` bytes.
pub(super) fn map(buffer: &wgpu::Buffer, mode: wgpu::MapMode, size: u64) -> MapFlag {
    let flag = MapFlag::default();
    let set = flag.clone();
    buffer.map_async(mode, ..size, move |result| set.set(result.is_ok()));
    flag
}

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Upload (host to device); idle ones are mapped.
    Up,
    /// Readback (device to host); idle ones are not mapped.
    Down,
    /// Uniform parameter blocks.
    Params,
    /// Target of `resolve_query_set`.
    Timestamps,
}

impl Purpose {
    const ALL: [Purpose; 4] = [Purpose::Up, Purpose::Down, Purpose::Params, Purpose::Timestamps];

    fn usage(self) -> wgpu::BufferUsages {
        use wgpu::BufferUsages as Usage;
        match self {
            Purpose::Up => Usage::MAP_WRITE | Usage::COPY_SRC,
            Purpose::Down => Usage::MAP_READ | Usage::COPY_DST,
            Purpose::Params => Usage::UNIFORM | Usage::COPY_DST,
            Purpose::Timestamps => Usage::QUERY_RESOLVE | Usage::COPY_SRC,
        }
    }
}

/// Maximum of idle bytes: one window per purpose.
pub(super) fn max_idle() -> Bytes {
    Bytes(WINDOW * Purpose::ALL.len() as u64)
}

/// An upload buffer that the device is still reading.
struct InFlight {
    buffer: wgpu::Buffer,
    flag: MapFlag,
    after: wgpu::SubmissionIndex,
}

/// Staging buffers of a device.
#[derive(Default)]
pub(super) struct Staging {
    idle: Vec<(Purpose, wgpu::Buffer)>,
    in_flight: VecDeque<InFlight>,
}

impl Staging {
    /// A buffer of at least this size: the smallest idle one that is at most four times larger, or a new one.
    pub(super) fn take(&mut self, device: &wgpu::Device, purpose: Purpose, size: u64) -> wgpu::Buffer {
        let size = size.max(MIN_SIZE).next_power_of_two();
        let fits = |(_, (p, b)): &(usize, &(Purpose, wgpu::Buffer))| {
            *p == purpose && (size..=size * 4).contains(&b.size())
        };
        let best = self.idle.iter().enumerate().filter(fits).min_by_key(|(_, (_, b))| b.size());
        match best.map(|(at, _)| at) {
            Some(at) => self.idle.swap_remove(at).1,
            None => device.create_buffer(&wgpu::BufferDescriptor {
                label: Some("gpuforge staging"),
                size,
                usage: purpose.usage(),
                mapped_at_creation: purpose == Purpose::Up,
            }),
        }
    }

    /// Returns a buffer to the idle list, or drops it if the window is full.
    pub(super) fn recycle(&mut self, purpose: Purpose, buffer: wgpu::Buffer) {
        let kept: u64 = self.idle.iter().filter(|(p, _)| *p == purpose).map(|(_, b)| b.size()).sum();
        if kept + buffer.size() <= WINDOW {
            self.idle.push((purpose, buffer));
        }
    }

    /// Remaps an upload buffer once the device has read it.
    pub(super) fn remap_after(&mut self, buffer: wgpu::Buffer, after: wgpu::SubmissionIndex) {
        let flag = map(&buffer, wgpu::MapMode::Write, buffer.size());
        self.in_flight.push_back(InFlight { buffer, flag, after });
    }

    /// Recycles buffers whose remapping has completed; call it after a poll.
    pub(super) fn collect(&mut self) {
        while let Some(first) = self.in_flight.front() {
            match first.flag.get() {
                Mapping::Waiting => return,
                Mapping::Ready => {
                    if let Some(first) = self.in_flight.pop_front() {
                        self.recycle(Purpose::Up, first.buffer);
                    }
                }
                Mapping::Failed => drop(self.in_flight.pop_front()),
            }
        }
    }

    /// The submission that must complete before more may be uploaded; `None` while the window has space.
    pub(super) fn full(&self) -> Option<wgpu::SubmissionIndex> {
        let in_flight: u64 = self.in_flight.iter().map(|r| r.buffer.size()).sum();
        self.in_flight.front().filter(|_| in_flight >= WINDOW).map(|first| first.after.clone())
    }

    /// Frees all idle buffers.
    pub(super) fn clear(&mut self) {
        self.idle.clear();
    }
}

/// A copy region of a download: `len` bytes from `offset` of the source to `at` in a staging buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CopyRegion {
    /// Which download.
    pub(super) output: usize,
    pub(super) offset: u64,
    pub(super) at: u64,
    pub(super) len: u64,
}

/// Packs downloads, in order, into chunks of at most `max` bytes; pure. Small ones share a chunk, large ones are split.
pub(super) fn readback_chunks(downloads: &[(usize, u64)], max: u64) -> VecDeque<Vec<CopyRegion>> {
    let mut chunks = VecDeque::new();
    let (mut chunk, mut filled) = (Vec::new(), 0);
    for (output, size) in downloads {
        let mut offset = 0;
        while offset < *size {
            let len = (size - offset).min(max - filled);
            chunk.push(CopyRegion { output: *output, offset, at: filled, len });
            offset += len;
            filled += len.next_multiple_of(8);
            if filled >= max {
                chunks.push_back(std::mem::take(&mut chunk));
                filled = 0;
            }
        }
    }
    if !chunk.is_empty() {
        chunks.push_back(chunk);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_are_split_and_packed() {
        let part = |output, offset, at, len| CopyRegion { output, offset, at, len };
        assert_eq!(readback_chunks(&[], 64), VecDeque::<Vec<CopyRegion>>::new());
        assert_eq!(readback_chunks(&[(0, 64)], 64), [vec![part(0, 0, 0, 64)]]);
        assert_eq!(readback_chunks(&[(0, 68)], 64), [vec![part(0, 0, 0, 64)], vec![part(0, 64, 0, 4)]]);
        assert_eq!(
            readback_chunks(&[(2, 12), (3, 100)], 64),
            [vec![part(2, 0, 0, 12), part(3, 0, 16, 48)], vec![part(3, 48, 0, 52)]]
        );
    }

    #[test]
    fn every_byte_is_in_exactly_one_region() {
        for max in [8, 24, 64, 1 << 20] {
            let sizes: Vec<(usize, u64)> = (0..40).map(|i| (i, 4 + (i as u64 * 52) % 300)).collect();
            let chunks = readback_chunks(&sizes, max);
            for chunk in &chunks {
                assert!(chunk.iter().all(|p| p.at + p.len <= max && p.at.is_multiple_of(8) && p.len > 0));
                assert!(chunk.windows(2).all(|w| w[0].at + w[0].len <= w[1].at));
            }
            for (output, size) in sizes {
                let mut next = 0;
                for p in chunks.iter().flatten().filter(|p| p.output == output) {
                    assert_eq!(p.offset, next);
                    next += p.len;
                }
                assert_eq!(next, size);
            }
        }
    }
}
