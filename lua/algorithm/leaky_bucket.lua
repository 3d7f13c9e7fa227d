-- leaky_bucket: a queue that lets one request go each W/Q; admitted ones are held until their turn. Twin of
-- src/algorithm/leaky_bucket.rs.
--
-- State and view: see bucket.lua; the level is the backlog. For `p`, views and what the functions return, see
-- lua/README.md.

local MAX_HELD = 2^52

local leaky_bucket_at = bucket_at

-- From `now`, how long until a request would be held no longer than max_wait: each millisecond that passes takes one off
-- the delay.
local function leaky_bucket_until_short_enough(p, v, now)
  local max_wait = p[4]
  if max_wait < 0 then
    return 0
  end
  local span = bucket_until_at_most(p, v, 0, now) - max_wait
  return span > 0 and span or 0
end

local function leaky_bucket_remaining(p, v, now)
  if leaky_bucket_until_short_enough(p, v, now) > 0 then
    return 0
  end
  local left = p[3] - v[2]
  if v[3] > 0 then
    left = left - 1
  end
  return left > 0 and left or 0
end

local function leaky_bucket_wait(p, v, now, cost)
  local capacity = p[3]
  if cost == 0 then
    return 0
  end
  if cost > capacity then
    return -1
  end
  local room = bucket_until_at_most(p, v, capacity - cost, now)
  local short_enough = leaky_bucket_until_short_enough(p, v, now)
  return room > short_enough and room or short_enough
end

local function leaky_bucket_delay(p, v, now)
  return bucket_until_at_most(p, v, 0, now)
end

local function leaky_bucket_charge(p, v, now, cost, delay)
  -- Another limit holds the request longer than this one would. At its departure all before it have gone, so that is where
  -- the level starts anew, in the future, and the next one is apart from it. This bucket's own delay is never rounded
  -- in: whole milliseconds would slow a rate above 1000 a second.
  if delay > 0 then
    if delay > bucket_until_at_most(p, v, 0, now) then
      bucket_idle_until(v, now + delay)
    end
  end
  local used = v[2] + cost
  v[2], v[5] = used < MAX_HELD and used or MAX_HELD, false
end

local function leaky_bucket_debit(p, last, used, part, now, at, cost)
  local v = bucket_at(p, last, used, part, at < now and at or now)
  bucket_add_up_to(v, cost, p[3] + p[1])
  return v
end

local function leaky_bucket_refund(p, last, used, part, now, _, cost)
  -- A request whose turn has not come is inside in full, wherever in the queue it stands; those behind it move up.
  local v = bucket_at(p, last, used, part, now)
  bucket_remove(p, v, cost, 0)
  return v
end

local function leaky_bucket_reset(p, v, now)
  if v[5] then
    return v[5]
  end
  return bucket_until_at_most(p, v, 0, now)
end

local function leaky_bucket_fresh_at(p, v, now)
  local span = bucket_until_at_most(p, v, 0, now)
  -- The reset is asked for next.
  v[5] = span
  return now + span
end
