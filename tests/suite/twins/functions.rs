//! Function by function: `remaining`, `wait`, `delay`, `reset`, `fresh_at` and the state after each step.

use super::lua::LuaCounter;
use super::*;
use sluicegate::algorithm::calendar::{Frame, days_from_civil};
use sluicegate::algorithm::{ALGORITHMS, Log, State};
use sluicegate::store::redis::script::TWINS;
use sluicegate::time::Timestamp;

/// A counter in both languages.
struct Pair {
    algorithm: &'static dyn Algorithm,
    quota: Quota,
    state: State,
    lua: LuaCounter,
}

#[derive(Clone, Debug)]
enum Act {
    /// If it fits.
    Take,
    /// Also if it does not, held for so long.
    Charge(i64),
    /// As much as the cost, of so many thousandths of a window ago.
    Debit(i64),
    Refund(i64),
    Regrant(Grant),
}

#[derive(Clone, Debug)]
struct Step {
    /// How far the clock moves first: thousandths of the window, and milliseconds.
    advance: (i64, i64),
    cost: (Units, i64),
    act: Act,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let advance = prop_oneof![
        3 => (Just(0i64), 0..=2i64),
        3 => (0..=200i64, 0..=2i64),
        1 => (0..=2500i64, 0..=2i64),
        1 => (-400..=0i64, -500..=0i64),
    ];
    let act = prop_oneof![
        6 => Just(Act::Take),
        1 => prop_oneof![Just(0i64), 0..=20_000i64].prop_map(Act::Charge),
        1 => (-10..=2000i64).prop_map(Act::Debit),
        1 => (-10..=2000i64).prop_map(Act::Refund),
        1 => prop_oneof![Just(0i64), 0..=100i64].prop_map(Act::Refund),
        1 => grants().prop_map(Act::Regrant),
    ];
    prop::collection::vec((advance, costs(), act).prop_map(|(advance, cost, act)| Step { advance, cost, act }), 1..40)
}

/// Instants at which histories begin, edges of months and years among them.
fn starts() -> impl Strategy<Value = i64> {
    let edge = (1900..=2200i64, 1..=12u32).prop_map(|(year, month)| days_from_civil(year, month, 1) * 86_400_000);
    let near = (edge, -2000..=2000i64).prop_map(|(edge, offset)| edge + offset);
    prop_oneof![Just(0i64), -2_000_000_000_000..=4_000_000_000_000i64, near]
}

impl Pair {
    fn all(grant: &Grant) -> Vec<Self> {
        let pair = |algorithm: &&'static dyn Algorithm| Self {
            algorithm: *algorithm,
            quota: grant.quota(*algorithm),
            state: State::FRESH,
            lua: LuaCounter::new(*algorithm),
        };
        ALGORITHMS.iter().map(pair).collect()
    }

    fn check(&self, now: i64, cost: Units) -> Result<(), TestCaseError> {
        let (algorithm, quota, state, at) = (self.algorithm, &self.quota, &self.state, Timestamp(now));
        let name = algorithm.name();
        let remaining = algorithm.remaining(quota, state, at);
        prop_assert_eq!(self.lua.remaining(quota, now), remaining, "{} remaining at {} of {:?}", name, now, state);
        for cost in [cost, 1, UNIT, remaining, remaining + 1, quota.capacity / 2, quota.capacity, quota.capacity + 1, 0]
        {
            let wait = algorithm.wait(quota, state, at, cost);
            prop_assert_eq!(self.lua.wait(quota, now, cost), wait, "{} wait for {} at {}", name, cost, now);
        }
        prop_assert_eq!(self.lua.delay(quota, now), algorithm.delay(quota, state, at).0, "{} delay", name);
        prop_assert_eq!(self.lua.reset(quota, now), algorithm.reset(quota, state, at).0, "{} reset", name);
        prop_assert_eq!(self.lua.fresh_at(quota, now), algorithm.fresh_at(quota, state, at).0, "{} fresh_at", name);
        prop_assert!(self.lua.agrees_with(state), "{}: {:?} is {:?} {:?}", name, state, self.lua.cells, self.lua.log());
        Ok(())
    }

    fn charge(&mut self, now: i64, cost: Units, delay: i64) {
        self.algorithm.charge(&self.quota, &mut self.state, Timestamp(now), cost, Millis(delay));
        self.lua.charge(&self.quota, now, cost, delay);
    }

    fn debit(&mut self, now: i64, at: i64, cost: Units) {
        self.algorithm.debit(&self.quota, &mut self.state, Timestamp(now), Timestamp(at), cost);
        self.lua.correct("debit", &self.quota, now, at, cost);
    }

    fn refund(&mut self, now: i64, at: i64, cost: Units) {
        self.algorithm.refund(&self.quota, &mut self.state, Timestamp(now), Timestamp(at), cost);
        self.lua.correct("refund", &self.quota, now, at, cost);
    }

    fn step(&mut self, now: i64, step: &Step) -> Result<(), TestCaseError> {
        let cost = cost_of(step.cost, &self.quota);
        self.check(now, cost)?;
        let ago =
            |share| now - exact::mul_div_floor(i64::max(share, 0), self.quota.window.nominal().0, 1000) - share.min(0);
        match &step.act {
            Act::Take => {
                if self.algorithm.wait(&self.quota, &self.state, Timestamp(now), cost)
                    == sluicegate::algorithm::Wait::Now
                {
                    let delay = self.lua.delay(&self.quota, now);
                    self.charge(now, cost, delay);
                }
            }
            Act::Charge(hold) => self.charge(now, cost, *hold),
            Act::Debit(share) => self.debit(now, ago(*share), cost),
            Act::Refund(share) => self.refund(now, ago(*share), cost),
            // A counter keeps its window whatever else a reload changes.
            Act::Regrant(grant) => {
                self.quota = Grant { window: self.quota.window, ..grant.clone() }.quota(self.algorithm);
            }
        }
        self.check(now, cost)
    }
}

#[test]
fn every_algorithm_has_a_twin_and_no_twin_is_left_over() {
    let names = ALGORITHMS.iter().map(|algorithm| algorithm.name());
    assert!(names.clone().all(|name| TWINS.iter().any(|twin| twin.name == name)));
    assert_eq!(names.count(), TWINS.len());
}

#[test]
fn the_debts_and_refunds_of_one_instant_agree_at_the_edge_of_each_month() {
    let grant = Grant { count: 5 * UNIT, capacity: 1000, window: Window::Month, max_wait: None };
    for mut pair in Pair::all(&grant) {
        for month in 1..=24u32 {
            let edge = days_from_civil(2023 + i64::from((month - 1) / 12), (month - 1) % 12 + 1, 1) * 86_400_000;
            for now in [edge - 1, edge, edge + 1] {
                pair.charge(now, UNIT, 0);
                pair.check(now, UNIT).expect("both agree");
                pair.debit(now, edge - 1, 2 * UNIT);
                pair.refund(now, edge, UNIT);
                pair.check(now, UNIT).expect("both agree");
            }
        }
    }
}

/// What may stand in a record that something else wrote, as far as both languages can hold it.
fn broken_cells() -> impl Strategy<Value = i64> {
    prop_oneof![
        -4_000_000_000_000..=4_000_000_000_000i64,
        -(1i64 << 53)..=1i64 << 53,
        Just(0i64),
        Just(1i64 << 43),
        Just((1i64 << 43) + 1),
        Just(-(1i64 << 43) - 1),
        Just(1i64 << 52),
        Just(-1i64),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn histories_agree_step_by_step(grant in grants(), start in starts(), steps in steps()) {
        for mut pair in Pair::all(&grant) {
            let mut now = start;
            for step in &steps {
                let window = pair.quota.window.nominal().0;
                now += exact::mul_div_floor(step.advance.0.abs(), window, 1000) * step.advance.0.signum() + step.advance.1;
                pair.step(now, step)?;
            }
        }
    }

    #[test]
    fn states_that_cannot_be_agree_too(
        grant in grants(),
        cells in prop::array::uniform3(broken_cells()),
        now in prop_oneof![-4_000_000_000_000..=4_000_000_000_000i64, Just(-(1i64 << 43)), Just(1i64 << 43)],
        at in broken_cells(),
        steps in steps(),
    ) {
        for mut pair in Pair::all(&grant).into_iter().filter(|pair| !pair.lua.is_log) {
            for step in &steps[..steps.len().min(5)] {
                for act in ["charge", "debit", "refund"] {
                    let cost = cost_of(step.cost, &pair.quota);
                    pair.state = State::Cells(cells);
                    pair.lua.cells = cells.map(|cell| cell as f64);
                    pair.check(now, cost)?;
                    match act {
                        "charge" => pair.charge(now, cost, step.advance.0.abs()),
                        "debit" => pair.debit(now, at, cost),
                        _ => pair.refund(now, at, cost),
                    }
                    pair.check(now, cost)?;
                }
            }
        }
    }

    #[test]
    fn numbers_that_no_integer_is_never_raise_an_error(
        grant in grants(),
        cells in prop::array::uniform3(any::<u64>().prop_map(f64::from_bits)),
        now in -4_000_000_000_000..=4_000_000_000_000i64,
        entries in prop::collection::vec((any::<i32>(), prop::collection::vec(any::<u8>(), 0..20)), 1..5),
    ) {
        for mut pair in Pair::all(&grant) {
            let entries: Vec<_> = entries.iter().map(|(at, member)| (f64::from(*at), member.clone())).collect();
            pair.lua.put_log(entries);
            pair.lua.cells = cells;
            let quota = pair.quota;
            pair.lua.correct("debit", &quota, now, now, UNIT);
            pair.lua.cells = cells;
            pair.lua.correct("refund", &quota, now, now, UNIT);
            pair.lua.cells = cells;
            pair.lua.charge(&quota, now, UNIT, 0);
        }
    }

    #[test]
    fn logs_that_went_around_the_modulus_agree(steps in steps(), back in 0..=20_000i64) {
        let grant = Grant { count: 10 * UNIT, capacity: 1000, window: Window::Span(Millis(10_000)), max_wait: None };
        for mut pair in Pair::all(&grant).into_iter().filter(|pair| pair.lua.is_log) {
            let mut now = 1_800_000_000_000;
            let sum = (1i64 << 52) - 1 - back;
            let member = [(sum as f64).to_le_bytes(), (UNIT as f64).to_le_bytes()].concat();
            pair.lua.put_log(vec![(now as f64, member)]);
            pair.state = State::Log(Box::new(Log::from_entries([(Timestamp(now), UNIT)])));
            for step in &steps {
                now += step.advance.0 * 10 + step.advance.1;
                pair.step(now, step)?;
            }
        }
    }

    #[test]
    fn windows_begin_and_end_at_the_same_instants(start in starts(), window in windows()) {
        let lua = mlua::Lua::new();
        let text = format!("{}\nreturn frame", TWINS[0].files[0]);
        let frame: mlua::Function = lua.load(text).eval().expect("the shipped file is Lua");
        let length = match window {
            Window::Span(span) => span.0,
            Window::Month => -1,
            Window::Year => -2,
        };
        let edges: (f64, f64, f64) = frame.call((length as f64, start as f64)).expect("two numbers");
        let expected = Frame::containing(window, Timestamp(start));
        prop_assert_eq!(edges, (expected.previous.0 as f64, expected.start.0 as f64, expected.end.0 as f64));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20_000))]

    #[test]
    fn quotients_are_exact(a in 0..=1i64 << 53, b in 0..=1i64 << 44, shift in 0..44u32, c in 0..=1i64 << 35, divisor in 1..=1_000_000_000_000_000i64, small in any::<bool>()) {
        thread_local! {
            static MUL_DIV: (mlua::Lua, mlua::Function) = {
                let lua = mlua::Lua::new();
                let exact = TWINS.iter().find(|twin| twin.name == "token_bucket").expect("listed").files[0];
                let function = lua.load(format!("{exact}\nreturn mul_div")).eval().expect("the shipped file is Lua");
                (lua, function)
            };
        }
        let (b, divisor) = (b >> shift, if small { 1 + divisor % 1_000_000 } else { divisor });
        let (quotient, remainder): (f64, f64) =
            MUL_DIV.with(|(_, mul_div)| mul_div.call((a as f64, b as f64, c as f64, divisor as f64))).expect("numbers");
        let product = i128::from(a) * i128::from(b) + i128::from(c);
        let expected = product / i128::from(divisor);
        if expected < 1 << 53 {
            prop_assert_eq!((quotient as i128, remainder as i128), (expected, product % i128::from(divisor)));
        } else {
            prop_assert!(quotient >= 9_007_199_254_740_992.0);
        }
    }
}
