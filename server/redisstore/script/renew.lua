-- Renew extends the lease of an owner, and never shortens it. It writes eight bytes of the record.
-- KEYS: record
-- ARGV: owner (fence and token, packed), lease, margin in ms
-- Result: 1, or 0 if the owner does not own the key.
local head = redis.call('GETRANGE', KEYS[1], 0, 97)
if head == '' then return 0 end
if #head < 98 or string.byte(head) ~= 1 then return redis.error_reply('UNREADABLE record') end
if string.byte(head, 2) ~= 1 or string.sub(head, 10, 33) ~= ARGV[1] then return 0 end
local t = redis.call('TIME')
local until_ = t[1] * 1000000 + t[2] + ARGV[2]
if until_ <= struct.unpack('>d', head, 34) then return 1 end
redis.call('SETRANGE', KEYS[1], 33, struct.pack('>d', until_))
if string.byte(head, 3) ~= 3 then -- Opaque has no end
	local at = math.max(struct.unpack('>d', head, 42), until_ + struct.unpack('>d', head, 90))
	redis.call('PEXPIREAT', KEYS[1], string.format('%.0f', math.ceil(at / 1000) + ARGV[3]))
end
return 1
