-- Due returns what a sweep of one bucket may have to do: {ids past their retention, ids in progress, ids whose
-- answers are past their time}.
-- KEYS: final, active, answers
-- ARGV: most ids of each, most ids in progress
local t = redis.call('TIME')
local now = string.format('%.0f', t[1] * 1000000 + t[2])
local active = {}
if ARGV[2] ~= '0' then active = redis.call('ZRANGE', KEYS[2], 0, ARGV[2] - 1) end
return {
	redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now, 'LIMIT', 0, ARGV[1]),
	active,
	redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', now, 'LIMIT', 0, ARGV[1]),
}
