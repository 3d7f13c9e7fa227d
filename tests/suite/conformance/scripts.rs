//! What every store has to answer alike, for every algorithm: short histories with what is expected of them. What they
//! do not say themselves is compared with the store in memory.
//!
//! Windows are an hour and more and nothing is charged in the last minute of a counter's life: Redis lets a key go when its
//! counters matter no more, by real time, and a busy machine is slow.

use super::scene::{HOUR, MINUTE, Per, SECOND, START, Scene, one, peek, shadow, take};
use sluicegate::algorithm::calendar::days_from_civil;
use sluicegate::algorithm::{ALGORITHMS, Quota, UNIT, Wait, Window};
use sluicegate::time::Millis;

pub type Script = fn(&mut Scene<'_>);

macro_rules! scripts {
    ($($name:ident),* $(,)?) => {
        /// Every script and its name.
        pub const SCRIPTS: &[(&str, Script)] = &[$((stringify!($name), $name)),*];
    };
}

scripts![
    a_quota_is_admitted_and_no_more,
    costs_are_weighed_to_the_thousandth,
    a_wait_is_honest_to_the_millisecond,
    refusals_cost_nothing_and_delay_nobody,
    limits_of_one_caller_are_charged_all_or_none,
    limits_of_several_subjects_are_charged_all_or_none,
    a_shadow_limit_refuses_nobody,
    a_counter_named_twice_has_to_hold_both,
    callers_do_not_share,
    a_give_back_is_what_was_taken_and_no_more,
    a_debt_is_worked_off,
    a_changed_quota_keeps_what_was_used,
    a_reset_is_of_the_counters_asked_for,
    nothing_costs_nothing,
    bursts_are_above_or_below_the_count,
    windows_begin_and_end_where_they_should,
    months_and_years_do_too,
    a_counter_drains_alike_at_every_instant,
    a_clock_that_steps_back_grants_nothing,
    twenty_limits_of_one_caller_are_one_decision,
    all_algorithms_meet_in_one_decision,
    a_longest_wait_is_kept,
    a_cost_that_never_fits_takes_nothing,
];

/// What stands in for Redis differs on purpose where a cost is above its share: see
/// [`the_stand_in_gives_all_it_has_for_a_cost_above_its_share`].
pub const NOT_OF_THE_STAND_IN: &[&str] = &["a_cost_that_never_fits_takes_nothing"];

fn a_quota_is_admitted_and_no_more(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Caller, 5);
    for left in (0..5).rev() {
        assert_eq!(scene.admitted(&[one(&limit)]).readings[0].remaining, left * UNIT);
    }
    for _ in 0..3 {
        assert_eq!(scene.decide(&[one(&limit)]).readings[0].remaining, 0);
        scene.refused(&[one(&limit)]);
    }
}

fn costs_are_weighed_to_the_thousandth(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Tenant, 5);
    for (cost, fits) in [(2500, true), (1500, true), (2000, false), (1001, false), (1000, true), (1, false)] {
        assert_eq!(scene.decide(&[take(&limit, cost)]).admitted, fits, "{cost}");
    }
    assert_eq!(scene.remaining(&limit), 0);
}

fn a_wait_is_honest_to_the_millisecond(scene: &mut Scene<'_>) {
    for cost in [1, 2, 5] {
        let limit = scene.limit(&format!("cost-{cost}"), Per::Caller, 5);
        for _ in 0..3 {
            scene.admitted(&[one(&limit)]);
            scene.pass(3 * MINUTE);
        }
        scene.fill(&limit);
        // Several times: the wait after a wait is honest too.
        for _ in 0..4 {
            let wait = scene.refused_for(&[take(&limit, cost * UNIT)]);
            scene.pass(wait - 1);
            assert_eq!(scene.refused_for(&[take(&limit, cost * UNIT)]), 1);
            scene.pass(1);
            scene.admitted(&[take(&limit, cost * UNIT)]);
            scene.fill(&limit);
        }
        scene.now = START + cost * 24 * HOUR;
    }
}

fn refusals_cost_nothing_and_delay_nobody(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Caller, 3);
    let (_, wait) = scene.fill(&limit);
    for passed in 1..=20 {
        scene.pass(2 * SECOND);
        assert_eq!(scene.refused_for(&[one(&limit)]), wait - passed * 2 * SECOND);
    }
    scene.pass(wait - 40 * SECOND);
    scene.admitted(&[one(&limit)]);
}

fn limits_of_one_caller_are_charged_all_or_none(scene: &mut Scene<'_>) {
    let limits = [("wide", Per::Caller, 10), ("narrow", Per::Caller, 2), ("route", Per::CallerAndRoute, 6)];
    let [wide, narrow, route] = limits.map(|(name, per, count)| scene.limit(name, per, count));
    let all = [one(&wide), one(&narrow), one(&route)];
    scene.admitted(&all);
    scene.admitted(&all);
    let before = [&wide, &route].map(|limit| scene.remaining(limit));
    for _ in 0..5 {
        let outcome = scene.decide(&all);
        assert!(!outcome.admitted && matches!(outcome.readings[1].wait, Wait::After(_)));
        assert_eq!([outcome.readings[0].remaining, outcome.readings[2].remaining], before);
    }
    assert_eq!([&wide, &route].map(|limit| scene.remaining(limit)), before, "a refusal took something");
    scene.admitted(&[one(&wide), one(&route)]);
}

/// The rates are equal where rate and capacity differ, so that no bucket holds a request longer than another one does.
fn limits_of_several_subjects_are_charged_all_or_none(scene: &mut Scene<'_>) {
    let limits =
        [("caller", Per::Caller, 5), ("tenant", Per::Tenant, 4), ("all", Per::Global, 2), ("route", Per::Route, 3)];
    let limits = limits.map(|(name, per, capacity)| scene.sized(name, per, 5, capacity));
    let all = [0, 1, 2, 3].map(|index| one(&limits[index]));
    for round in 1..=2 {
        let outcome = scene.admitted(&all);
        let left: Vec<i64> = outcome.readings.iter().map(|reading| reading.remaining / UNIT).collect();
        assert_eq!(left, [5 - round, 4 - round, 2 - round, 3 - round]);
    }
    for _ in 0..3 {
        let outcome = scene.decide(&all);
        let left: Vec<i64> = outcome.readings.iter().map(|reading| reading.remaining / UNIT).collect();
        assert_eq!((outcome.admitted, left), (false, vec![3, 2, 0, 1]));
        scene.pass(5 * SECOND);
    }
    // A refusal across slots is taken and given back, so this is not done in the last minute either.
    let wait = scene.refused_for(&all);
    scene.pass(wait - MINUTE);
    assert_eq!(scene.refused_for(&all), MINUTE);
    scene.pass(MINUTE);
    scene.admitted(&all);
}

fn a_shadow_limit_refuses_nobody(scene: &mut Scene<'_>) {
    let (earnest, trial) = (scene.limit("earnest", Per::Caller, 4), scene.limit("trial", Per::Caller, 2));
    for _ in 0..4 {
        scene.admitted(&[one(&earnest), shadow(&trial, UNIT)]);
    }
    scene.refused(&[one(&earnest), shadow(&trial, UNIT)]);
    assert_eq!([scene.remaining(&earnest), scene.remaining(&trial)], [0, 0], "no shadow limit goes into debt");
}

fn a_counter_named_twice_has_to_hold_both(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Caller, 3);
    scene.refused(&[take(&limit, 2 * UNIT), take(&limit, 2 * UNIT)]);
    scene.admitted(&[one(&limit), peek(&limit), take(&limit, 2 * UNIT)]);
    scene.refused(&[one(&limit)]);
}

fn callers_do_not_share(scene: &mut Scene<'_>) {
    let limits = [Per::Caller, Per::OtherCaller, Per::CallerAndRoute, Per::Tenant, Per::Route, Per::Global];
    let limits = limits.map(|per| scene.limit("l", per, 2));
    for limit in &limits {
        assert_eq!(scene.remaining(limit), 2 * UNIT, "{limit:?}");
        scene.admitted(&[one(limit)]);
    }
    assert!(limits.iter().all(|limit| scene.remaining(limit) == UNIT));
}

fn a_give_back_is_what_was_taken_and_no_more(scene: &mut Scene<'_>) {
    let (limit, other) = (scene.limit("l", Per::Caller, 6), scene.limit("other", Per::Caller, 6));
    let never_charged = scene.limit("never", Per::Caller, 6);
    scene.admitted(&[take(&limit, 3 * UNIT), one(&other)]);
    let at = scene.now;
    scene.settle(&limit, at, -UNIT);
    assert_eq!([scene.remaining(&limit), scene.remaining(&other)], [4 * UNIT, 5 * UNIT]);
    scene.settle(&never_charged, at, -UNIT);
    assert_eq!(scene.remaining(&never_charged), 6 * UNIT);
    scene.pass(MINUTE);
    scene.admitted(&[one(&limit)]);
    for (instant, delta) in [(at, -UNIT), (at + SECOND, -UNIT), (at + MINUTE, -500), (at, -20 * UNIT)] {
        scene.settle(&limit, instant, delta);
        assert!(scene.remaining(&limit) <= 6 * UNIT);
    }
    scene.pass(HOUR);
    scene.settle(&limit, at, -UNIT);
    assert_eq!(scene.remaining(&limit), 6 * UNIT);
    scene.fill(&limit);
}

fn a_debt_is_worked_off(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Tenant, 4);
    let at = scene.now;
    scene.admitted(&[one(&limit)]);
    scene.pass(SECOND);
    scene.settle(&limit, at, 1500);
    let left = scene.remaining(&limit);
    assert!((1500..=1510).contains(&left), "{left}");
    // At most one quota deep, however much it was.
    scene.settle(&limit, at, 1_000_000 * UNIT);
    assert_eq!(scene.remaining(&limit), 0);
    let wait = scene.refused_for(&[one(&limit)]);
    assert!(wait <= 3 * HOUR, "{wait}");
    scene.pass(wait - 1);
    scene.refused(&[one(&limit)]);
    scene.pass(1);
    scene.admitted(&[one(&limit)]);
}

fn a_changed_quota_keeps_what_was_used(scene: &mut Scene<'_>) {
    let mut limit = scene.limit("l", Per::Caller, 5);
    scene.admitted(&[take(&limit, 3 * UNIT)]);
    for (count, left) in [(8, 5), (5, 2), (2, 0), (3, 0), (4, 1)] {
        scene.regrant(&mut limit, scene.quota(count, count));
        assert_eq!(scene.remaining(&limit), left * UNIT, "{count}");
    }
    scene.regrant(&mut limit, scene.quota(2, 2));
    let wait = scene.refused_for(&[one(&limit)]);
    scene.pass(wait - 1);
    scene.refused(&[one(&limit)]);
    scene.pass(1);
    scene.admitted(&[one(&limit)]);
    scene.regrant(&mut limit, scene.quota(20, 20));
    scene.fill(&limit);
}

fn a_reset_is_of_the_counters_asked_for(scene: &mut Scene<'_>) {
    let limits =
        [("a", Per::Caller), ("b", Per::Caller), ("c", Per::Caller), ("d", Per::CallerAndRoute), ("e", Per::Global)];
    let limits = limits.map(|(name, per)| scene.limit(name, per, 5));
    let never = scene.limit("never", Per::Caller, 5);
    let left = |scene: &mut Scene<'_>| [0, 1, 2, 3, 4].map(|index| scene.remaining(&limits[index]) / UNIT);
    for limit in &limits {
        scene.admitted(&[take(limit, 2 * UNIT)]);
    }
    scene.forget(&[&limits[1]], &[true]);
    assert_eq!(left(scene), [3, 5, 3, 3, 3]);
    scene.forget(&[&limits[1], &never], &[false, false]);
    scene.forget(&[&limits[3], &limits[0], &limits[4], &limits[0]], &[true, true, true, false]);
    assert_eq!(left(scene), [5, 5, 3, 5, 5]);
    // What was refused a moment ago is admitted at once.
    scene.fill(&limits[2]);
    scene.forget(&[&limits[2]], &[true]);
    assert_eq!(scene.fill(&limits[2]).0, 5);
    assert_eq!(left(scene), [5, 5, 0, 5, 5]);
}

fn nothing_costs_nothing(scene: &mut Scene<'_>) {
    let (limit, other) = (scene.limit("l", Per::Caller, 2), scene.limit("other", Per::Global, 2));
    scene.admitted(&[peek(&limit), peek(&other)]);
    scene.forget(&[&limit, &other], &[false, false]);
    scene.fill(&limit);
    for _ in 0..3 {
        let outcome = scene.admitted(&[peek(&limit), peek(&other)]);
        assert!(outcome.readings[0].remaining < UNIT && outcome.readings[0].wait == Wait::Now);
        scene.pass(2 * SECOND);
    }
}

fn bursts_are_above_or_below_the_count(scene: &mut Scene<'_>) {
    for (count, capacity) in [(6, 2), (2, 6), (1, 1), (5, 5)] {
        let limit = scene.sized(&format!("burst-{count}-{capacity}"), Per::Caller, count, capacity);
        assert_eq!(scene.fill(&limit).0, usize::try_from(capacity).expect("a few"));
        for _ in 0..capacity + 2 {
            let wait = scene.refused_for(&[one(&limit)]);
            scene.pass(wait - 1);
            scene.refused(&[one(&limit)]);
            scene.pass(1);
            scene.admitted(&[one(&limit)]);
            scene.fill(&limit);
        }
    }
}

fn windows_begin_and_end_where_they_should(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Caller, 5);
    for hour in 0..6 {
        let edge = START + 30 * MINUTE + hour * HOUR;
        for before in [20 * MINUTE, 5 * MINUTE] {
            scene.now = edge - before;
            scene.decide(&[take(&limit, 2 * UNIT)]);
        }
        for around in [-1, 0, 1, 2 * SECOND] {
            scene.now = edge + around;
            scene.decide(&[peek(&limit)]);
        }
        // The next instant with something left after the edge, and what is taken right there.
        scene.decide(&[take(&limit, 3 * UNIT)]);
        scene.pass(10 * MINUTE);
        scene.decide(&[take(&limit, 4 * UNIT)]);
    }
}

fn months_and_years_do_too(scene: &mut Scene<'_>) {
    let window = |window| Quota { count: 5 * UNIT, window, capacity: 5 * UNIT, max_wait: None };
    let month = scene.windowed("month", Per::Caller, window(Window::Month));
    let year = scene.windowed("year", Per::Caller, window(Window::Year));
    // 2092 has a leap day.
    for months in 11..27u32 {
        let edge = days_from_civil(2091 + i64::from(months / 12), months % 12 + 1, 1) * 24 * HOUR;
        scene.now = edge - 2 * HOUR;
        scene.decide(&[take(&month, 2 * UNIT), take(&year, 300)]);
        for around in [-1, 0, 1] {
            scene.now = edge + around;
            scene.decide(&[peek(&month), peek(&year)]);
        }
        scene.decide(&[one(&month), take(&year, 100)]);
        scene.pass(HOUR);
        // Never charged to a later window than its request's.
        scene.settle(&month, edge - 2 * HOUR, UNIT);
        scene.settle(&year, edge, -50);
        scene.decide(&[take(&month, 4 * UNIT), peek(&year)]);
    }
}

fn a_counter_drains_alike_at_every_instant(scene: &mut Scene<'_>) {
    let limit = scene.sized("l", Per::Caller, 7, 9);
    for step in 0..80 {
        scene.decide(&[take(&limit, 700 + step)]);
        scene.decide(&[peek(&limit)]);
        scene.pass(61_001 + 7919 * step);
    }
}

fn a_clock_that_steps_back_grants_nothing(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Caller, 5);
    scene.admitted(&[take(&limit, 2 * UNIT)]);
    for back in [SECOND, 10 * MINUTE, 2 * HOUR, 30 * HOUR] {
        scene.pass(-back);
        assert!(scene.remaining(&limit) <= 3 * UNIT, "{back}");
        scene.decide(&[take(&limit, 100)]);
    }
    scene.now = START;
    scene.fill(&limit);
    scene.pass(-HOUR);
    scene.refused(&[one(&limit)]);
}

fn twenty_limits_of_one_caller_are_one_decision(scene: &mut Scene<'_>) {
    let per = |index| if index % 3 == 0 { Per::CallerAndRoute } else { Per::Caller };
    let limits: Vec<_> = (0..20).map(|index| scene.limit(&format!("l{index}"), per(index), 20 - index)).collect();
    let all: Vec<_> = limits.iter().map(one).collect();
    for _ in 0..3 {
        scene.decide(&all);
        scene.pass(2 * SECOND);
    }
    scene.admitted(&all[..10]);
    let few: Vec<_> = limits.iter().skip(5).step_by(4).collect();
    scene.forget(&few, &[true; 4]);
    scene.decide(&all);
}

fn all_algorithms_meet_in_one_decision(scene: &mut Scene<'_>) {
    // The scene's own is the narrowest.
    let limit = |scene: &Scene<'_>, (index, algorithm): (usize, &&'static dyn sluicegate::algorithm::Algorithm)| {
        let count = if algorithm.name() == scene.algorithm.name() { 3 } else { 5 + index as i64 };
        let quota =
            Quota { count: count * UNIT, window: Window::Span(Millis(HOUR)), capacity: count * UNIT, max_wait: None };
        scene.of_algorithm(algorithm.name(), Per::Caller, *algorithm, quota)
    };
    let limits: Vec<_> = ALGORITHMS.iter().enumerate().map(|each| limit(scene, each)).collect();
    let all: Vec<_> = limits.iter().map(one).collect();
    for _ in 0..3 {
        scene.admitted(&all);
    }
    let wait = scene.refused_for(&all);
    let left: Vec<i64> = limits.iter().map(|limit| scene.remaining(limit)).collect();
    scene.pass(wait - 1);
    scene.refused(&all);
    scene.pass(1);
    scene.admitted(&all);
    assert_eq!(left.len(), ALGORITHMS.len());
    scene.forget(&limits.iter().collect::<Vec<_>>(), &vec![true; limits.len()]);
    scene.admitted(&all);
}

/// Of algorithms that hold requests; the others have none.
fn a_longest_wait_is_kept(scene: &mut Scene<'_>) {
    let quota = Quota { max_wait: Some(Millis(25 * MINUTE)), ..scene.quota(6, 6) };
    if scene.algorithm.check(&quota).is_err() {
        return;
    }
    let (limit, other) = (scene.windowed("l", Per::Caller, quota), scene.limit("other", Per::Global, 6));
    for _ in 0..2 {
        scene.admitted(&[one(&limit), one(&other)]);
    }
    scene.admitted(&[one(&limit)]);
    let wait = scene.refused_for(&[one(&limit), one(&other)]);
    scene.pass(wait - 1);
    scene.refused(&[one(&limit), one(&other)]);
    scene.pass(1);
    scene.admitted(&[one(&limit)]);
}

fn a_cost_that_never_fits_takes_nothing(scene: &mut Scene<'_>) {
    let (limit, other) = (scene.limit("l", Per::Caller, 5), scene.limit("other", Per::Tenant, 50));
    for _ in 0..3 {
        assert_eq!(scene.refused(&[take(&limit, 5 * UNIT + 1), one(&other)]), Wait::Never);
        assert_eq!([scene.remaining(&limit), scene.remaining(&other)], [5 * UNIT, 50 * UNIT]);
        scene.pass(2 * HOUR);
    }
    scene.fill(&limit);
    assert_eq!(scene.refused(&[take(&limit, 5 * UNIT + 1)]), Wait::Never);
    scene.forget(&[&limit, &other], &[true, false]);
}

/// Where the share is smaller than a cost, whoever is first in a window passes.
pub fn the_stand_in_gives_all_it_has_for_a_cost_above_its_share(scene: &mut Scene<'_>) {
    let limit = scene.limit("l", Per::Caller, 5);
    assert_eq!(scene.admitted(&[take(&limit, 7 * UNIT)]).readings[0].remaining, 0);
    let wait = scene.refused_for(&[take(&limit, 7 * UNIT)]);
    assert_eq!(scene.refused_for(&[take(&limit, 5 * UNIT)]), wait);
    // What is given back is no more than was taken.
    scene.settle(&limit, START, -7 * UNIT);
    assert_eq!(scene.remaining(&limit), 5 * UNIT);
}
