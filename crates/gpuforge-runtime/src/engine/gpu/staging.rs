//! Which memory do bytes pass through? Buffers that are used again, so that a transfer costs a copy, not an allocation.
//!
//! Buffers for uploads are mapped again as soon as the device has read them, and wait mapped. None of it comes from the
//! pool: it is bounded here, and what may lie idle is taken off the pool's budget (`Engine::reserved`).

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
};

use crate::units::Bytes;

/// Larger transfers pass in pieces: the processor copies one while the device copies another.
pub(super) const PIECE: u64 = 2 << 20;
/// What is on its way at once, per direction; also the most that is kept idle. Two pieces that stay in the processor's
/// cache: 10 MB there and back took 2.6-3.3 ms; 3.2-3.3 with two of 4 MiB, 4.0-4.1 with one (three runs each, software
/// adapter, 2 cores, real-time priority).
pub(super) const WINDOW: u64 = 2 * PIECE;
/// The smallest buffer: less is not worth a buffer of its own size.
const LEAST: u64 = 4 << 10;

/// How a mapping stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mapping {
    Waiting,
    Ready,
    Failed,
}

/// Set by a callback of the driver.
#[derive(Debug, Clone, Default)]
pub(super) struct Flag(Arc<AtomicU8>);

impl Flag {
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
pub(super) fn map(buffer: &wgpu::Buffer, mode: wgpu::MapMode, size: u64) -> Flag {
    let flag = Flag::default();
    let set = flag.clone();
    buffer.map_async(mode, ..size, move |result| set.set(result.is_ok()));
    flag
}

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Host to device; idle ones are mapped.
    Up,
    /// Device to host; idle ones are not mapped.
    Down,
    /// Parameter blocks.
    Params,
    /// Where timestamps are resolved.
    Stamps,
}

impl Purpose {
    const ALL: [Purpose; 4] = [Purpose::Up, Purpose::Down, Purpose::Params, Purpose::Stamps];

    fn usage(self) -> wgpu::BufferUsages {
        use wgpu::BufferUsages as Usage;
        match self {
            Purpose::Up => Usage::MAP_WRITE | Usage::COPY_SRC,
            Purpose::Down => Usage::MAP_READ | Usage::COPY_DST,
            Purpose::Params => Usage::UNIFORM | Usage::COPY_DST,
            Purpose::Stamps => Usage::QUERY_RESOLVE | Usage::COPY_SRC,
        }
    }
}

/// The most that lies idle: every purpose has a window of its own.
pub(super) fn most_idle() -> Bytes {
    Bytes(WINDOW * Purpose::ALL.len() as u64)
}

/// An upload buffer that the device is still reading.
struct Returning {
    buffer: wgpu::Buffer,
    flag: Flag,
    after: wgpu::SubmissionIndex,
}

/// Buffers between jobs.
#[derive(Default)]
pub(super) struct Staging {
    idle: Vec<(Purpose, wgpu::Buffer)>,
    returning: VecDeque<Returning>,
}

impl Staging {
    /// A buffer of at least this size; the smallest idle one that is not four times too large, or a new one.
    pub(super) fn take(&mut self, device: &wgpu::Device, purpose: Purpose, size: u64) -> wgpu::Buffer {
        let size = size.max(LEAST).next_power_of_two();
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

    /// Keeps a buffer that nobody uses any more, unless there are enough.
    pub(super) fn give(&mut self, purpose: Purpose, buffer: wgpu::Buffer) {
        let kept: u64 = self.idle.iter().filter(|(p, _)| *p == purpose).map(|(_, b)| b.size()).sum();
        if kept + buffer.size() <= WINDOW {
            self.idle.push((purpose, buffer));
        }
    }

    /// Maps an upload buffer again once the device has read it.
    pub(super) fn send_back(&mut self, buffer: wgpu::Buffer, after: wgpu::SubmissionIndex) {
        let flag = map(&buffer, wgpu::MapMode::Write, buffer.size());
        self.returning.push_back(Returning { buffer, flag, after });
    }

    /// Takes in what has come back; call it after a poll.
    pub(super) fn collect(&mut self) {
        while let Some(first) = self.returning.front() {
            match first.flag.get() {
                Mapping::Waiting => return,
                Mapping::Ready => {
                    if let Some(first) = self.returning.pop_front() {
                        self.give(Purpose::Up, first.buffer);
                    }
                }
                Mapping::Failed => drop(self.returning.pop_front()),
            }
        }
    }

    /// What must be over before more may be sent; `None` while there is room.
    pub(super) fn full(&self) -> Option<wgpu::SubmissionIndex> {
        let on_the_way: u64 = self.returning.iter().map(|r| r.buffer.size()).sum();
        self.returning.front().filter(|_| on_the_way >= WINDOW).map(|first| first.after.clone())
    }

    /// Lets go of everything idle.
    pub(super) fn clear(&mut self) {
        self.idle.clear();
    }
}

/// Part of a download: `len` bytes from `offset` of the source, to `at` in a staging buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// Which download.
    pub(super) output: usize,
    pub(super) offset: u64,
    pub(super) at: u64,
    pub(super) len: u64,
}

/// Downloads, in order, as loads of at most `most` bytes each; pure. Small ones share a load, large ones take several.
pub(super) fn loads(downloads: &[(usize, u64)], most: u64) -> VecDeque<Vec<Part>> {
    let mut loads = VecDeque::new();
    let (mut load, mut filled) = (Vec::new(), 0);
    for (output, size) in downloads {
        let mut offset = 0;
        while offset < *size {
            let len = (size - offset).min(most - filled);
            load.push(Part { output: *output, offset, at: filled, len });
            offset += len;
            filled += len.next_multiple_of(8);
            if filled >= most {
                loads.push_back(std::mem::take(&mut load));
                filled = 0;
            }
        }
    }
    if !load.is_empty() {
        loads.push_back(load);
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn downloads_are_cut_and_packed() {
        let part = |output, offset, at, len| Part { output, offset, at, len };
        assert_eq!(loads(&[], 64), VecDeque::<Vec<Part>>::new());
        assert_eq!(loads(&[(0, 64)], 64), [vec![part(0, 0, 0, 64)]]);
        assert_eq!(loads(&[(0, 68)], 64), [vec![part(0, 0, 0, 64)], vec![part(0, 64, 0, 4)]]);
        assert_eq!(
            loads(&[(2, 12), (3, 100)], 64),
            [vec![part(2, 0, 0, 12), part(3, 0, 16, 48)], vec![part(3, 48, 0, 52)]]
        );
    }

    #[test]
    fn every_byte_is_in_exactly_one_part() {
        for most in [8, 24, 64, 1 << 20] {
            let sizes: Vec<(usize, u64)> = (0..40).map(|i| (i, 4 + (i as u64 * 52) % 300)).collect();
            let loads = loads(&sizes, most);
            for load in &loads {
                assert!(load.iter().all(|p| p.at + p.len <= most && p.at.is_multiple_of(8) && p.len > 0));
                assert!(load.windows(2).all(|w| w[0].at + w[0].len <= w[1].at));
            }
            for (output, size) in sizes {
                let mut next = 0;
                for p in loads.iter().flatten().filter(|p| p.output == output) {
                    assert_eq!(p.offset, next);
                    next += p.len;
                }
                assert_eq!(next, size);
            }
        }
    }
}
