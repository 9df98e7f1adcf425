//! Where does a bar lie? Series of any length are cut into runs, and runs are interleaved so that neighbouring invocations
//! read neighbouring words (`shader/common.wgsl` has the formula).
//!
//! Runs are numbered part by part: first the first parts of all series, then the second ones. Kernels with an invocation
//! per run and kernels with one per series both find their neighbours' words beside their own. Only the last run of a
//! series, and the last group of runs, is padded.

use crate::encoding::Scale;

/// log2 of the runs that are interleaved.
pub const LANES: u32 = 5;
/// No run: before the first, after the last.
pub const NONE: u32 = u32::MAX;
/// Words of a run in the table, and of a series.
pub const RUN_WORDS: usize = 8;
/// Words of a series in its table.
pub const SERIES_WORDS: usize = 4;

/// A part of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// Whose.
    pub series: usize,
    /// Its first bar.
    pub first: usize,
    /// How many bars.
    pub count: usize,
    before: u32,
    after: u32,
}

/// How the series of a batch lie in a column.
#[derive(Debug, Clone)]
pub struct Layout {
    /// log2 of the steps of a run.
    pub segment_log2: u32,
    /// Bars of each series.
    pub bars: Vec<usize>,
    runs: Vec<Run>,
    /// Runs of each series, in order.
    of: Vec<Vec<u32>>,
}

impl Layout {
    /// For series of these lengths, with runs of `1 << steps` bars.
    pub fn new(bars: &[usize], segment_log2: u32) -> Layout {
        let long = 1usize << segment_log2;
        let parts = bars.iter().map(|n| n.div_ceil(long)).max().unwrap_or(0);
        let mut layout =
            Layout { segment_log2, bars: bars.to_vec(), runs: Vec::new(), of: vec![Vec::new(); bars.len()] };
        for part in 0..parts {
            for (series, n) in bars.iter().enumerate().filter(|(_, n)| **n > part * long) {
                let at = u32::try_from(layout.runs.len()).unwrap_or(NONE);
                let first = part * long;
                let Some(of) = layout.of.get_mut(series) else { continue };
                let before = of.last().copied().unwrap_or(NONE);
                of.push(at);
                if let Some(run) = layout.runs.get_mut(before as usize) {
                    run.after = at;
                }
                let count = (n - first).min(long);
                layout.runs.push(Run { series, first, count, before, after: NONE });
            }
        }
        layout
    }

    /// log2 of the steps of a run that gives enough runs to keep a device busy, but not more than needed.
    pub fn segment_log2_for(bars: &[usize]) -> u32 {
        let total: usize = bars.iter().sum();
        // A run's beginning costs a window; a scan's middle pass walks over the runs of a series.
        (total / 4096).next_power_of_two().ilog2().clamp(5, 12)
    }

    /// log2 of the steps of a run that gives about so many runs, but pads a column by a quarter at most: short series are
    /// not made long.
    pub fn segment_log2_targeting(bars: &[usize], runs: usize) -> u32 {
        let total: usize = bars.iter().sum();
        let fitting = (total / runs.max(1)).next_power_of_two().ilog2().clamp(5, 12);
        let padded = |segment_log2: &u32| Layout::words_of(bars, *segment_log2) <= total + total / 4;
        (5..=fitting).rev().find(padded).unwrap_or(5)
    }

    /// The runs.
    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Words of a column: whole groups of runs.
    pub fn words(&self) -> usize {
        Layout::words_for(self.runs.len(), self.segment_log2)
    }

    fn words_for(runs: usize, segment_log2: u32) -> usize {
        runs.next_multiple_of(1 << LANES) << segment_log2
    }

    /// Words of a column for series of these lengths, without laying them out.
    pub fn words_of(bars: &[usize], segment_log2: u32) -> usize {
        Layout::words_for(bars.iter().map(|n| n.div_ceil(1 << segment_log2)).sum(), segment_log2)
    }

    /// The word of a step of a run.
    pub fn word(&self, run: usize, step: usize) -> usize {
        let lanes = 1usize << LANES;
        ((run >> LANES) << (self.segment_log2 + LANES)) + (step << LANES) + (run & (lanes - 1))
    }

    /// Runs and series as words for the device; `scales` are those of the series.
    pub fn tables(&self, scales: &[Scale]) -> (Vec<u32>, Vec<u32>) {
        let word = |x: usize| u32::try_from(x).unwrap_or(NONE);
        let mut runs = Vec::with_capacity(self.runs.len() * RUN_WORDS);
        for run in &self.runs {
            let bars = self.bars.get(run.series).copied().unwrap_or(0);
            let words =
                [word(run.series), word(run.first), word(run.count), run.before, run.after, word(bars)];
            let scale = scales.get(run.series).map_or([0, 0], |s| s.words());
            runs.extend(words.into_iter().chain(scale));
        }
        let mut series = Vec::with_capacity(self.bars.len() * SERIES_WORDS);
        for (of, bars) in self.of.iter().zip(&self.bars) {
            series.extend([of.first().copied().unwrap_or(NONE), word(*bars), word(of.len()), 0]);
        }
        (runs, series)
    }

    /// The run of each series that begins at this bar (a multiple of the steps), or [`NONE`].
    pub fn beginning_at(&self, bar: usize) -> Vec<u32> {
        self.of.iter().map(|of| of.get(bar >> self.segment_log2).copied().unwrap_or(NONE)).collect()
    }

    /// Puts a series' values, in the form in which they are held, where they belong in a column of words.
    pub fn scatter(&self, series: usize, values: &[f64], held: impl Fn(f64) -> f64, column: &mut [u32]) {
        for (run, part) in
            self.of.get(series).into_iter().flatten().zip(values.chunks(1 << self.segment_log2))
        {
            let first = self.word(*run as usize, 0);
            let places = column.iter_mut().skip(first).step_by(1 << LANES);
            places.zip(part).for_each(|(place, x)| *place = (held(*x) as f32).to_bits());
        }
    }

    /// Takes a series' values out of a column; those before `start` are NaN.
    pub fn gather(
        &self,
        series: usize,
        column: &[f32],
        value: impl Fn(f64) -> f64,
        start: usize,
        values: &mut [f64],
    ) {
        for (run, part) in
            self.of.get(series).into_iter().flatten().zip(values.chunks_mut(1 << self.segment_log2))
        {
            let first = self.word(*run as usize, 0);
            let places = column.get(first..).unwrap_or_default().iter().step_by(1 << LANES);
            part.iter_mut().zip(places).for_each(|(x, place)| *x = value(f64::from(*place)));
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
    fn what_is_put_comes_back_and_words_are_used_once() {
        for (bars, segment_log2) in [(vec![100, 1, 0, 33], 4), (vec![5000], 6), (vec![64; 70], 5)] {
            let layout = Layout::new(&bars, segment_log2);
            let mut column = vec![NONE; layout.words()];
            for (s, n) in bars.iter().enumerate() {
                let values: Vec<f64> = (0..*n).map(|t| (s * 10_000 + t) as f64).collect();
                layout.scatter(s, &values, |x| x - 7.0, &mut column);
            }
            assert_eq!(column.iter().filter(|w| **w != NONE).count(), bars.iter().sum::<usize>());
            assert_eq!(layout.words(), Layout::words_of(&bars, segment_log2));
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
    fn runs_are_long_where_few_are_needed_and_little_is_padded() {
        assert_eq!(Layout::segment_log2_targeting(&[100_000; 30], 4096), 10);
        assert_eq!(Layout::segment_log2_targeting(&[100_000; 30], 128), 12, "the longest");
        assert_eq!(Layout::segment_log2_targeting(&[1000; 500], 128), 10, "4096 would pad three quarters");
        assert_eq!(Layout::segment_log2_targeting(&[1000; 500], 1 << 20), 5, "the shortest");
        assert_eq!(Layout::segment_log2_targeting(&[1000], 1), 5, "32 runs lie side by side");
        assert_eq!(Layout::segment_log2_targeting(&[], 128), 5);
    }

    #[test]
    fn runs_know_their_neighbours() {
        let layout = Layout::new(&[40, 20], 4);
        let scale = Scale { level: 100.5, tick: Some(0.5) };
        let (runs, series) = layout.tables(&[scale]);
        let of = |r: usize| &runs[r * RUN_WORDS..(r + 1) * RUN_WORDS];
        assert_eq!(*of(0), [0, 0, 16, NONE, 2, 40, 100.5_f32.to_bits(), 0.5_f32.to_bits()]);
        assert_eq!(of(1)[..6], [1, 0, 16, NONE, 3, 20]);
        assert_eq!(of(3)[..6], [1, 16, 4, 1, NONE, 20]);
        assert_eq!(of(4)[..6], [0, 32, 8, 2, NONE, 40]);
        assert_eq!(series, [0, 40, 3, 0, 1, 20, 2, 0]);
        assert_eq!(layout.beginning_at(16), [2, 3]);
        assert_eq!(layout.beginning_at(32), [4, NONE]);
    }
}
