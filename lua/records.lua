-- The string value of a group: the counters of one owner, packed.
--
-- struct '<Hd' of MARK and the instant up to which the key lives, and for each counter 'I6dddd' of its id, the three
-- numbers of its state, and the instant from which it equals a fresh one. Unpacked, it is a flat list of the same
-- numbers. A value that is anything else counts as empty, is replaced by the next write and counted as such.

-- Says format and version; another version of this program that packs differently must change it.
local MARK = 21505
-- Of a value of up to eight records, or the beginning of it.
local RECORDS_FORMAT = '<HdI6ddddI6ddddI6ddddI6ddddI6ddddI6ddddI6ddddI6dddd'
-- In the place of MARK, in memory only: something is to be written; the value was no group.
local CHANGED = 0
local BROKEN = 1
-- Bytes before the first record, and of a record.
local HEAD_BYTES = 10
local RECORD_BYTES = 38
-- More than any group has, and as many as the stack of a script holds at once.
local MAX_RECORDS = 1000
-- A key lives this much longer than its counters matter, at most. Within it, writes leave its time to live alone.
local SLACK_MS = 900
local MAX_SPAN_MS = 2^52

-- The numbers in a value: what GET or MGET gave, false where nothing was.
local function records_of(value)
  if not value then
    return { MARK, 0 }
  end
  local records = (#value - HEAD_BYTES) / RECORD_BYTES
  -- An error in place of a string has no length either.
  if records < 1 or records % 1 ~= 0 or records > MAX_RECORDS then
    return { BROKEN, 0 }
  end
  local format = records > 8 and '<Hd' .. string.rep('I6dddd', records) or string.sub(RECORDS_FORMAT, 1, 3 + 6 * records)
  local cells = { struct.unpack(format, value) }
  if cells[1] ~= MARK then
    return { BROKEN, 0 }
  end
  cells[3 + 5 * records] = nil
  return cells
end

-- The place of a record; that after the last one if it is not there.
local function records_find(cells, id)
  local place = 3
  local record = cells[place]
  while record and record ~= id do
    place = place + 5
    record = cells[place]
  end
  return place
end

-- Writes a group back without what equals fresh counters by now. `lasting`: the time to live runs by the clock of `now`.
local function records_write(key, cells, now, lasting)
  local longest, place, last = now, 3, #cells
  while place < last do
    local fresh_at = cells[place + 4]
    if fresh_at > now then
      if fresh_at > longest then
        longest = fresh_at
      end
      place = place + 5
    else
      for cell = place, place + 4 do
        cells[cell] = cells[last - place - 4 + cell]
      end
      for cell = last, last - 4, -1 do
        cells[cell] = nil
      end
      last = last - 5
    end
  end
  if last == 2 then
    redis.call('DEL', key)
    return
  end
  cells[1] = MARK
  local records = (last - 2) / 5
  local format = records > 8 and '<Hd' .. string.rep('I6dddd', records) or string.sub(RECORDS_FORMAT, 1, 3 + 6 * records)
  if lasting and cells[2] >= longest and cells[2] <= longest + SLACK_MS then
    redis.call('SET', key, struct.pack(format, unpack(cells)), 'KEEPTTL')
    return
  end
  local ttl = longest - now
  if ttl > MAX_SPAN_MS then
    ttl = MAX_SPAN_MS
  end
  ttl = ttl - ttl % 1 + SLACK_MS
  cells[2] = now + ttl
  redis.call('SET', key, struct.pack(format, unpack(cells)), 'PX', ttl)
end
