-- Stats counts the records of one bucket.
-- KEYS: active, unknown, quarantined, final, released, cancelled
-- Result: {six counts, now, created of the oldest in progress or ''}
local t = redis.call('TIME')
local result = {}
for i = 1, 6 do result[i] = redis.call('ZCARD', KEYS[i]) end
result[7] = string.format('%.0f', t[1] * 1000000 + t[2])
result[8] = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2] or ''
return result
