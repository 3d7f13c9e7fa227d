-- What acquire.lua does, for the decision that is met most: a few charges of counters that lie in strings, each counter named
-- once. The loader writes it out for the algorithms of those charges: no loop, no table, no call of a function of ours.
--
-- KEYS and the reply are those of acquire.lua, and so is every number. ARGV[1] has the clock, and of each charge's row only the
-- first seven. The loader repeats what stands between `--: each group`
-- or `--: each row` and `--: end` for each group, or each row of the group around it; a word that ends in `_group` or `_row` gets its
-- number; `each_row(...)` is a list of it for each row, and `{...}` in a string is that for each row, one after the other.

local COST, ENFORCED, ID = 5, 6, 7

local now, each_row(p_row[1], p_row[2], p_row[3], p_row[4], p_row[5], p_row[6], p_row[7]) =
  struct.unpack('<d{ddddddd}', ARGV[1])
if now == 0 then
  local time = redis.call('TIME')
  local micros = time[2] + 0
  now = time[1] * 1000 + (micros - micros % 1000) / 1000
end
local admitted, held, replaced = 1, 0, 0

--: each group
-- Mostly the value is nothing, or just the records that are asked for, in that order; then there are no cells.
local cells_group, value_group = nil, redis.pcall('GET', KEYS[number_group])
local mark_group, each_row(id_row, a_row, b_row, c_row, fresh_row)
local each_row(place_row)
if not value_group then
  each_row(a_row, b_row, c_row, fresh_row) = each_row(0, 0, 0, now)
else
  if #value_group == HEAD_BYTES + rows_group * RECORD_BYTES then
    mark_group, each_row(id_row, a_row, b_row, c_row, fresh_row) = struct.unpack('<H{I6dddd}', value_group)
  end
  if mark_group ~= MARK
    --: each row
    or id_row ~= p_row[ID]
    --: end
  then
    cells_group = records_of(value_group)
    --: each row
    place_row = records_find(cells_group, p_row[ID])
    a_row, b_row, c_row = cells_group[place_row + 1], cells_group[place_row + 2], cells_group[place_row + 3]
    if not a_row then
      a_row, b_row, c_row = 0, 0, 0
      cells_group[place_row], cells_group[place_row + 1], cells_group[place_row + 2], cells_group[place_row + 3] = p_row[ID], 0, 0, 0
      cells_group[place_row + 4] = now
    end
    --: end
  end
  --: each row
  if a_row % 1 ~= 0 or b_row % 1 ~= 0 or c_row % 1 ~= 0 then
    a_row, b_row, c_row = 0, 0, 0
  end
  --: end
end
--: each row
local v_row = at(p_row, a_row, b_row, c_row, now)
local cost_row = p_row[COST]
local wait_row = wait(p_row, v_row, now, cost_row)
if wait_row ~= 0 and p_row[ENFORCED] == 1 then
  admitted = 0
end
--: end
--: each row with delay
if p_row[ENFORCED] == 1 and cost_row > 0 then
  local own_row = delay(p_row, v_row, now)
  if own_row > held then
    held = own_row
  end
end
--: end
--: end

if admitted == 1 then
  --: each group
  local changed_group, longest_group, whole_group = false, now, not cells_group
  --: each row
  if wait_row == 0 and cost_row > 0 then
    charge(p_row, v_row, now, cost_row, held)
    fresh_row = fresh_at(p_row, v_row, now)
    changed_group = true
    if cells_group then
      cells_group[place_row + 1], cells_group[place_row + 2], cells_group[place_row + 3] = v_row[1], v_row[2], v_row[3]
      cells_group[place_row + 4] = fresh_row
    else
      a_row, b_row, c_row = v_row[1], v_row[2], v_row[3]
    end
  end
  if not cells_group then
    if not (fresh_row > now) then
      whole_group = false
    elseif fresh_row > longest_group then
      longest_group = fresh_row
    end
  end
  --: end
  if changed_group then
    if whole_group then
      local ttl = longest_group - now
      if ttl > MAX_SPAN_MS then
        ttl = MAX_SPAN_MS
      end
      redis.call('SET', KEYS[number_group],
        struct.pack('<H{I6dddd}', MARK, each_row(p_row[ID], a_row, b_row, c_row, fresh_row)), 'PX', ttl - ttl % 1)
    else
      if not cells_group then
        cells_group = { MARK, each_row(p_row[ID], a_row, b_row, c_row, fresh_row) }
      elseif cells_group[1] == BROKEN then
        replaced = replaced + 1
      end
      records_write(KEYS[number_group], cells_group, now)
    end
  end
  --: end
else
  held = 0
end

--: each row
local remaining_row = remaining(p_row, v_row, now)
local reset_row = reset(p_row, v_row, now)
--: end
return struct.pack('<dddd{ddd}', admitted, now, held, replaced, each_row(remaining_row, wait_row, reset_row))
