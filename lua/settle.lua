-- Corrects charges that were taken earlier, each for itself. Twin of MemoryStore::settle_now.
--
-- KEYS: first the strings, one for each group of counters; then a sorted set for each log.
-- ARGV[1]: doubles, little endian. Two for all: the clock in ms (0: Redis TIME; anything else is for tests) and how many of
-- the keys are strings. Then ten for each correction, here its row `p`:
--    1 count   2 window (ms; -1 a month, -2 a year)   3 capacity   4 max_wait (ms; -1 none)   5 delta (a debt, or negative
--    what is given back)   6 the instant of the charge   7 id of the record   8 algorithm   9 key (its index in KEYS)   10 unused
-- Returns doubles, little endian, in one string: now, how many keys of another type or format were replaced.

local DELTA, CHARGED_AT, ID, ALGORITHM, KEY = 5, 6, 7, 8, 9

local call = redis.call
local arguments = ARGV[1]
local clock, groups, position = struct.unpack('<dd', arguments)
local now = clock
if clock == 0 then
  local time = call('TIME')
  local micros = time[2] + 0
  now = time[1] * 1000 + (micros - micros % 1000) / 1000
end

local values = {}
local replaced = 0

-- A log writes itself; what is left is its time to live.
local function settle_log(p, key)
  local before = at(p, key, nil, nil, now, p[ALGORITHM])
  if p[DELTA] > 0 then
    debit(p, key, nil, nil, now, p[CHARGED_AT], p[DELTA], p[ALGORITHM])
  else
    refund(p, key, nil, nil, now, p[CHARGED_AT], -p[DELTA], p[ALGORITHM])
  end
  local after = at(p, key, nil, nil, now, p[ALGORITHM])
  if before[11] and not after[11] then
    replaced = replaced + 1
  end
  if after[4] then
    call('PEXPIRE', key, fresh_at(p, after, now, p[ALGORITHM]) - now)
  end
end

local function settle_record(p, cells)
  local place = records_find(cells, p[ID])
  local a, b, c = cells[place + 1], cells[place + 2], cells[place + 3]
  if not a and p[DELTA] < 0 then
    return
  end
  if not a or a % 1 ~= 0 or b % 1 ~= 0 or c % 1 ~= 0 then
    a, b, c = 0, 0, 0
  end
  if cells[1] == BROKEN then
    replaced = replaced + 1
  end
  local v
  if p[DELTA] > 0 then
    v = debit(p, a, b, c, now, p[CHARGED_AT], p[DELTA], p[ALGORITHM])
  else
    v = refund(p, a, b, c, now, p[CHARGED_AT], -p[DELTA], p[ALGORITHM])
  end
  local after = at(p, v[1], v[2], v[3], now, p[ALGORITHM])
  cells[1] = CHANGED
  cells[place], cells[place + 1], cells[place + 2], cells[place + 3] = p[ID], v[1], v[2], v[3]
  cells[place + 4] = fresh_at(p, after, now, p[ALGORITHM])
end

while position < #arguments do
  local p = { struct.unpack('<dddddddddd', arguments, position) }
  position = p[11]
  local key = p[KEY]
  if key > groups then
    settle_log(p, KEYS[key])
  else
    local cells = values[key]
    if not cells then
      cells = records_of(redis.pcall('GET', KEYS[key]))
      values[key] = cells
    end
    settle_record(p, cells)
  end
end

for group = 1, groups do
  local cells = values[group]
  if cells and cells[1] == CHANGED then
    records_write(KEYS[group], cells, now)
  end
end
return struct.pack('<dd', now, replaced)
