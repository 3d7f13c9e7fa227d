-- The string value of a group: the counters of one caller that are split alike, packed.
--
-- struct '<H' of MARK, and for each counter 'I6dddd' of its id, the three numbers of its state, and the instant from
-- which it equals a fresh one. Unpacked, it is a flat list of the same numbers. Every write sets the key's time to live anew, so
-- that one that was lost heals. A value that is anything else counts as empty, is replaced by the next write and counted as such.

-- Says format and version; another version of this program that packs differently must change it.
local MARK = 21505
-- Of a value of up to eight records, or the beginning of it.
local RECORDS_FORMAT = '<HI6ddddI6ddddI6ddddI6ddddI6ddddI6ddddI6ddddI6dddd'
-- In the place of MARK, in memory only: something is to be written; the value was no group.
local CHANGED = 0
local BROKEN = 1
-- Bytes before the first record, and of a record.
local HEAD_BYTES = 2
local RECORD_BYTES = 38
-- As many as the stack of a script holds at once, with room to spare.
local MAX_RECORDS = 1000
local MAX_SPAN_MS = 2^52

-- The numbers in a value: what GET or MGET gave, false where nothing was.
local function records_of(value)
  if not value then
    return { MARK }
  end
  local records = (#value - HEAD_BYTES) / RECORD_BYTES
  -- An error in place of a string has no length either.
  if records < 1 or records % 1 ~= 0 or records > MAX_RECORDS then
    -- That the user may not read is no value: taken for one, it would admit everybody.
    if value.err and string.sub(value.err, 1, 9) ~= 'WRONGTYPE' then
      error(value.err)
    end
    return { BROKEN }
  end
  local format = records > 8 and '<H' .. string.rep('I6dddd', records) or string.sub(RECORDS_FORMAT, 1, 2 + 6 * records)
  local cells = { struct.unpack(format, value) }
  if cells[1] ~= MARK then
    return { BROKEN }
  end
  cells[2 + 5 * records] = nil
  return cells
end

-- The place of a record; that after the last one if it is not there.
local function records_find(cells, id)
  local place = 2
  local record = cells[place]
  while record and record ~= id do
    place = place + 5
    record = cells[place]
  end
  return place
end

-- Takes a record out: the last one takes its place. `last` is how many cells there are; returns how many are left.
local function records_remove(cells, place, last)
  for cell = place, place + 4 do
    cells[cell] = cells[last - place - 4 + cell]
  end
  for cell = last, last - 4, -1 do
    cells[cell] = nil
  end
  return last - 5
end

-- Writes a group back without what equals fresh counters by now.
local function records_write(key, cells, now)
  local longest, place, last = now, 2, #cells
  while place < last do
    local fresh_at = cells[place + 4]
    if fresh_at > now then
      if fresh_at > longest then
        longest = fresh_at
      end
      place = place + 5
    else
      last = records_remove(cells, place, last)
    end
  end
  -- What is too much: of those that were there before, the one that is fresh first. What it held is granted again.
  local before = 5 * MAX_RECORDS - 3
  while last > 1 + 5 * MAX_RECORDS do
    local first = 2
    for other = 7, before, 5 do
      if cells[other + 4] < cells[first + 4] then
        first = other
      end
    end
    for cell = 0, 4 do
      cells[first + cell] = cells[before + cell]
    end
    last, before = records_remove(cells, before, last), before - 5
  end
  if last == 1 then
    redis.call('DEL', key)
    return
  end
  cells[1] = MARK
  local records = (last - 1) / 5
  local format = records > 8 and '<H' .. string.rep('I6dddd', records) or string.sub(RECORDS_FORMAT, 1, 2 + 6 * records)
  local ttl = longest - now
  if ttl > MAX_SPAN_MS then
    ttl = MAX_SPAN_MS
  end
  ttl = ttl - ttl % 1
  redis.call('SET', key, struct.pack(format, unpack(cells)), 'PX', ttl)
end
