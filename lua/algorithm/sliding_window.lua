-- sliding_window_counter: the previous window's count, weighed by how much of it is still inside the last W, plus the
-- current count. Twin of src/algorithm/sliding_window.rs.
--
-- State: window start, current, previous. View: {window start, current, previous, window end, the instant seen, length of
-- the previous window, what of previous counts at the instant seen}. For `p`, views and what the functions return, see
-- lua/README.md.

local HORIZON_MS = 2^43
local MAX_HELD = 2^52
local MAX_SPAN_MS = 2^52

local function sliding_window_at(p, start, current, previous, now)
  if not (current > 0) then
    current = 0
  elseif current > MAX_HELD then
    current = MAX_HELD
  end
  if not (previous > 0) then
    previous = 0
  elseif previous > MAX_HELD then
    previous = MAX_HELD
  end
  local seen = now
  if start > now and start >= -HORIZON_MS and start <= HORIZON_MS and (current > 0 or previous > 0) then
    seen = start
  end
  local before, first, finish = frame(p[2], seen)
  if start ~= first then
    current, previous = 0, start == before and current or 0
  end
  local length, weighed = first - before, 0
  if previous > 0 then
    local share, rest = length - (seen - first), nil
    if share < 0 then
      share = 0
    elseif share > length then
      share = length
    end
    weighed, rest = mul_div(previous, share, 0, length)
    if rest > 0 then
      weighed = weighed + 1
    end
  end
  return { first, current, previous, finish, seen, length, weighed }
end

-- The window after this one, as it will stand if nothing is charged until then, at its first instant; without the estimate.
local function sliding_window_next(p, v)
  local before, first, finish = frame(p[2], v[4])
  return { first, 0, v[2], finish, first, first - before }
end

-- How much of it counts at the instant seen.
local function sliding_window_estimate(v)
  return v[7] + v[2]
end

-- The first instant of this window, not before the one seen, at which `cost` fits; nil if there is none.
local function sliding_window_first_fit(p, v, cost)
  local room = p[1] - cost - v[2]
  if room < 0 then
    return nil
  end
  if v[3] <= room then
    return v[5]
  end
  -- The share may be this long at most; ceil(previous * share / length) <= room says the same.
  local share = mul_div(room, v[6], 0, v[3])
  local fits = v[1] + v[6] - share
  if fits < v[5] then
    fits = v[5]
  end
  return fits < v[4] and fits or nil
end

local function sliding_window_remaining(p, v, _)
  local left = p[1] - sliding_window_estimate(v)
  return left > 0 and left or 0
end

local function sliding_window_wait(p, v, now, cost)
  local count = p[1]
  if cost == 0 then
    return 0
  end
  if cost > count then
    return -1
  end
  if sliding_window_estimate(v) <= count - cost then
    return 0
  end
  local fits = sliding_window_first_fit(p, v, cost)
  if not fits then
    local following = sliding_window_next(p, v)
    -- In the window after the next nothing counts any more.
    fits = sliding_window_first_fit(p, following, cost) or following[4]
  end
  local span = fits - now
  if span <= 0 then
    return 0
  end
  return span < MAX_SPAN_MS and span or MAX_SPAN_MS
end

local function sliding_window_charge(_, v, _, cost)
  local current = v[2] + cost
  v[2] = current < MAX_HELD and current or MAX_HELD
end

-- Where the view keeps the count of the window that `at` was in; nil if that counts no more.
local function sliding_window_count_of(v, at)
  if at >= v[1] then
    return 2
  end
  return at >= v[1] - v[6] and 3 or nil
end

local function sliding_window_debit(p, start, current, previous, now, at, cost)
  local v = sliding_window_at(p, start, current, previous, now)
  local count = sliding_window_count_of(v, at)
  if not count then
    return { start, current, previous }
  end
  local deepest = p[3] + p[1]
  local wanted = v[count] + cost
  if wanted > deepest then
    wanted = deepest
  end
  if wanted > v[count] then
    v[count] = wanted
  end
  return v
end

local function sliding_window_refund(p, start, current, previous, now, at, cost)
  local v = sliding_window_at(p, start, current, previous, now)
  local count = sliding_window_count_of(v, at)
  if not count then
    return { start, current, previous }
  end
  v[count] = v[count] > cost and v[count] - cost or 0
  return v
end

local function sliding_window_reset(_, v, now)
  return v[4] - now
end

local function sliding_window_fresh_at(p, v, now)
  if v[2] > 0 then
    if p[2] > 0 and v[4] <= HORIZON_MS then
      return v[4] + p[2]
    end
    local _, _, finish = frame(p[2], v[4])
    return finish
  end
  return v[3] > 0 and v[4] or now
end
