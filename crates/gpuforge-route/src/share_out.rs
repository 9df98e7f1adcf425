//! Who does how much? Items shared out between places so that all end at the same time, by prices that are predicted first
//! and measured then. Pure: the clock is the caller's.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use crate::site::SiteError;

/// What a place asks for `n` items: `fixed + n * item` nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Price {
    /// For beginning at all.
    pub fixed: f64,
    /// For each item.
    pub item: f64,
}

/// The least that an item can cost: a price of nothing cannot be compared.
const CHEAPEST: f64 = 1e-3;

impl Price {
    /// From the times of one item and of many.
    pub fn between(one: f64, many: f64, n: usize) -> Price {
        let item = if n > 1 { (many - one) / (n - 1) as f64 } else { one };
        // Times that fall with the size are noise: then nothing but the mean is known.
        let item = if item > CHEAPEST { item } else { (many / n.max(1) as f64).max(CHEAPEST) };
        Price { fixed: (one - item).max(0.0), item }
    }

    /// Nanoseconds for so many.
    pub fn of(&self, n: usize) -> f64 {
        self.fixed + n as f64 * self.item
    }

    fn scaled(&self, factor: f64) -> Price {
        Price { fixed: self.fixed * factor, item: (self.item * factor).max(CHEAPEST) }
    }
}

/// How many of `n` items each place gets so that all end at the same time: a place that could begin only after the others
/// have ended gets none. Each offer is a price, whose fixed part holds all that has to happen first. Fractions are given to
/// those with the largest ones.
pub fn share_out(offers: &[Price], n: usize) -> Vec<usize> {
    if offers.is_empty() {
        return Vec::new();
    }
    let mut by_start: Vec<&Price> = offers.iter().collect();
    by_start.sort_unstable_by(|a, b| a.fixed.total_cmp(&b.fixed));
    // The end, if only the first few take part; the next joins as long as it would begin before it.
    let (mut rate, mut head_start, mut end) = (0.0, 0.0, f64::INFINITY);
    for offer in by_start {
        if offer.fixed >= end {
            break;
        }
        let speed = 1.0 / offer.item.max(CHEAPEST);
        rate += speed;
        head_start += offer.fixed * speed;
        end = (n as f64 + head_start) / rate;
    }
    let exact: Vec<f64> =
        offers.iter().map(|o| ((end - o.fixed) / o.item.max(CHEAPEST)).clamp(0.0, n as f64)).collect();
    let mut shares: Vec<usize> = exact.iter().map(|e| e.floor() as usize).collect();
    let mut order: Vec<usize> = (0..offers.len()).collect();
    let fraction = |i: &usize| exact.get(*i).map_or(0.0, |e| e.fract());
    order.sort_by(|a, b| fraction(b).total_cmp(&fraction(a)));
    let mut missing = n.saturating_sub(shares.iter().sum());
    for i in order.iter().cycle().take(missing.min(offers.len())) {
        if let Some(share) = shares.get_mut(*i) {
            *share += 1;
            missing -= 1;
        }
    }
    // Rounding of very large numbers: whoever is cheapest takes the rest.
    if missing > 0
        && let Some(share) = shares.first_mut()
    {
        *share += missing;
    }
    shares
}

/// Why items came back from a place.
#[derive(Debug, Clone)]
pub(crate) struct HandedOn {
    pub(crate) place: usize,
    pub(crate) error: SiteError,
}

/// Some items to be done next.
#[derive(Debug, Clone)]
pub(crate) struct Portion {
    pub(crate) items: Range<usize>,
    /// Set when another place had them and failed.
    pub(crate) handed_on: Option<Arc<HandedOn>>,
}

/// What a place is to do next.
#[derive(Debug)]
pub(crate) enum Take {
    /// These.
    Items(Portion),
    /// Nothing now, but others may fail: ask again.
    Wait,
    /// Nothing any more.
    Nothing,
}

#[derive(Debug, Clone)]
struct Seat {
    /// Index among the router's places.
    place: usize,
    price: Price,
    /// Does the price rest on a measurement, of before or of this run?
    known: bool,
    measured: bool,
    most: usize,
    /// When its work began and when it should end.
    running: Option<(f64, f64)>,
    gone: bool,
}

/// What a place offers when a share-out begins.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Offer {
    pub(crate) place: usize,
    /// `None` where nothing is known.
    pub(crate) price: Option<Price>,
    /// The most items at once.
    pub(crate) most: usize,
}

/// Items that places take portions of: little at first, then half of their shares, less towards the end, so that a wrong
/// price costs little.
#[derive(Debug)]
pub(crate) struct Pool {
    rest: VecDeque<Portion>,
    seats: Vec<Seat>,
}

/// What is taken in comparison with the cost of beginning: more, smaller portions would be spent on that.
const WORTH_BEGINNING: f64 = 4.0;

/// Nanoseconds of a portion while another place is tried.
const BRIEF: f64 = 10e6;

impl Pool {
    pub(crate) fn new(items: usize, offers: &[Offer]) -> Self {
        // A place about which nothing is known is taken for as good as the best, and tried with little.
        let known = offers.iter().filter_map(|o| o.price).map(|p| p.item).fold(f64::INFINITY, f64::min);
        let guess = Price { fixed: 0.0, item: if known.is_finite() { known } else { 1e3 } };
        let seat = |o: &Offer| Seat {
            place: o.place,
            price: o.price.unwrap_or(guess),
            known: o.price.is_some(),
            measured: false,
            most: o.most.max(1),
            running: None,
            gone: false,
        };
        let rest = if items > 0 { vec![Portion { items: 0..items, handed_on: None }] } else { Vec::new() };
        Pool { rest: rest.into(), seats: offers.iter().map(seat).collect() }
    }

    fn left(&self) -> usize {
        self.rest.iter().map(|p| p.items.len()).sum()
    }

    /// What nobody could do.
    pub(crate) fn into_rest(self) -> Vec<Portion> {
        self.rest.into()
    }

    /// A place is free at this time.
    pub(crate) fn take(&mut self, place: usize, now: f64) -> Take {
        let left = self.left();
        let alive = |s: &&Seat| !s.gone;
        if left == 0 {
            let others = self.seats.iter().any(|s| s.place != place && s.running.is_some());
            return if others { Take::Wait } else { Take::Nothing };
        }
        let offers: Vec<Price> = self
            .seats
            .iter()
            .filter(alive)
            .map(|s| Price { fixed: s.price.fixed + s.ready(now), ..s.price })
            .collect();
        let shares = share_out(&offers, left);
        let mine = self.seats.iter().filter(alive).position(|s| s.place == place);
        let share = mine.and_then(|i| shares.get(i)).copied().unwrap_or(0);
        let seats = self.seats.iter().filter(alive).count();
        let untried = self.seats.iter().filter(alive).any(|s| s.place != place && !s.known && !s.measured);
        let Some(seat) = self.seats.iter_mut().find(|s| s.place == place && !s.gone) else {
            return Take::Nothing;
        };
        // What nothing is known about is tried, whatever its share by a guess would be.
        let trial = !seat.known && !seat.measured;
        if share == 0 && !trial {
            return Take::Wait;
        }
        let least = (WORTH_BEGINNING * seat.price.fixed / seat.price.item).ceil() as usize;
        // Before anything was measured in this run, little: a prediction may be wrong by a factor.
        let part = share.div_ceil(if seat.measured { 2 } else { 8 }).max(least).min(share);
        let part = if trial { left.div_ceil(8 * seats) } else { part };
        // As long as nothing is known about another place, it may be far better: little is taken from it.
        let short =
            if untried && seat.known { (BRIEF - seat.price.fixed) / seat.price.item } else { f64::MAX };
        if short < 1.0 {
            return Take::Wait;
        }
        let n = part.min(seat.most).min(short as usize);
        let Some(mut portion) = self.rest.pop_front() else { return Take::Nothing };
        if portion.items.len() > n {
            let middle = portion.items.start + n;
            let later = Portion { items: middle..portion.items.end, handed_on: portion.handed_on.clone() };
            self.rest.push_front(later);
            portion.items.end = middle;
        }
        seat.running = Some((now, now + seat.price.of(portion.items.len())));
        Take::Items(portion)
    }

    /// A place has done its portion; `usual` if the time says something about the next one.
    pub(crate) fn done(&mut self, place: usize, n: usize, ns: f64, usual: bool) {
        let Some(seat) = self.seats.iter_mut().find(|s| s.place == place) else { return };
        seat.running = None;
        let factor = ns / seat.price.of(n).max(CHEAPEST);
        // At its best it is not slower than this.
        if usual || factor < 1.0 {
            // The first measurement is believed, later ones by half: one outlier must not decide.
            let factor = if seat.measured { factor.sqrt() } else { factor };
            seat.price = seat.price.scaled(factor.max(f64::MIN_POSITIVE));
            seat.measured |= usual;
        }
    }

    /// A place has failed: it gets no more, and its portion goes to the others.
    pub(crate) fn failed(&mut self, place: usize, portion: Portion, error: SiteError) {
        if let Some(seat) = self.seats.iter_mut().find(|s| s.place == place) {
            (seat.running, seat.gone) = (None, true);
        }
        let handed_on = Some(Arc::new(HandedOn { place, error }));
        self.rest.push_back(Portion { items: portion.items, handed_on });
    }
}

impl Seat {
    /// Nanoseconds until it is free; what is late is expected to take as long again.
    fn ready(&self, now: f64) -> f64 {
        self.running.map_or(0.0, |(began, end)| if now < end { end - now } else { now - began })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn price(fixed: f64, item: f64) -> Price {
        Price { fixed, item }
    }

    #[test]
    fn shares_are_as_the_speeds() {
        let speeds = [price(0.0, 4.0), price(0.0, 2.0), price(0.0, 1.0)];
        assert_eq!(share_out(&speeds, 700), [100, 200, 400]);
        assert_eq!(share_out(&speeds, 0), [0, 0, 0]);
        assert_eq!(share_out(&speeds, 1), [0, 0, 1]);
        assert_eq!(share_out(&[], 5), Vec::<usize>::new());
        assert_eq!(share_out(&[price(0.0, 1.0); 3], 8).iter().sum::<usize>(), 8);
    }

    #[test]
    fn who_begins_too_late_gets_nothing() {
        // 100 items end after 100; the second would begin at 120.
        assert_eq!(share_out(&[price(0.0, 1.0), price(120.0, 0.1)], 100), [100, 0]);
        // Beginning at 20 it does the most.
        assert_eq!(share_out(&[price(0.0, 1.0), price(20.0, 0.1)], 100), [27, 73]);
    }

    #[test]
    fn prices_come_from_two_times() {
        assert_eq!(Price::between(11.0, 1010.0, 1000), price(10.0, 1.0));
        // Noise: many took less than one.
        assert_eq!(Price::between(100.0, 50.0, 10), price(95.0, 5.0));
        assert_eq!(Price::between(0.0, 0.0, 1).item, CHEAPEST);
    }

    /// Plays places of these real prices to the end; returns what each did and when the last one ended.
    fn play(items: usize, offers: &[Offer], real: &[Price], dies: Option<(usize, f64)>) -> (Vec<usize>, f64) {
        let mut pool = Pool::new(items, offers);
        let mut done = vec![0; real.len()];
        let mut running: Vec<Option<(f64, f64, Portion)>> = vec![None; real.len()];
        let (mut now, mut seen) = (0.0, vec![false; items]);
        loop {
            let mut waiting = false;
            for place in 0..real.len() {
                if running[place].is_some() {
                    continue;
                }
                match pool.take(place, now) {
                    Take::Items(p) => running[place] = Some((now, now + real[place].of(p.items.len()), p)),
                    Take::Wait => waiting = true,
                    Take::Nothing => {}
                }
            }
            let next = running.iter().flatten().map(|r| r.1).fold(f64::INFINITY, f64::min);
            if !next.is_finite() {
                assert!(!waiting, "everybody waits");
                return (done, now);
            }
            now = next;
            for place in 0..real.len() {
                let Some((began, end, portion)) = running[place].take_if(|r| r.1 <= now) else { continue };
                if dies.is_some_and(|(who, when)| who == place && end > when) {
                    pool.failed(place, portion, SiteError::NoMemory(gpuforge_runtime::units::Bytes::ZERO));
                    continue;
                }
                for i in portion.items.clone() {
                    assert!(!std::mem::replace(&mut seen[i], true), "{i} was done twice");
                }
                done[place] += portion.items.len();
                pool.done(place, portion.items.len(), end - began, true);
            }
        }
    }

    fn offers(prices: &[Option<Price>]) -> Vec<Offer> {
        let offer =
            |(place, price): (usize, &Option<Price>)| Offer { place, price: *price, most: usize::MAX };
        prices.iter().enumerate().map(offer).collect()
    }

    #[test]
    fn whatever_is_predicted_all_end_nearly_together() {
        let real = [price(10.0, 4.0), price(10.0, 2.0), price(10.0, 1.0)];
        let ideal = 10_000.0 / (0.25 + 0.5 + 1.0);
        let wrong = [price(10.0, 1.0), price(10.0, 1.0), price(10.0, 10.0)];
        for predicted in [real.map(Some), wrong.map(Some), [None; 3], [Some(real[0]), None, None]] {
            let (done, end) = play(10_000, &offers(&predicted), &real, None);
            assert_eq!(done.iter().sum::<usize>(), 10_000);
            let most = if predicted == real.map(Some) { 1.05 } else { 1.35 };
            assert!(end < ideal * most, "{predicted:?}: {end} beside {ideal}, {done:?}");
        }
    }

    #[test]
    fn a_far_slower_place_does_not_hold_up_the_end() {
        let real = [price(0.0, 1000.0), price(50.0, 1.0)];
        let (done, end) = play(1_000, &offers(&real.map(Some)), &real, None);
        assert!(done[0] <= 2 && end < 1_300.0, "{done:?} {end}");
    }

    #[test]
    fn who_is_known_to_be_slow_lets_the_unknown_try_first() {
        let real = [price(0.0, 4e9), price(0.0, 1e6)];
        let (done, end) = play(500, &offers(&[Some(real[0]), None]), &real, None);
        assert!(done[0] == 0 && end < 501e6, "{done:?} {end}");
        // Unless nobody else is left.
        let (done, _) = play(5, &offers(&[Some(real[0]), None]), &real, Some((1, 0.0)));
        assert_eq!(done, [5, 0]);
    }

    #[test]
    fn what_a_failing_place_had_is_done_by_the_others() {
        let real = [price(0.0, 2.0), price(0.0, 1.0)];
        let (done, _) = play(3_000, &offers(&real.map(Some)), &real, Some((1, 700.0)));
        assert_eq!(done.iter().sum::<usize>(), 3_000);
        assert!(done[0] > done[1] && done[1] > 0, "{done:?}");
        let mut alone = Pool::new(5, &offers(&[Some(real[0])]));
        let Take::Items(portion) = alone.take(0, 0.0) else { panic!("nothing to take") };
        alone.failed(0, portion, SiteError::NoMemory(gpuforge_runtime::units::Bytes::ZERO));
        assert!(matches!(alone.take(0, 1.0), Take::Nothing));
        assert_eq!(alone.into_rest().iter().map(|p| p.items.len()).sum::<usize>(), 5);
    }
}
