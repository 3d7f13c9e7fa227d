-- Removes counters, each as if nothing had ever been charged to it. What else their groups hold stays. Twin of
-- MemoryStore::forget_now.
--
-- KEYS: first the strings, one for each group of counters; then a sorted set for each log.
-- ARGV[1]: doubles, little endian. Two for all: the clock in ms (0: Redis TIME; anything else is for tests) and how many of
-- the keys are strings. Then two for each counter: its key (an index in KEYS) and the id of its record (of no meaning for a log).
-- Returns doubles, little endian, in one string: for each counter 1 if it was there, else 0.

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

local function forget_record(cells, id)
  local place, last = records_find(cells, id), #cells
  if place > last then
    return 0
  end
  records_remove(cells, place, last)
  cells[1] = CHANGED
  return 1
end

local reply = {}
while position < #arguments do
  local key, id, next_position = struct.unpack('<dd', arguments, position)
  position = next_position
  if key > groups then
    reply[#reply + 1] = struct.pack('<d', call('DEL', KEYS[key]))
  else
    local cells = values[key]
    if not cells then
      cells = records_of(redis.pcall('GET', KEYS[key]))
      values[key] = cells
    end
    reply[#reply + 1] = struct.pack('<d', forget_record(cells, id))
  end
end

for group = 1, groups do
  local cells = values[group]
  if cells and cells[1] == CHANGED then
    records_write(KEYS[group], cells, now)
  end
end
return table.concat(reply)
