-- token_bucket: a bucket of B tokens, refilled continuously at Q in W, full at the start. Twin of
-- src/algorithm/token_bucket.rs.
--
-- State and view: see bucket.lua; they count the tokens that are missing. For `p`, views and what the functions
-- return, see lua/README.md.

local MAX_HELD = 2^52

local token_bucket_at = bucket_at

local function token_bucket_remaining(p, v, _)
  local left = p[3] - v[2]
  if v[3] > 0 then
    left = left - 1
  end
  return left > 0 and left or 0
end

local function token_bucket_wait(p, v, now, cost)
  local capacity = p[3]
  if cost == 0 then
    return 0
  end
  if cost > capacity then
    return -1
  end
  return bucket_until_at_most(p, v, capacity - cost, now)
end

local function token_bucket_charge(_, v, _, cost)
  local used = v[2] + cost
  v[2], v[5] = used < MAX_HELD and used or MAX_HELD, false
end

local function token_bucket_debit(p, last, used, part, now, at, cost)
  -- As of the request, or of the last charge if that was later: the debt has drained since, as if it had been known.
  local v = bucket_at(p, last, used, part, at < now and at or now)
  bucket_add_up_to(v, cost, p[3] + p[1])
  return v
end

local function token_bucket_refund(p, last, used, part, _, at, cost)
  if at > last then
    return { last, used, part }
  end
  local v = bucket_at(p, last, used, part)
  -- Between the charge and the last charge after it the bucket may have run dry any number of times. What would be left
  -- of this cost had it been alone is left for certain; giving back more could grant twice what has refilled already.
  bucket_remove(p, v, cost, last - at)
  return v
end

local function token_bucket_reset(p, v, now)
  if v[5] then
    return v[5]
  end
  return bucket_until_at_most(p, v, 0, now)
end

local function token_bucket_fresh_at(p, v, now)
  local span = bucket_until_at_most(p, v, 0, now)
  -- The reset is asked for next.
  v[5] = span
  return now + span
end
