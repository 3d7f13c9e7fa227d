-- Where a window begins and ends: spans aligned to the Unix epoch, months and years of the UTC calendar.
--
-- The day arithmetic is Howard Hinnant's (https://howardhinnant.github.io/date_algorithms.html), as in its twin
-- src/algorithm/calendar.rs. A window is its milliseconds, -1 for a month, -2 for a year.

local MONTH = -1
local DAY_MS = 86400000
local HORIZON_MS = 2^43
local EPOCH_SHIFT_DAYS = 719468
local DAYS_PER_ERA = 146097

-- The window of that span that holds `instant`: start of the one before, start, end.
local function frame_of_span(window, instant)
  if instant > HORIZON_MS then
    instant = HORIZON_MS
  elseif instant < -HORIZON_MS then
    instant = -HORIZON_MS
  end
  local start = instant - instant % window
  return start - window, start, start + window
end

-- a / b, rounded down.
local function floor_div(a, b)
  return (a - a % b) / b
end

-- Days from 1970-01-01 to the first of a month; `month` 1 to 12.
local function days_from_civil(year, month)
  -- The year begins in March, so that the leap day is its last.
  if month <= 2 then
    year = year - 1
  end
  local year_of_era = year % 400
  local day_of_year = floor_div(153 * (month + (month > 2 and -3 or 9)) + 2, 5)
  local day_of_era = year_of_era * 365 + floor_div(year_of_era, 4) - floor_div(year_of_era, 100) + day_of_year
  return floor_div(year, 400) * DAYS_PER_ERA + day_of_era - EPOCH_SHIFT_DAYS
end

-- Year and month (1 to 12) of a count of days from 1970-01-01.
local function civil_from_days(days)
  local shifted = days + EPOCH_SHIFT_DAYS
  local era = floor_div(shifted, DAYS_PER_ERA)
  local day_of_era = shifted % DAYS_PER_ERA
  local year_of_era = floor_div(
    day_of_era - floor_div(day_of_era, 1460) + floor_div(day_of_era, 36524) - floor_div(day_of_era, 146096), 365)
  local day_of_year = day_of_era - (365 * year_of_era + floor_div(year_of_era, 4) - floor_div(year_of_era, 100))
  local shifted_month = floor_div(5 * day_of_year + 2, 153)
  local month = shifted_month < 10 and shifted_month + 3 or shifted_month - 9
  return year_of_era + era * 400 + (month <= 2 and 1 or 0), month
end

-- The first instant of a month, counted from January of the year 0.
local function start_of_month(month)
  return days_from_civil(floor_div(month, 12), month % 12 + 1) * DAY_MS
end

-- The window that holds `instant`: start of the one before, start, end. Where no limit has a calendar window, the loader puts
-- `frame_of_span` in its place.
local function frame(window, instant)
  if window > 0 then
    return frame_of_span(window, instant)
  end
  if instant > HORIZON_MS then
    instant = HORIZON_MS
  elseif instant < -HORIZON_MS then
    instant = -HORIZON_MS
  end
  local months = window == MONTH and 1 or 12
  local year, month = civil_from_days(floor_div(instant, DAY_MS))
  local counted = year * 12 + month - 1
  local first = counted - counted % months
  return start_of_month(first - months), start_of_month(first), start_of_month(first + months)
end
