//! Exact products and quotients of integers that may pass 64 bits on the way.
//!
//! A quota of 1e15 units weighed by the milliseconds of a year needs 86 bits. Almost every real limit fits in 64,
//! where a division is several times cheaper, so each function tries that first and both ways give the same bits.
//! Nothing here is a float, and nothing overflows: a quotient outside `i64` is the nearest value inside it.

/// `dividend / divisor`, rounded towards negative infinity; `divisor` is positive.
pub fn div_floor(dividend: i128, divisor: i64) -> i64 {
    debug_assert!(divisor > 0, "divisors are windows, quotas or levels above zero");
    match i64::try_from(dividend) {
        Ok(small) => small.div_euclid(divisor),
        Err(_) => saturate(dividend.div_euclid(i128::from(divisor))),
    }
}

/// `dividend / divisor`, rounded towards positive infinity; `divisor` is positive.
pub fn div_ceil(dividend: i128, divisor: i64) -> i64 {
    debug_assert!(divisor > 0, "divisors are windows, quotas or levels above zero");
    match i64::try_from(dividend) {
        Ok(small) => small.div_euclid(divisor) + i64::from(small.rem_euclid(divisor) != 0),
        Err(_) => {
            let wide = i128::from(divisor);
            saturate(dividend.div_euclid(wide) + i128::from(dividend.rem_euclid(wide) != 0))
        }
    }
}

/// `a * b / divisor`, rounded down; `a` and `b` are not negative, `divisor` is positive.
pub fn mul_div_floor(a: i64, b: i64, divisor: i64) -> i64 {
    debug_assert!(a >= 0 && b >= 0, "factors are amounts and spans");
    div_floor(i128::from(a) * i128::from(b), divisor)
}

/// `a * b / divisor`, rounded up; `a` and `b` are not negative, `divisor` is positive.
pub fn mul_div_ceil(a: i64, b: i64, divisor: i64) -> i64 {
    debug_assert!(a >= 0 && b >= 0, "factors are amounts and spans");
    div_ceil(i128::from(a) * i128::from(b), divisor)
}

fn saturate(wide: i128) -> i64 {
    let nearest = if wide < 0 { i64::MIN } else { i64::MAX };
    i64::try_from(wide).unwrap_or(nearest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn halves_are_rounded_the_way_the_name_says() {
        assert_eq!((mul_div_floor(7, 1, 2), mul_div_ceil(7, 1, 2)), (3, 4));
        assert_eq!((mul_div_floor(8, 1, 2), mul_div_ceil(8, 1, 2)), (4, 4));
        assert_eq!((div_floor(-7, 2), div_ceil(-7, 2)), (-4, -3));
    }

    #[test]
    fn a_product_past_64_bits_is_exact() {
        let (quota, year_ms) = (1_000_000_000_000_000, 31_536_000_000);
        assert_eq!(mul_div_floor(quota, year_ms, year_ms), quota);
        assert_eq!(mul_div_floor(quota, year_ms - 1, year_ms), quota - 31_710);
        assert_eq!(mul_div_ceil(quota, year_ms - 1, year_ms), quota - 31_709);
    }

    #[test]
    fn a_quotient_past_64_bits_is_the_nearest_that_fits() {
        assert_eq!(mul_div_ceil(i64::MAX, i64::MAX, 1), i64::MAX);
        assert_eq!(div_floor(i128::MIN, 1), i64::MIN);
    }

    proptest! {
        #[test]
        fn the_narrow_way_and_the_wide_way_agree(a in 0..=i64::MAX, b in 0..=i64::MAX, shift in 0..63u32, divisor in 1..=i64::MAX) {
            let b = b >> shift;
            let product = i128::from(a) * i128::from(b);
            let floor = product / i128::from(divisor);
            let ceil = floor + i128::from(product % i128::from(divisor) != 0);
            prop_assert_eq!(i128::from(mul_div_floor(a, b, divisor)), floor.min(i128::from(i64::MAX)));
            prop_assert_eq!(i128::from(mul_div_ceil(a, b, divisor)), ceil.min(i128::from(i64::MAX)));
        }
    }
}
