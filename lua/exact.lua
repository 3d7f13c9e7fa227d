-- Exact products and quotients of integers that pass 2^53 on the way.
--
-- Every number in a script is a double: an integer is exact below 2^53 and rounded above. A quota of 1e15 units
-- weighed by the milliseconds of a year needs 86 bits. Almost every real limit fits in 53, so that is tried first; what
-- does not fit is estimated, and the estimate is put right by its remainder, which is small and exact: the error of a
-- rounded product is itself a double (T. J. Dekker, A floating-point technique for extending the available precision,
-- 1971). Twin of src/algorithm/exact.rs, where 128-bit integers do the same.

local EXACT = 2^53
local DEKKER_SPLIT = 2^27 + 1

-- (a * b + c) / divisor, rounded down, and the remainder. `a` and `divisor` are below 2^53, `b` and `c` below 2^45, none is
-- negative, `divisor` is positive; a divisor above 1e15 is only ever asked for quotients below 2^45. A quotient of 2^53
-- or more comes out as some number not below 2^53: more than any counter or span holds.
local function mul_div(a, b, c, divisor)
  local product = a * b + c
  if product < EXACT then
    -- Lua's `%` rounds its own quotient; below 2^53 that never reaches the next integer.
    local remainder = product % divisor
    return (product - remainder) / divisor, remainder
  end
  local quotient = product / divisor
  if quotient >= EXACT then
    return quotient, 0
  end
  -- What rounding took from `x * y` to make it `rounded`. Defined in here because it is seldom needed.
  local function lost_in(rounded, x, y)
    local scaled = DEKKER_SPLIT * x
    local x_high = scaled - (scaled - x)
    local x_low = x - x_high
    scaled = DEKKER_SPLIT * y
    local y_high = scaled - (scaled - y)
    local y_low = y - y_high
    return ((x_high * y_high - rounded) + x_high * y_low + x_low * y_high) + x_low * y_low
  end
  quotient = quotient - quotient % 1
  product = a * b
  local taken = quotient * divisor
  -- Both products are nearly equal, so their difference is exact, and so are the errors.
  local remainder = (product - taken) + (lost_in(product, a, b) - lost_in(taken, quotient, divisor)) + c
  while remainder < 0 do
    quotient, remainder = quotient - 1, remainder + divisor
  end
  while remainder >= divisor do
    quotient, remainder = quotient + 1, remainder - divisor
  end
  return quotient, remainder
end
