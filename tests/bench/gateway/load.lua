-- A thousand keys that take turns. `pace.rs` and `lab.py` make the same ones.
local KEYS = 1000
local requests, turn = {}, 0

function init()
  for key = 0, KEYS - 1 do
    requests[key] = wrk.format('GET', '/api/x', { ['Host'] = 'bench.test', ['X-API-Key'] = string.format('key-%016d', key) })
  end
end

function request()
  turn = (turn + 1) % KEYS
  return requests[turn]
end
