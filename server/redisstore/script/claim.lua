-- Claim makes the request's token the owner of an absent key. It is on the path of every request, so it builds the
-- record from parts that the caller packed, and finds out by writing whether the key is absent: each command costs.
-- KEYS: record, active, created
-- ARGV: id, head (bytes 1 to 33), lease, keep, first sent or '', window, '1' if Opaque, tail (from byte 90), margin in ms
-- Result: {s, µs} if the caller won, {s, µs, record} if the key is taken, {s, µs, 0} if the key is too old.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
if ARGV[5] ~= '' and tonumber(ARGV[5]) < now - ARGV[6] then return {t[1], t[2], redis.call('GET', KEYS[1]) or 0} end
local lease, expires = now + ARGV[3], now + ARGV[4]
local raw = ARGV[2] .. struct.pack('>dddddd', lease, expires, 0, 0, 0, 0) .. struct.pack('>d', now) .. ARGV[8]
local absent
if ARGV[7] == '1' then -- the only trace of effects that may have happened: no time ends it
	absent = redis.pcall('SET', KEYS[1], raw, 'NX')
else
	absent = redis.pcall('SET', KEYS[1], raw, 'NX', 'PXAT', string.format('%.0f', math.ceil((lease + ARGV[4]) / 1000) + ARGV[9]))
end
if not absent or absent.err then -- a server that takes no writes, because it is full, say, still has its records
	raw = redis.call('GET', KEYS[1])
	if raw then return {t[1], t[2], raw} end
	return absent
end
local created = string.format('%.0f', now)
redis.call('ZADD', KEYS[2], created, ARGV[1])
redis.call('ZADD', KEYS[3], created, ARGV[1])
return {t[1], t[2]}
