-- Takes all charges of a request or none, in one call. Twin of MemoryStore::decide.
--
-- KEYS: first the strings, one for each group of counters; then a sorted set for each log.
-- ARGV[1]: doubles, little endian. Two for all: the clock in ms (0: Redis TIME; anything else is for tests) and how many of
-- the keys are strings. Then ten for each charge, here its row `p`:
--    1 count   2 window (ms; -1 a month, -2 a year)   3 capacity   4 max_wait (ms; -1 none)   5 cost   6 enforced (1 or 0)
--    7 id of the record in the group   8 algorithm (its number in the loader)   9 key (its index in KEYS)
--    10 an earlier charge of the same counter, counted from 1 (0: none)
-- Returns doubles, little endian, in one string: admitted (1 or 0), now, delay, how many keys of another type or format
-- were replaced; then for each charge: remaining, wait (0 fits now, -1 never), reset. Nothing is written when not admitted.

local COST, ENFORCED, ID, ALGORITHM, KEY, SAME = 5, 6, 7, 8, 9, 10
-- A row is reused: once read, these hold what is found out.
local WAIT, PLACE, ASKED, VIEW = 6, 7, 10, 11
-- Of a reply to up to eight charges, or the beginning of it.
local REPLY_FORMAT = '<dddddddddddddddddddddddddddd'

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
if groups == 1 then
  values[1] = records_of(redis.pcall('GET', KEYS[1]))
elseif groups > 1 then
  values = call('MGET', unpack(KEYS, 1, groups))
  for group = 1, groups do
    -- MGET shows a key of another type as absent.
    values[group] = records_of(values[group] or redis.pcall('GET', KEYS[group]))
  end
end

local rows = { false, false, false, false }
local charges, admitted, held = 0, 1, 0
local last_key, cells, expected = 0, nil, 2
local size = #arguments

while position < size do
  local p = { struct.unpack('<dddddddddd', arguments, position) }
  position = p[11]
  charges = charges + 1
  rows[charges] = p
  local cost, key, same, algorithm = p[COST], p[KEY], p[SAME], p[ALGORITHM]
  local asked, v = cost, nil
  if same > 0 then
    asked = asked + rows[same][ASKED]
    p[PLACE], v = rows[same][PLACE], rows[same][VIEW]
  elseif key > groups then
    v = at(p, KEYS[key], nil, nil, now, algorithm)
  else
    if key ~= last_key then
      cells, last_key, expected = values[key], key, 2
    end
    local id, place = p[ID], expected
    if cells[place] ~= id then
      place = 2
      local record = cells[place]
      while record and record ~= id do
        place = place + 5
        record = cells[place]
      end
    end
    local a, b, c = cells[place + 1], cells[place + 2], cells[place + 3]
    if not a then
      a, b, c = 0, 0, 0
      cells[place], cells[place + 1], cells[place + 2], cells[place + 3], cells[place + 4] = id, a, b, c, now
    elseif a % 1 ~= 0 or b % 1 ~= 0 or c % 1 ~= 0 then
      a, b, c = 0, 0, 0
    end
    p[PLACE], expected = place, place + 5
    v = at(p, a, b, c, now, algorithm)
  end
  local wait = wait(p, v, now, cost > 0 and asked or 0, algorithm)
  if p[ENFORCED] == 1 then
    if wait ~= 0 then
      admitted = 0
    end
    if delay and cost > 0 then
      local own = delay(p, v, now, algorithm)
      if own > held then
        held = own
      end
    end
  end
  p[WAIT], p[ASKED], p[VIEW] = wait, asked, v
end

local replaced = 0
if admitted == 1 then
  for index = 1, charges do
    local p = rows[index]
    local cost = p[COST]
    if p[WAIT] == 0 and cost > 0 then
      local key, v, algorithm = p[KEY], p[VIEW], p[ALGORITHM]
      charge(p, v, now, cost, held, algorithm)
      local fresh = fresh_at(p, v, now, algorithm)
      if key > groups then
        if v[11] then
          replaced, v[11] = replaced + 1, false
        end
        call('PEXPIRE', KEYS[key], fresh - now)
      else
        cells = values[key]
        if cells[1] == BROKEN then
          replaced = replaced + 1
        end
        local place = p[PLACE]
        cells[1] = CHANGED
        cells[place + 1], cells[place + 2], cells[place + 3], cells[place + 4] = v[1], v[2], v[3], fresh
      end
    end
  end
  for group = 1, groups do
    cells = values[group]
    if cells[1] == CHANGED then
      records_write(KEYS[group], cells, now)
    end
  end
else
  held = 0
end

if charges == 1 then
  local p = rows[1]
  local v, algorithm = p[VIEW], p[ALGORITHM]
  return struct.pack('<ddddddd', admitted, now, held, replaced,
    remaining(p, v, now, algorithm), p[WAIT], reset(p, v, now, algorithm))
end
local reply = { admitted, now, held, replaced, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
for index = 1, charges do
  local p = rows[index]
  local v, algorithm, place = p[VIEW], p[ALGORITHM], 3 * index + 2
  reply[place], reply[place + 1], reply[place + 2] =
    remaining(p, v, now, algorithm), p[WAIT], reset(p, v, now, algorithm)
end
local format = charges > 8 and '<dddd' .. string.rep('ddd', charges) or string.sub(REPLY_FORMAT, 1, 5 + 3 * charges)
return struct.pack(format, unpack(reply))
