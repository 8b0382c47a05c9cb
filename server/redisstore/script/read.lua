-- Read returns the clock, and the first bytes of a record: all of them if ARGV[1] is '-1'.
-- KEYS: record
-- Result: {s, µs, record}; an absent record is empty.
local t = redis.call('TIME')
return {t[1], t[2], redis.call('GETRANGE', KEYS[1], 0, ARGV[1])}
