//! Random histories of every algorithm: the invariants of the trait, and models that keep every admission.

use super::*;
use crate::algorithm::calendar::Frame;
use proptest::prelude::*;

/// What a history did at one step.
#[derive(Clone, Copy, Debug)]
struct Step {
    /// How far the clock moves first, in thousandths of the window, and some single milliseconds.
    advance: (i64, i64),
    cost: CostOf,
}

#[derive(Clone, Copy, Debug)]
enum CostOf {
    /// Units.
    Units(Units),
    /// Thousandths of the quota.
    Share(i64),
}

#[derive(Clone, Debug)]
struct History {
    count: Units,
    /// Thousandths of the count, for buckets.
    capacity: i64,
    window: Window,
    max_wait: Option<Millis>,
    start: i64,
    steps: Vec<Step>,
}

impl History {
    fn counter(&self, algorithm: &'static dyn Algorithm) -> Counter {
        let count =
            if algorithm.name() == "sliding_window_log" { self.count.min(MAX_LOG_COUNT * UNIT) } else { self.count };
        let mut quota = quota(count, self.window);
        if algorithm.name().ends_with("bucket") {
            quota.capacity = exact::mul_div_ceil(count, self.capacity, 1000).clamp(UNIT, MAX_COUNT * UNIT);
        }
        if algorithm.name() == "leaky_bucket" {
            quota.max_wait = self.max_wait;
        }
        Counter::of(algorithm, quota)
    }

    /// Every step's instant and cost.
    fn steps(&self, counter: &Counter) -> Vec<(i64, Units)> {
        let window = self.window.nominal().0;
        let mut now = self.start;
        let mut at_step = |step: &Step| {
            now += exact::mul_div_floor(step.advance.0, window, 1000) + step.advance.1;
            let cost = match step.cost {
                CostOf::Units(units) => units,
                CostOf::Share(share) => exact::mul_div_floor(counter.quota.capacity, share, 1000),
            };
            (now, cost)
        };
        self.steps.iter().map(&mut at_step).collect()
    }
}

fn windows() -> impl Strategy<Value = Window> {
    prop_oneof![
        (1..=10i64).prop_map(|span| Window::Span(Millis(span))),
        (100..=100_000i64).prop_map(|span| Window::Span(Millis(span))),
        Just(Window::Span(Millis(86_400_000))),
        Just(Window::Month),
        Just(Window::Year),
    ]
}

fn counts() -> impl Strategy<Value = Units> {
    prop_oneof![
        4 => (1..=20i64).prop_map(|count| count * UNIT),
        1 => 1000..=20_000i64,
        1 => (1..=MAX_COUNT).prop_map(|count| count * UNIT),
        1 => Just(MAX_COUNT * UNIT),
    ]
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance = (prop_oneof![3 => Just(0i64), 3 => 0..=200i64, 1 => 0..=2500i64], 0..=2i64);
    let cost = prop_oneof![
        4 => Just(CostOf::Units(UNIT)),
        2 => (0..=3 * UNIT).prop_map(CostOf::Units),
        3 => (0..=1100i64).prop_map(CostOf::Share),
    ];
    prop::collection::vec((advance, cost).prop_map(|(advance, cost)| Step { advance, cost }), 1..40)
}

fn histories() -> impl Strategy<Value = History> {
    let max_wait = prop_oneof![2 => Just(None), 1 => (0..=5000i64).prop_map(|wait| Some(Millis(wait)))];
    let start = prop_oneof![Just(0i64), -2_000_000_000_000..=2_000_000_000_000i64];
    (counts(), prop_oneof![Just(1000i64), 1..=3000i64], windows(), max_wait, start, steps()).prop_map(
        |(count, capacity, window, max_wait, start, steps)| History { count, capacity, window, max_wait, start, steps },
    )
}

/// Costs around the edge of what fits.
fn probes(counter: &Counter, now: i64) -> Vec<Units> {
    let (remaining, capacity) = (counter.remaining(now), counter.quota.capacity);
    let all = [1, UNIT, remaining, remaining + 1, capacity / 2, capacity];
    all.into_iter().filter(|cost| (1..=capacity).contains(cost)).collect()
}

fn check_waits(counter: &Counter, now: i64) -> Result<(), TestCaseError> {
    let remaining = counter.remaining(now);
    prop_assert!((0..=counter.quota.capacity).contains(&remaining));
    prop_assert!(counter.fits(now, 0), "a cost of nothing always fits");
    prop_assert_eq!(counter.wait(now, counter.quota.capacity + 1), Wait::Never);
    if remaining < UNIT {
        prop_assert!(counter.reset(now) > 0, "a reset of nothing while nothing is left");
    }
    for cost in probes(counter, now) {
        prop_assert_eq!(remaining >= cost, counter.fits(now, cost), "{} of {}", cost, remaining);
        if let Wait::After(wait) = counter.wait(now, cost)
            && is_known(now + wait.0)
        {
            prop_assert!(counter.fits(now + wait.0, cost), "{} after {:?}", cost, wait);
            prop_assert!(!counter.fits(now + wait.0 - 1, cost), "{} before {:?}", cost, wait);
        }
    }
    Ok(())
}

fn check_fresh(counter: &Counter, now: i64) -> Result<(), TestCaseError> {
    let fresh = counter.fresh_at(now);
    prop_assert!(fresh >= now);
    if is_known(fresh) {
        let blank = Counter { state: State::FRESH, ..counter.clone() };
        for later in [fresh, fresh + 1, fresh + counter.quota.window.nominal().0] {
            prop_assert_eq!(counter.remaining(later), counter.quota.capacity);
            prop_assert_eq!(counter.reset(later), blank.reset(later));
            prop_assert_eq!(counter.delay(later), 0);
        }
    }
    Ok(())
}

fn check_neutral(counter: &Counter, now: i64) -> Result<(), TestCaseError> {
    let mut free = counter.clone();
    free.charge(now, 0);
    prop_assert_eq!(&free.state, &counter.state, "charging nothing changed the state");
    let cost = counter.remaining(now).min(counter.quota.capacity);
    let mut returned = counter.clone();
    returned.charge(now, cost);
    returned.refund(now, now, cost);
    for later in [now, now + 1, counter.fresh_at(now)] {
        prop_assert_eq!(returned.remaining(later), counter.remaining(later));
    }
    prop_assert_eq!(returned.wait(now, counter.quota.capacity), counter.wait(now, counter.quota.capacity));
    Ok(())
}

fn check_step_back(counter: &Counter, now: i64, step: i64) -> Result<(), TestCaseError> {
    let back = now - step;
    prop_assert!(counter.remaining(back) <= counter.remaining(now), "a step back granted something");
    for cost in probes(counter, now) {
        let (before, after) = (counter.wait_ms(now, cost), counter.wait_ms(back, cost));
        prop_assert!(after <= (before + step).min(MAX_SPAN_MS), "blocked for {} instead of {}", after, before);
    }
    Ok(())
}

/// What a model needs to know of one admission.
#[derive(Clone, Copy, Debug)]
struct Admission {
    at: i64,
    cost: Units,
    delay: i64,
}

/// Keeps all admissions and says by the definition what else fits.
fn model_remaining(counter: &Counter, admitted: &[Admission], now: i64) -> Option<Units> {
    let quota = counter.quota;
    let frame = Frame::containing(quota.window, Timestamp(now));
    let sum = |from: i64, to: i64| -> Units {
        admitted.iter().filter(|admission| (from..to).contains(&admission.at)).map(|admission| admission.cost).sum()
    };
    let used = match counter.algorithm.name() {
        "fixed_window" => sum(frame.start.0, frame.end.0),
        "sliding_window_log" => sum(now - quota.window.nominal().0 + 1, now + 1),
        "sliding_window_counter" => {
            let length = frame.previous_length().0;
            let inside = (length - (now - frame.start.0)).max(0);
            let weighed = i128::from(sum(frame.previous.0, frame.start.0)) * i128::from(inside);
            let share = (weighed + i128::from(length) - 1) / i128::from(length);
            i64::try_from(share).expect("a share of a quota") + sum(frame.start.0, frame.end.0)
        }
        "token_bucket" => model_level(counter, admitted, now),
        "leaky_bucket" if quota.max_wait.is_none() => model_level(counter, admitted, now),
        _ => return None,
    };
    Some((quota.capacity - used).max(0))
}

/// The level of a bucket by the closed form: the most that any run of admissions left undrained.
fn model_level(counter: &Counter, admitted: &[Admission], now: i64) -> Units {
    let window = i128::from(counter.quota.window.nominal().0);
    let mut sum = 0i128;
    let mut highest = 0i128;
    for admission in admitted.iter().rev() {
        sum += i128::from(admission.cost) * window;
        highest = highest.max(sum - i128::from(now - admission.at) * i128::from(counter.quota.count));
    }
    i64::try_from((highest + window - 1) / window).expect("a level within the capacity")
}

/// The bound of the definition, over every pair of admissions.
fn check_bound(counter: &Counter, admitted: &[Admission]) -> Result<(), TestCaseError> {
    let quota = counter.quota;
    let (count, window) = (i128::from(quota.count), i128::from(quota.window.nominal().0));
    for (first, earlier) in admitted.iter().enumerate() {
        let mut sum = 0i128;
        for later in &admitted[first..] {
            let before = sum;
            sum += i128::from(later.cost);
            let span = i128::from(later.at - earlier.at);
            match counter.algorithm.name() {
                "sliding_window_log" if span < window => prop_assert!(sum <= count),
                "fixed_window" => {
                    let same = Frame::containing(quota.window, Timestamp(earlier.at)).end.0 > later.at;
                    prop_assert!(!same || sum <= count);
                }
                "token_bucket" => prop_assert!(sum * window <= i128::from(quota.capacity) * window + count * span),
                "leaky_bucket" => {
                    let apart = span + i128::from(later.delay - earlier.delay);
                    // Departures are whole milliseconds, rounded up, so two may differ by just under one.
                    prop_assert!((apart + 1) * count > before * window || before == 0, "{:?} {:?}", earlier, later);
                    prop_assert!(quota.max_wait.is_none_or(|max| later.delay <= max.0));
                }
                _ => {}
            }
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_history_keeps_every_invariant(history in histories(), back in 1..=100_000i64) {
        for algorithm in ALGORITHMS {
            let mut counter = history.counter(*algorithm);
            for (now, cost) in history.steps(&counter) {
                let fits = counter.fits(now, cost);
                prop_assert_eq!(fits, cost == 0 || counter.remaining(now) >= cost);
                check_neutral(&counter, now)?;
                if fits {
                    let before = counter.remaining(now);
                    counter.charge(now, cost);
                    prop_assert!(counter.remaining(now) <= before - cost);
                }
                check_waits(&counter, now)?;
                check_fresh(&counter, now)?;
                check_step_back(&counter, now, back)?;
            }
        }
    }

    #[test]
    fn a_model_that_keeps_every_admission_agrees(history in histories()) {
        for algorithm in ALGORITHMS {
            let mut counter = history.counter(*algorithm);
            let mut admitted: Vec<Admission> = Vec::new();
            for (now, cost) in history.steps(&counter) {
                if let Some(remaining) = model_remaining(&counter, &admitted, now) {
                    prop_assert_eq!(counter.remaining(now), remaining, "{} at {}", algorithm.name(), now);
                }
                let delay = counter.delay(now);
                if cost > 0 && counter.take(now, cost) {
                    admitted.push(Admission { at: now, cost, delay });
                }
            }
            check_bound(&counter, &admitted)?;
        }
    }

    #[test]
    fn a_changed_quota_keeps_what_was_used(history in histories(), counts in prop::collection::vec(counts(), 40)) {
        for algorithm in ALGORITHMS {
            let mut counter = history.counter(*algorithm);
            for ((now, cost), &count) in history.steps(&counter).into_iter().zip(&counts) {
                let charged = counter.take(now, cost) && cost > 0;
                let changed = History { count, ..history.clone() }.counter(*algorithm);
                let left = counter.quota.capacity - counter.remaining(now);
                counter.quota = changed.quota;
                check_waits(&counter, now)?;
                check_fresh(&counter, now)?;
                // What drained of a bucket since its last charge drains at the rate that holds now.
                let settled = charged || !algorithm.name().ends_with("bucket");
                if settled && counter.quota.max_wait.is_none() && left < counter.quota.capacity {
                    let most = counter.quota.capacity - left;
                    prop_assert!(counter.remaining(now) <= most, "{} {:?} {}", algorithm.name(), counter.state, now);
                }
            }
        }
    }

    #[test]
    fn corrections_and_a_clock_that_jumps_keep_every_invariant(
        history in histories(),
        corrections in prop::collection::vec((any::<bool>(), 0..=3000i64, 0..=2000i64, -500..=500i64), 40),
    ) {
        for algorithm in ALGORITHMS {
            let mut counter = history.counter(*algorithm);
            let window = history.window.nominal().0;
            for ((now, cost), &(debt, share, ago, jump)) in history.steps(&counter).into_iter().zip(&corrections) {
                let now = now + jump;
                counter.take(now, cost);
                let at = now - exact::mul_div_floor(ago, window, 1000);
                let amount = exact::mul_div_floor(counter.quota.count, share, 1000);
                let before = counter.remaining(now);
                if debt {
                    counter.debit(now, at, amount);
                    prop_assert!(counter.remaining(now) <= before);
                } else {
                    counter.refund(now, at, amount);
                    prop_assert!(counter.remaining(now) >= before);
                }
                check_waits(&counter, now)?;
                check_fresh(&counter, now)?;
            }
        }
    }

    #[test]
    fn refunds_never_let_more_through_than_the_bound(history in histories(), refunded in prop::collection::vec(0..=2usize, 40)) {
        for algorithm in ALGORITHMS {
            // A place in a queue depends on who stands behind; its own test says what comes back.
            if algorithm.name() == "leaky_bucket" {
                continue;
            }
            let mut counter = history.counter(*algorithm);
            let mut admitted: Vec<Admission> = Vec::new();
            for ((now, cost), &refunds) in history.steps(&counter).into_iter().zip(&refunded) {
                if cost > 0 && counter.take(now, cost) {
                    admitted.push(Admission { at: now, cost, delay: 0 });
                }
                for _ in 0..refunds.min(admitted.len()) {
                    let oldest = admitted.remove(0);
                    counter.refund(now, oldest.at, oldest.cost);
                }
                if let Some(remaining) = model_remaining(&counter, &admitted, now) {
                    let exact = algorithm.name() != "token_bucket";
                    prop_assert!(counter.remaining(now) <= remaining, "{} enriches", algorithm.name());
                    prop_assert!(!exact || counter.remaining(now) == remaining, "{} forgets", algorithm.name());
                }
                check_bound(&counter, &admitted)?;
            }
        }
    }

    #[test]
    fn departures_stay_apart_when_other_limits_hold_requests_longer(
        history in histories(),
        holds in prop::collection::vec(prop_oneof![Just(0i64), 0..=20_000i64], 40),
    ) {
        let mut counter = history.counter(by_name("leaky_bucket").expect("listed"));
        let mut admitted: Vec<Admission> = Vec::new();
        for ((now, cost), &hold) in history.steps(&counter).into_iter().zip(&holds) {
            let delay = counter.delay(now).max(hold);
            if cost > 0 && counter.fits(now, cost) {
                counter.algorithm.charge(&counter.quota, &mut counter.state, Timestamp(now), cost, Millis(delay));
                // What other limits add is not what max_wait is about.
                admitted.push(Admission { at: now + delay, cost, delay: 0 });
            }
            check_waits(&counter, now)?;
            check_fresh(&counter, now)?;
        }
        check_bound(&counter, &admitted)?;
    }

    #[test]
    fn broken_states_and_extreme_inputs_never_panic(
        cells in prop::array::uniform3(prop_oneof![
            any::<i64>(), -4_000_000_000_000..=4_000_000_000_000i64, Just(i64::MIN), Just(i64::MAX), Just(0)
        ]),
        now in prop_oneof![-4_000_000_000_000..=4_000_000_000_000i64, Just(i64::MIN), Just(i64::MAX)],
        at in prop_oneof![-4_000_000_000_000..=4_000_000_000_000i64, Just(i64::MIN), Just(i64::MAX)],
        cost in prop_oneof![0..=2000i64, Just(i64::MAX)],
        delay in prop_oneof![0..=2000i64, Just(i64::MAX)],
        history in histories(),
    ) {
        for algorithm in ALGORITHMS {
            let mut counter = history.counter(*algorithm);
            let log = Log::from_entries(cells.map(|cell| (Timestamp(cell), cell)));
            for state in [State::Cells(cells), State::Log(Box::new(log))] {
                counter.state = state;
                for _ in 0..3 {
                    let remaining = counter.remaining(now);
                    prop_assert!((0..=counter.quota.capacity).contains(&remaining));
                    if is_known(now) {
                        prop_assert!(counter.delay(now) >= 0 && counter.reset(now) >= 0 && counter.fresh_at(now) >= now);
                    }
                    if is_known(now) && (1..=counter.quota.capacity).contains(&cost) {
                        prop_assert_eq!(remaining >= cost, counter.fits(now, cost));
                    }
                    algorithm.charge(&counter.quota, &mut counter.state, Timestamp(now), cost, Millis(delay));
                    counter.debit(now, at, cost);
                    counter.refund(now, at, cost);
                }
            }
        }
    }
}
