-- Attention counts the keys of one bucket that need a person.
-- KEYS: unknown, quarantined, letters
-- Result: {count, count, count, now, created or '' of the oldest of each}
local t = redis.call('TIME')
local result = {0, 0, 0, string.format('%.0f', t[1] * 1000000 + t[2])}
for i = 1, 3 do
	result[i] = redis.call('ZCARD', KEYS[i])
	result[4 + i] = redis.call('ZRANGE', KEYS[i], 0, 0, 'WITHSCORES')[2] or ''
end
return result
