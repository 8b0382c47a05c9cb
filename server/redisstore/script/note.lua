-- Note asks whoever ends the run at a fence to publish that.
-- KEYS: record
-- ARGV: fence (packed)
-- Result: 1 if that run is in progress, else 0.
local head = redis.call('GETRANGE', KEYS[1], 0, 32)
if #head < 33 or string.byte(head, 2) ~= 1 or string.sub(head, 10, 17) ~= ARGV[1] then return 0 end
if string.byte(head, 6) == 0 then redis.call('SETRANGE', KEYS[1], 5, '\1') end
return 1
