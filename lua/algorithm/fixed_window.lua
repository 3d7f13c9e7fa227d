-- fixed_window: a count in windows that all callers share the edges of. Twin of src/algorithm/fixed_window.rs.
--
-- State: window start, used, 0. View: {window start, used, 0, window end}. For `p`, views and what the functions
-- return, see lua/README.md.

local HORIZON_MS = 2^43
local MAX_HELD = 2^52
local MAX_SPAN_MS = 2^52

local function fixed_window_at(p, start, used, _, now)
  if not (used > 0) then
    used = 0
  elseif used > MAX_HELD then
    used = MAX_HELD
  end
  local seen = now
  if used > 0 and start > now and start >= -HORIZON_MS and start <= HORIZON_MS then
    seen = start
  end
  local _, first, finish = frame(p[2], seen)
  return { first, start == first and used or 0, 0, finish }
end

local function fixed_window_remaining(p, v, _)
  local left = p[1] - v[2]
  return left > 0 and left or 0
end

local function fixed_window_wait(p, v, now, cost)
  local count = p[1]
  if cost == 0 then
    return 0
  end
  if cost > count then
    return -1
  end
  if v[2] <= count - cost then
    return 0
  end
  local span = v[4] - now
  if span <= 0 then
    return 0
  end
  return span < MAX_SPAN_MS and span or MAX_SPAN_MS
end

local function fixed_window_charge(_, v, _, cost)
  local used = v[2] + cost
  v[2] = used < MAX_HELD and used or MAX_HELD
end

local function fixed_window_debit(p, start, used, rest, now, at, cost)
  local v = fixed_window_at(p, start, used, rest, now)
  if at < v[1] then
    return { start, used, rest }
  end
  local deepest = p[3] + p[1]
  local wanted = v[2] + cost
  if wanted > deepest then
    wanted = deepest
  end
  if wanted > v[2] then
    v[2] = wanted
  end
  return v
end

local function fixed_window_refund(p, start, used, rest, now, at, cost)
  local v = fixed_window_at(p, start, used, rest, now)
  if at < v[1] then
    return { start, used, rest }
  end
  v[2] = v[2] > cost and v[2] - cost or 0
  return v
end

local function fixed_window_reset(_, v, now)
  return v[4] - now
end

local function fixed_window_fresh_at(_, v, now)
  return v[2] == 0 and now or v[4]
end
