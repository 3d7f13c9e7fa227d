-- What the token bucket and the leaky bucket share: a level that drains at Q units in W. Twin of src/algorithm/bucket.rs.
--
-- State: last, used, part: a level of used + part/W units at the instant `last`. View: {last, used, part, W in ms, how long
-- until it is empty or false}. The twin
-- keeps the level as one integer scaled by W, which passes 2^53; here it is the two digits of it, in base W.

local MONTH = -1
local MONTH_MS = 2592000000
local YEAR_MS = 31536000000
local HORIZON_MS = 2^43
local MAX_HELD = 2^52
local MAX_SPAN_MS = 2^52
local EXACT = 2^53

-- The level at `now`, or at the last charge if `now` is earlier: a clock that steps back drains nothing. Without `now`: as the
-- state has it, at the instant of its last charge (`stored` of the twin).
local function bucket_at(p, last, used, part, now)
  local window = p[2]
  if window < 0 then
    window = window == MONTH and MONTH_MS or YEAR_MS
  end
  if not (last >= -HORIZON_MS and last <= HORIZON_MS) then
    used, part = 0, 0
  end
  if not (used > 0) then
    used = 0
  elseif used > MAX_HELD then
    used = MAX_HELD
  end
  if not (part > 0) then
    part = 0
  elseif part >= window then
    part = window - 1
  end
  if now then
    if now > HORIZON_MS then
      now = HORIZON_MS
    elseif now < -HORIZON_MS then
      now = -HORIZON_MS
    end
    if used == 0 and part == 0 then
      last = now
    elseif now > last then
      -- What mul_div tries first, without a call: these lines run several times in every decision.
      local drained, gone, rest = (now - last) * p[1], nil, nil
      if drained < EXACT then
        rest = drained % window
        gone = (drained - rest) / window
      else
        gone, rest = mul_div(now - last, p[1], 0, window)
      end
      last, used, part = now, used - gone, part - rest
      if part < 0 then
        used, part = used - 1, part + window
      end
      if used < 0 then
        used, part = 0, 0
      end
    end
  end
  return { last, used, part, window, false }
end

-- From `now`, how long until at most `units` are inside.
local function bucket_until_at_most(p, v, units, now)
  local excess = v[2] - units
  if excess < 0 or (excess == 0 and v[3] == 0) then
    return 0
  end
  local rate = p[1]
  local level, span, rest = excess * v[4] + v[3], nil, nil
  if level < EXACT then
    rest = level % rate
    span = (level - rest) / rate
  else
    span, rest = mul_div(excess, v[4], v[3], rate)
  end
  if rest > 0 then
    span = span + 1
  end
  if now > HORIZON_MS then
    now = HORIZON_MS
  elseif now < -HORIZON_MS then
    now = -HORIZON_MS
  end
  -- While the clock is behind `last`, it first has to get there.
  span = span + (v[1] - now)
  if span < 0 then
    return 0
  end
  return span < MAX_SPAN_MS and span or MAX_SPAN_MS
end

-- Adds cost, but not so that more than `limit` units are inside.
local function bucket_add_up_to(v, cost, limit)
  local used, part = v[2] + cost, v[3]
  if used >= limit then
    used, part = limit, 0
  end
  if used > v[2] or (used == v[2] and part > v[3]) then
    v[2], v[3] = used, part
  end
end

-- Makes the bucket empty at `instant`, which is not before it drains by itself, and keeps it from draining until then.
local function bucket_idle_until(v, instant)
  if instant > HORIZON_MS then
    instant = HORIZON_MS
  end
  if instant > v[1] then
    v[1] = instant
  end
  v[2], v[3] = 0, 0
end

-- Takes out cost, down to empty, less what drains in `gone`.
local function bucket_remove(p, v, cost, gone)
  local drained, rest = mul_div(gone, p[1], 0, v[4])
  local inside, inside_part = cost - drained, -rest
  if inside_part < 0 then
    inside, inside_part = inside - 1, inside_part + v[4]
  end
  if inside < 0 then
    return
  end
  local used, part = v[2] - inside, v[3] - inside_part
  if part < 0 then
    used, part = used - 1, part + v[4]
  end
  if used < 0 then
    used, part = 0, 0
  end
  v[2], v[3] = used, part
end
