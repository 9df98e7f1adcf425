//! Memory layout: series cut into segments of bars, segments interleaved (SoA) so that neighbouring invocations read
//! neighbouring words: coalesced access (`shader/common.wgsl` has the formula).
//!
//! Segments are numbered by time: first the first segments of all series, then the second ones. So kernels with an
//! invocation per segment and kernels with one per series are both coalesced. Only the last segment of a series, and the
//! last group of interleaved segments, is padded.

use crate::encoding::OffsetScale;

/// log2 of the number of segments that are interleaved.
pub const INTERLEAVE_LOG2: u32 = 5;
/// No segment: before the first, after the last.
pub const NONE: u32 = u32::MAX;
/// Words of a segment in the segment table.
pub const SEGMENT_WORDS: usize = 8;
/// Words of a series in the series table.
pub const SERIES_WORDS: usize = 4;

/// Consecutive bars of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    /// Index of the series.
    pub series: usize,
    /// Its first bar.
    pub first: usize,
    /// Number of bars.
    pub count: usize,
    before: u32,
    after: u32,
}

/// The layout of a batch's series in a column.
#[derive(Debug, Clone)]
pub struct SegmentLayout {
    /// log2 of the bars of a segment.
    pub segment_log2: u32,
    /// Bars of each series.
    pub bars: Vec<usize>,
    segments: Vec<Segment>,
    /// Segments of each series, in order.
    of_series: Vec<Vec<u32>>,
}

impl SegmentLayout {
    /// For series of these lengths, with segments of `1 << segment_log2` bars.
    pub fn new(bars: &[usize], segment_log2: u32) -> SegmentLayout {
        let long = 1usize << segment_log2;
        let parts = bars.iter().map(|n| n.div_ceil(long)).max().unwrap_or(0);
        let mut layout = SegmentLayout {
            segment_log2,
            bars: bars.to_vec(),
            segments: Vec::new(),
            of_series: vec![Vec::new(); bars.len()],
        };
        for part in 0..parts {
            for (series, n) in bars.iter().enumerate().filter(|(_, n)| **n > part * long) {
                let at = u32::try_from(layout.segments.len()).unwrap_or(NONE);
                let first = part * long;
                let Some(of) = layout.of_series.get_mut(series) else { continue };
                let before = of.last().copied().unwrap_or(NONE);
                of.push(at);
                if let Some(segment) = layout.segments.get_mut(before as usize) {
                    segment.after = at;
                }
                let count = (n - first).min(long);
                layout.segments.push(Segment { series, first, count, before, after: NONE });
            }
        }
        layout
    }

    /// The segment length that gives enough segments to occupy a device, but not more.
    pub fn segment_log2_for(bars: &[usize]) -> u32 {
        let total: usize = bars.iter().sum();
        // Each segment costs the setup of its windows; the middle pass of a scan loops over a series' segments.
        (total / 4096).next_power_of_two().ilog2().clamp(5, 12)
    }

    /// The segment length that gives about so many segments, but pads a column by at most a quarter.
    pub fn segment_log2_targeting(bars: &[usize], segments: usize) -> u32 {
        let total: usize = bars.iter().sum();
        let fitting = (total / segments.max(1)).next_power_of_two().ilog2().clamp(5, 12);
        let padded = |segment_log2: &u32| SegmentLayout::words_of(bars, *segment_log2) <= total + total / 4;
        (5..=fitting).rev().find(padded).unwrap_or(5)
    }

    /// The segments.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Words of a column: whole groups of interleaved segments.
    pub fn words(&self) -> usize {
        SegmentLayout::words_for(self.segments.len(), self.segment_log2)
    }

    fn words_for(segments: usize, segment_log2: u32) -> usize {
        segments.next_multiple_of(1 << INTERLEAVE_LOG2) << segment_log2
    }

    /// Words of a column for series of these lengths, without laying them out.
    pub fn words_of(bars: &[usize], segment_log2: u32) -> usize {
        SegmentLayout::words_for(bars.iter().map(|n| n.div_ceil(1 << segment_log2)).sum(), segment_log2)
    }

    /// The word of a bar of a segment.
    pub fn word(&self, segment: usize, bar: usize) -> usize {
        let lanes = 1usize << INTERLEAVE_LOG2;
        ((segment >> INTERLEAVE_LOG2) << (self.segment_log2 + INTERLEAVE_LOG2))
            + (bar << INTERLEAVE_LOG2)
            + (segment & (lanes - 1))
    }

    /// Segment table and series table for the device; `scales` are those of the series.
    pub fn tables(&self, scales: &[OffsetScale]) -> (Vec<u32>, Vec<u32>) {
        let word = |x: usize| u32::try_from(x).unwrap_or(NONE);
        let mut segments = Vec::with_capacity(self.segments.len() * SEGMENT_WORDS);
        for segment in &self.segments {
            let bars = self.bars.get(segment.series).copied().unwrap_or(0);
            let words = [
                word(segment.series),
                word(segment.first),
                word(segment.count),
                segment.before,
                segment.after,
                word(bars),
            ];
            let scale = scales.get(segment.series).map_or([0, 0], |s| s.words());
            segments.extend(words.into_iter().chain(scale));
        }
        let mut series = Vec::with_capacity(self.bars.len() * SERIES_WORDS);
        for (of, bars) in self.of_series.iter().zip(&self.bars) {
            series.extend([of.first().copied().unwrap_or(NONE), word(*bars), word(of.len()), 0]);
        }
        (segments, series)
    }

    /// The segment of each series that starts at this bar (a multiple of the segment length), or [`NONE`].
    pub fn segments_starting_at(&self, bar: usize) -> Vec<u32> {
        self.of_series.iter().map(|of| of.get(bar >> self.segment_log2).copied().unwrap_or(NONE)).collect()
    }

    /// Encodes a series' values and scatters them into an interleaved column.
    pub fn scatter(&self, series: usize, values: &[f64], encode: impl Fn(f64) -> f64, column: &mut [u32]) {
        for (segment, part) in
            self.of_series.get(series).into_iter().flatten().zip(values.chunks(1 << self.segment_log2))
        {
            let first = self.word(*segment as usize, 0);
            let words = column.iter_mut().skip(first).step_by(1 << INTERLEAVE_LOG2);
            words.zip(part).for_each(|(word, x)| *word = (encode(*x) as f32).to_bits());
        }
    }

    /// Gathers a series' values from an interleaved column and decodes them; those before `start` are NaN.
    pub fn gather(
        &self,
        series: usize,
        column: &[f32],
        decode: impl Fn(f64) -> f64,
        start: usize,
        values: &mut [f64],
    ) {
        for (segment, part) in
            self.of_series.get(series).into_iter().flatten().zip(values.chunks_mut(1 << self.segment_log2))
        {
            let first = self.word(*segment as usize, 0);
            let words = column.get(first..).unwrap_or_default().iter().step_by(1 << INTERLEAVE_LOG2);
            part.iter_mut().zip(words).for_each(|(x, stored)| *x = decode(f64::from(*stored)));
        }
        let early = start.min(values.len());
        values.iter_mut().take(early).for_each(|x| *x = f64::NAN);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test may fail")]
    use super::*;

    #[test]
    fn scatter_and_gather_round_trip_and_use_each_word_once() {
        for (bars, segment_log2) in [(vec![100, 1, 0, 33], 4), (vec![5000], 6), (vec![64; 70], 5)] {
            let layout = SegmentLayout::new(&bars, segment_log2);
            let mut column = vec![NONE; layout.words()];
            for (s, n) in bars.iter().enumerate() {
                let values: Vec<f64> = (0..*n).map(|t| (s * 10_000 + t) as f64).collect();
                layout.scatter(s, &values, |x| x - 7.0, &mut column);
            }
            assert_eq!(column.iter().filter(|w| **w != NONE).count(), bars.iter().sum::<usize>());
            assert_eq!(layout.words(), SegmentLayout::words_of(&bars, segment_log2));
            let floats: Vec<f32> = column.iter().map(|w| f32::from_bits(*w)).collect();
            for (s, n) in bars.iter().enumerate() {
                let mut back = vec![0.0; *n];
                layout.gather(s, &floats, |x| x + 7.0, 2, &mut back);
                assert!(back.iter().take(2).all(|x| x.is_nan()));
                assert!(back.iter().enumerate().skip(2).all(|(t, x)| *x == (s * 10_000 + t) as f64));
            }
        }
    }

    #[test]
    fn target_count_decides_segment_length_and_padding_is_bounded() {
        assert_eq!(SegmentLayout::segment_log2_targeting(&[100_000; 30], 4096), 10);
        assert_eq!(SegmentLayout::segment_log2_targeting(&[100_000; 30], 128), 12, "the longest");
        assert_eq!(
            SegmentLayout::segment_log2_targeting(&[1000; 500], 128),
            10,
            "4096 would pad three quarters"
        );
        assert_eq!(SegmentLayout::segment_log2_targeting(&[1000; 500], 1 << 20), 5, "the shortest");
        assert_eq!(SegmentLayout::segment_log2_targeting(&[1000], 1), 5, "32 segments are interleaved");
        assert_eq!(SegmentLayout::segment_log2_targeting(&[], 128), 5);
    }

    #[test]
    fn segments_link_to_their_neighbours() {
        let layout = SegmentLayout::new(&[40, 20], 4);
        let scale = OffsetScale { offset: 100.5, tick: Some(0.5) };
        let (segments, series) = layout.tables(&[scale]);
        let of = |r: usize| &segments[r * SEGMENT_WORDS..(r + 1) * SEGMENT_WORDS];
        assert_eq!(*of(0), [0, 0, 16, NONE, 2, 40, 100.5_f32.to_bits(), 0.5_f32.to_bits()]);
        assert_eq!(of(1)[..6], [1, 0, 16, NONE, 3, 20]);
        assert_eq!(of(3)[..6], [1, 16, 4, 1, NONE, 20]);
        assert_eq!(of(4)[..6], [0, 32, 8, 2, NONE, 40]);
        assert_eq!(series, [0, 40, 3, 0, 1, 20, 2, 0]);
        assert_eq!(layout.segments_starting_at(16), [2, 3]);
        assert_eq!(layout.segments_starting_at(32), [4, NONE]);
    }
}
