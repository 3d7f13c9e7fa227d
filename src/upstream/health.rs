//! How one server is: what checks say of it, and what became of the requests it got.
//!
//! Two voices. **Checks** decide alone whether a server is down: so many bad ones in a row, so many good ones in a row. A
//! server that was never checked is taken for good. **Requests** cannot take a server down; those that fail in a row have
//! it passed over for a while, as long as others are there, then one request tries it again. A good check is newer and
//! better knowledge than the failures before it, and ends that.

use crate::time::{Millis, Timestamp};

/// Requests in a row that fail before a server is passed over.
pub const PASS_OVER_AFTER: u32 = 3;

/// How long it is passed over, and then between two requests that try it.
pub const PASS_OVER_FOR: Millis = Millis::from_seconds(10);

/// When checks change their verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Bad checks in a row that take a server down; 1 or more.
    pub fall: u32,
    /// Good checks in a row that bring it back; 1 or more.
    pub rise: u32,
}

/// What a server is good for at some moment, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Standing {
    Good,
    /// Only when no other is there.
    PassedOver,
    /// Never, by the verdict of checks.
    Down,
}

/// What is remembered of one server.
#[derive(Debug, Default)]
pub struct Health {
    /// The verdict of checks.
    down: bool,
    /// Checks in a row that contradict the verdict.
    against: u32,
    /// Requests in a row that failed.
    failures: u32,
    passed_over_until: Option<Timestamp>,
}

impl Health {
    /// `checked`: whether checks have a say.
    pub fn standing(&self, checked: bool, now: Timestamp) -> Standing {
        if checked && self.down {
            return Standing::Down;
        }
        match self.passed_over_until {
            Some(until) if now < until => Standing::PassedOver,
            _ => Standing::Good,
        }
    }

    /// Takes the result of a check and says whether the verdict changed.
    pub fn checked(&mut self, good: bool, thresholds: Thresholds) -> bool {
        if good {
            self.failures = 0;
            self.passed_over_until = None;
        }
        if good != self.down {
            self.against = 0;
            return false;
        }
        self.against += 1;
        let needed = if good { thresholds.rise } else { thresholds.fall };
        let changes = self.against >= needed;
        if changes {
            self.down = !good;
            self.against = 0;
        }
        changes
    }

    /// Takes a request that failed; `may_pass_over` is false for the last server that is left. Says whether the server is
    /// passed over from now on and was not before.
    pub fn failed(&mut self, may_pass_over: bool, now: Timestamp) -> bool {
        self.failures = self.failures.saturating_add(1);
        if self.failures < PASS_OVER_AFTER || !may_pass_over {
            return false;
        }
        let was_marked = self.passed_over_until.is_some();
        self.passed_over_until = Some(now + PASS_OVER_FOR);
        !was_marked
    }

    /// Takes a request that was answered and says whether the server had been passed over.
    pub fn answered(&mut self) -> bool {
        self.failures = 0;
        self.passed_over_until.take().is_some()
    }

    /// A request was sent its way. When its time of being passed over has run out, this request alone tries it: others wait
    /// for what becomes of it.
    pub fn chosen(&mut self, now: Timestamp) {
        if self.passed_over_until.is_some_and(|until| until <= now) {
            self.passed_over_until = Some(now + PASS_OVER_FOR);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Timestamp = Timestamp(1_000_000);
    const RULES: Thresholds = Thresholds { fall: 3, rise: 2 };

    fn after(ms: i64) -> Timestamp {
        START + Millis(ms)
    }

    fn fail(health: &mut Health) {
        assert!((0..PASS_OVER_AFTER).any(|_| health.failed(true, START)));
    }

    #[test]
    fn a_server_that_was_never_checked_is_good() {
        assert_eq!(Health::default().standing(true, START), Standing::Good);
    }

    #[test]
    fn checks_take_a_server_down_after_fall_in_a_row_and_back_after_rise() {
        let mut health = Health::default();
        let changes = [false, false, true, false, false, false].map(|good| health.checked(good, RULES));
        assert_eq!(changes, [false, false, false, false, false, true], "a good one in between starts anew");
        assert_eq!(health.standing(true, START), Standing::Down);
        assert_eq!(health.standing(false, START), Standing::Good, "without checks their verdict is nothing");
        let changes = [true, false, true, true, true].map(|good| health.checked(good, RULES));
        assert_eq!(changes, [false, false, false, true, false]);
        assert_eq!(health.standing(true, START), Standing::Good);
    }

    #[test]
    fn failures_in_a_row_have_a_server_passed_over_for_a_while() {
        let mut health = Health::default();
        assert!(!health.failed(true, START) && !health.failed(true, START));
        assert!(!health.answered(), "an answer starts the count anew");
        let changes = [0, 1, 2, 3].map(|ms| health.failed(true, after(ms)));
        assert_eq!(changes, [false, false, true, false]);
        assert_eq!(health.standing(false, after(4)), Standing::PassedOver);
        assert_eq!(health.standing(false, after(3 + PASS_OVER_FOR.0)), Standing::Good);
    }

    #[test]
    fn one_request_tries_a_server_that_was_passed_over() {
        let mut health = Health::default();
        fail(&mut health);
        let later = START + PASS_OVER_FOR;
        health.chosen(later);
        assert_eq!(health.standing(false, later), Standing::PassedOver, "the others wait for it");
        assert!(!health.failed(true, later), "one failure is enough now, and no news");
        assert_eq!(health.standing(false, later + Millis(1)), Standing::PassedOver);
        health.chosen(later + PASS_OVER_FOR);
        assert!(health.answered());
        assert_eq!(health.standing(false, later + PASS_OVER_FOR), Standing::Good);
    }

    #[test]
    fn the_last_server_is_not_passed_over() {
        let mut health = Health::default();
        let changes = [0; 9].map(|_| health.failed(false, START));
        assert_eq!(changes, [false; 9]);
        assert_eq!(health.standing(false, START), Standing::Good);
        assert!(health.failed(true, START), "but at once when another is there again");
    }

    #[test]
    fn a_good_check_ends_what_requests_said_and_an_answer_does_not_bring_up_what_checks_took_down() {
        let mut health = Health::default();
        fail(&mut health);
        assert!(!health.checked(true, RULES), "the verdict was good all the time");
        assert_eq!(health.standing(true, START), Standing::Good);
        let changes = [false; RULES.fall as usize].map(|good| health.checked(good, RULES));
        assert_eq!(changes, [false, false, true]);
        health.answered();
        assert_eq!(health.standing(true, START), Standing::Down);
    }
}
