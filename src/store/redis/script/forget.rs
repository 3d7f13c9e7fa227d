//! What `lua/forget.lua` is given and what it answers: counters named by their places, and which of them were there.

use super::{Misread, Numbers, Place, push};
use crate::time::Timestamp;

/// `ARGV[1]` of `forget.lua`, appended to `into`. `clock` is for tests: absent, it is the time of Redis. `groups` is how many of
/// the keys are strings.
pub fn write_forgotten(into: &mut Vec<u8>, clock: Option<Timestamp>, groups: usize, places: &[Place]) {
    push(into, clock.map_or(0, |clock| clock.0));
    push(into, groups as i64);
    for place in places {
        push(into, place.key as i64 + 1);
        push(into, place.record as i64);
    }
}

/// Reads the reply of `forget.lua` to that many places: true for each that held a counter.
pub fn read_forgotten(reply: &[u8], places: usize) -> Result<Vec<bool>, Misread> {
    let mut numbers = Numbers::new(reply, places)?;
    (0..places).map(|_| numbers.within(0, 1).map(|held| held == 1)).collect()
}
