-- sliding_window_log: what was admitted in the last W, exact over every span. Twin of src/algorithm/sliding_log.rs.
--
-- State: a sorted set of its own, one entry an instant: score = the instant in ms, member = struct '<dd' of the sum of all
-- costs up to and including the entry, modulo SUM_MODULUS, and its own cost. The cost in a window is a difference of two
-- sums, so a decision reads the newest entry and the first that counts, whatever lies between. Sums of two entries never
-- are equal, so members are unique; no two entries have one score, so their order is that of the instants.
--
-- View: {key, the instant seen, instant up to which entries have left, newest instant or false, newest sum, newest cost,
-- rank of the first entry that counts, its instant or false, sum before it, W in ms, whether the key holds something
-- else, cost of the first entry}. For `p` and what the functions return, see lua/README.md.

local MONTH = -1
local MONTH_MS = 2592000000
local YEAR_MS = 31536000000
local MAX_SPAN_MS = 2^52
local SUM_MODULUS = 2^52
-- With more entries than this (costs far below 1), new cost joins the newest entry.
local MAX_LOG_ENTRIES = 100000
-- Entries that have left and are dropped by one charge: more than one, so that none pile up.
local MAX_TRIM = 64
-- Entries that one settlement rewrites at most. Cost given back to an entry with more behind it stays charged until it
-- leaves; a debt joins the newest instead.
local MAX_REWRITE = 400

-- The entry of that rank: instant, sum, cost; false and whether the key holds something that is no log.
local function sliding_log_entry(key, rank)
  local reply = redis.pcall('ZRANGE', key, rank, rank, 'WITHSCORES')
  local member = reply[1]
  if not member then
    -- As in records.lua: only another type is a value that is begun anew.
    if reply.err and string.sub(reply.err, 1, 9) ~= 'WRONGTYPE' then
      error(reply.err)
    end
    return false, reply.err ~= nil
  end
  local at = tonumber(reply[2])
  if #member ~= 16 or not at or at % 1 ~= 0 or at < -MAX_SPAN_MS or at > MAX_SPAN_MS then
    return false, true
  end
  local sum, cost = struct.unpack('<dd', member)
  if sum % 1 ~= 0 or cost % 1 ~= 0 or sum < 0 or sum >= SUM_MODULUS or cost <= 0 or cost > SUM_MODULUS then
    return false, true
  end
  return at, sum, cost
end

-- How many entries have left by that instant.
local function sliding_log_left(key, instant)
  return redis.call('ZCOUNT', key, '-inf', instant)
end

local function sliding_log_at(p, key, _, _, now)
  local window = p[2]
  if window < 0 then
    window = window == MONTH and MONTH_MS or YEAR_MS
  end
  local newest, sum, cost = sliding_log_entry(key, -1)
  if not newest then
    return { key, now, now - window, false, 0, 0, 0, false, 0, window, sum, 0 }
  end
  local seen = newest > now and newest or now
  local left = seen - window
  local rank = 0
  local first, first_sum, first_cost = sliding_log_entry(key, 0)
  if first and first <= left then
    rank = sliding_log_left(key, left)
    if newest > left then
      first, first_sum, first_cost = sliding_log_entry(key, rank)
    else
      first, first_sum, first_cost = false, false, 0
    end
  end
  local broken = not first and first_sum
  local before = first and (first_sum - first_cost) % SUM_MODULUS or 0
  return { key, seen, left, not broken and newest, sum, cost, rank, first, before, window, broken, first_cost or 0 }
end

local function sliding_log_used(v)
  return v[8] and (v[5] - v[9]) % SUM_MODULUS or 0
end

-- From `now`, how long until an entry of that instant has left.
local function sliding_log_until_left(v, at, now)
  local span = at + v[10] - now
  if span < 0 then
    return 0
  end
  return span < MAX_SPAN_MS and span or MAX_SPAN_MS
end

local function sliding_log_remaining(p, v, _)
  local left = p[1] - sliding_log_used(v)
  return left > 0 and left or 0
end

local function sliding_log_wait(p, v, now, cost)
  local count = p[1]
  if cost == 0 then
    return 0
  end
  if cost > count then
    return -1
  end
  local excess = sliding_log_used(v) - (count - cost)
  if excess <= 0 then
    return 0
  end
  -- Mostly the first entry is enough, and no search is needed.
  if v[12] >= excess then
    return sliding_log_until_left(v, v[8], now)
  end
  -- The first entry with which enough has left; the sums never fall, so this is a binary search. What was put between the
  -- entries by others counts as enough.
  local low, high = v[7], redis.call('ZCARD', v[1]) - 1
  local last_to_leave = v[4]
  while low < high do
    local middle = (low + high) - (low + high) % 2
    middle = middle / 2
    local at, sum = sliding_log_entry(v[1], middle)
    if at and (sum - v[9]) % SUM_MODULUS < excess then
      low = middle + 1
    else
      high, last_to_leave = middle, at or last_to_leave
    end
  end
  return sliding_log_until_left(v, last_to_leave, now)
end

-- Drops entries that have left, at most MAX_TRIM of them; `left` is how many there are.
local function sliding_log_trim(key, left)
  if left == 0 then
    return 0
  end
  local dropped = left < MAX_TRIM and left or MAX_TRIM
  redis.call('ZREMRANGEBYRANK', key, 0, dropped - 1)
  return dropped
end

-- Enters cost at an instant that is not before the newest entry's.
local function sliding_log_push(v, at, cost)
  local key, newest, sum, own = v[1], v[4], v[5], cost
  if newest then
    local full = sliding_log_used(v) >= MAX_LOG_ENTRIES and redis.call('ZCARD', key) - v[7] >= MAX_LOG_ENTRIES
    if newest >= at or full then
      -- A full log joins the two: the older cost then leaves later than it could, never earlier.
      redis.call('ZREM', key, struct.pack('<dd', sum, v[6]))
      at, own = newest > at and newest or at, v[6] + cost
    end
  end
  sum = (sum + cost) % SUM_MODULUS
  redis.call('ZADD', key, at, struct.pack('<dd', sum, own))
  v[4], v[5], v[6] = at, sum, own
  if not v[8] then
    v[8], v[9] = at, (sum - own) % SUM_MODULUS
  end
end

-- Unlike its twin it writes at once; nothing is to be charged before all is decided.
local function sliding_log_charge(_, v, _, cost)
  if v[11] then
    redis.call('DEL', v[1])
  end
  v[7] = v[7] - sliding_log_trim(v[1], v[7])
  sliding_log_push(v, v[2], cost)
end

-- Adds `delta` to the sums of all entries from `rank` on, and to the first one's own cost, at most down to nothing.
local function sliding_log_rewrite(key, rank, delta)
  local entries = redis.call('ZRANGE', key, rank, -1, 'WITHSCORES')
  local written, size = {}, 0
  for place = 1, #entries, 2 do
    local sum, cost = 0, 0
    if #entries[place] == 16 then
      sum, cost = struct.unpack('<dd', entries[place])
    end
    if place == 1 then
      cost = cost + delta
    end
    if cost > 0 then
      written[size + 1] = entries[place + 1]
      written[size + 2] = struct.pack('<dd', (sum + delta) % SUM_MODULUS, cost)
      size = size + 2
    end
  end
  redis.call('ZREMRANGEBYRANK', key, rank, -1)
  if size > 0 then
    redis.call('ZADD', key, unpack(written, 1, size))
  end
end

-- Enters cost at an instant that may lie before other entries.
local function sliding_log_insert(v, at, cost)
  local key = v[1]
  local card = redis.call('ZCARD', key)
  local rank = redis.call('ZCOUNT', key, '-inf', '(' .. string.format('%.0f', at))
  if rank == card then
    return sliding_log_push(v, at, cost)
  end
  if card - rank > MAX_REWRITE then
    rank, at = card - 1, v[4]
  end
  local entry, sum, own = sliding_log_entry(key, rank)
  if not entry then
    return
  end
  if entry > at and card - sliding_log_left(key, v[3]) < MAX_LOG_ENTRIES then
    -- An entry of nothing, which the rewriting gives its cost.
    redis.call('ZADD', key, at, struct.pack('<dd', (sum - own) % SUM_MODULUS, 0))
  end
  sliding_log_rewrite(key, rank, cost)
end

local function sliding_log_debit(p, key, _, _, now, at, cost)
  local v = sliding_log_at(p, key, nil, nil, now)
  local room = p[3] + p[1] - sliding_log_used(v)
  local debt = cost < room and cost or room
  local left = now - v[10]
  if debt > 0 and at > left then
    if v[11] then
      redis.call('DEL', key)
    end
    sliding_log_trim(key, sliding_log_left(key, left))
    sliding_log_insert(v, at < now and at or now, debt)
  end
end

local function sliding_log_refund(p, key, _, _, now, at, cost)
  local v = sliding_log_at(p, key, nil, nil, now)
  if not v[4] then
    return
  end
  sliding_log_trim(key, sliding_log_left(key, now - v[10]))
  local member = redis.call('ZRANGEBYSCORE', key, at, at, 'LIMIT', 0, 1)[1]
  if not member then
    return
  end
  local rank = redis.call('ZRANK', key, member)
  local entry, _, own = sliding_log_entry(key, rank)
  if entry and redis.call('ZCARD', key) - rank <= MAX_REWRITE then
    sliding_log_rewrite(key, rank, -(cost < own and cost or own))
  end
end

local function sliding_log_reset(_, v, now)
  return v[8] and sliding_log_until_left(v, v[8], now) or 0
end

local function sliding_log_fresh_at(_, v, now)
  local fresh = v[4] and v[4] + v[10] or now
  return fresh > now and fresh or now
end
