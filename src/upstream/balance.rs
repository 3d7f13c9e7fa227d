//! Taking turns: smooth weighted round robin, and the fewest requests in flight for the weight.
//!
//! Both work on the servers that may be used just now, so that the share of one that may not falls to all others by their
//! weights and not to its neighbour.

use smallvec::SmallVec;
use std::cmp::Ordering;

/// Servers that may be used, as indices; kept inline up to this number.
pub const INLINE_CANDIDATES: usize = 16;

pub type Candidates = SmallVec<[usize; INLINE_CANDIDATES]>;

/// One server's place in the turns.
#[derive(Clone, Copy, Debug)]
pub struct Turn {
    /// 1 or more.
    pub weight: i64,
    /// What it has saved up: the fullest is next.
    pub credit: i64,
}

/// The server whose turn it is (smooth weighted round robin, as in nginx): each saves its weight, the fullest pays for all.
/// Of equals the first.
pub fn next_turn(turns: &mut [Turn], candidates: &[usize]) -> Option<usize> {
    let mut total = 0;
    let mut fullest = None::<usize>;
    for &index in candidates {
        let turn = &mut turns[index];
        turn.credit += turn.weight;
        total += turn.weight;
        let credit = turn.credit;
        if fullest.is_none_or(|best| credit > turns[best].credit) {
            fullest = Some(index);
        }
    }
    turns[fullest?].credit -= total;
    fullest
}

/// Those of the candidates that have the fewest requests in flight for their weight.
pub fn least_loaded(turns: &[Turn], candidates: &[usize], in_flight: impl Fn(usize) -> usize) -> Candidates {
    let mut least = Candidates::new();
    let mut best = None::<(u128, u128)>;
    for &index in candidates {
        let (held, weight) = (in_flight(index) as u128, u128::from(turns[index].weight.unsigned_abs()));
        // As products, because a quotient of whole numbers would call 3/2 and 1/1 equal.
        let against_best = best.map_or(Ordering::Less, |(best, of)| (held * of).cmp(&(best * weight)));
        if against_best == Ordering::Less {
            least.clear();
            best = Some((held, weight));
        }
        if against_best != Ordering::Greater {
            least.push(index);
        }
    }
    least
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(weights: &[i64]) -> Vec<Turn> {
        weights.iter().map(|weight| Turn { weight: *weight, credit: 0 }).collect()
    }

    fn order(weights: &[i64], candidates: &[usize], count: usize) -> Vec<usize> {
        let mut turns = turns(weights);
        (0..count).map(|_| next_turn(&mut turns, candidates).expect("there are candidates")).collect()
    }

    #[test]
    fn turns_follow_the_weights_and_are_mixed() {
        assert_eq!(order(&[1, 2], &[0, 1], 6), [1, 0, 1, 1, 0, 1]);
        assert_eq!(order(&[5, 1, 1], &[0, 1, 2], 7), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(order(&[10, 10], &[0, 1], 4), [0, 1, 0, 1]);
        assert_eq!(next_turn(&mut turns(&[]), &[]), None);
    }

    #[test]
    fn the_share_of_one_that_may_not_be_used_falls_to_all_others() {
        let order = order(&[1, 1, 1, 1], &[0, 2, 3], 30);
        let counts = [0, 1, 2, 3].map(|server| order.iter().filter(|chosen| **chosen == server).count());
        assert_eq!(counts, [10, 0, 10, 10]);
    }

    #[test]
    fn weights_that_differ_much_are_kept_to() {
        let order = order(&[65_535, 1], &[0, 1], 65_536);
        assert_eq!(order.iter().filter(|chosen| **chosen == 1).count(), 1);
    }

    #[test]
    fn the_fewest_in_flight_for_the_weight_are_found() {
        let least = |weights: &[i64], in_flight: &[usize]| {
            let all: Vec<usize> = (0..weights.len()).collect();
            least_loaded(&turns(weights), &all, |index| in_flight[index]).to_vec()
        };
        assert_eq!(least(&[1, 1, 1], &[2, 1, 1]), [1, 2]);
        assert_eq!(least(&[1, 2], &[1, 2]), [0, 1]);
        assert_eq!(least(&[2, 1], &[3, 1]), [1]);
        assert_eq!(least(&[1, 3], &[0, 0]), [0, 1]);
        assert!(least(&[], &[]).is_empty());
    }
}
