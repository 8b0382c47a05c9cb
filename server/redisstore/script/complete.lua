-- Complete records the answer of a run, if token and fence are still the owner's. It changes bytes
-- of the packed record, because it is on the path of every request.
-- KEYS: record, active, final, letters, answers, unknown
-- ARGV: id, owner (fence and token, packed), '1' if the run may have had effects, replay for, keep answer or '0',
--       '1' if a dead letter, status (packed), '1' if there is an envelope, envelope, margin in ms, channel
-- Result: 1, or 0 if the owner does not own the key.
local raw = redis.call('GET', KEYS[1])
if not raw then return 0 end
if #raw < 161 or string.byte(raw) ~= 1 then return redis.error_reply('UNREADABLE record') end
if string.sub(raw, 10, 33) ~= ARGV[2] then return 0 end
local state, effect, maybe, _, waited = string.byte(raw, 2, 6)
if state == 2 then return 1 end -- repeated after a lost answer
if state ~= 1 and state ~= 4 then return 0 end -- in progress, or unknown since
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local replay, answer = now + ARGV[4], 0
if ARGV[5] ~= '0' then answer = now + ARGV[5] end
if ARGV[3] == '1' then maybe = 1 end
local due = math.max(struct.unpack('>d', raw, 42), replay)
local route, memo = struct.unpack('>I4I4', raw, 154)
raw = string.char(1, 2, effect, maybe, ARGV[8], 0, ARGV[6]) .. string.sub(raw, 8, 49) ..
	struct.pack('>dd', replay, answer) .. ARGV[7] .. string.sub(raw, 74, 161 + route + memo) .. ARGV[9]
redis.call('SET', KEYS[1], raw, 'PXAT', string.format('%.0f', math.ceil(due / 1000) + ARGV[10]))
redis.call('ZREM', KEYS[state == 1 and 2 or 6], ARGV[1])
redis.call('ZADD', KEYS[3], string.format('%.0f', due), ARGV[1])
if ARGV[6] == '1' then redis.call('ZADD', KEYS[4], string.format('%.0f', struct.unpack('>d', raw, 82)), ARGV[1]) end
if answer > 0 and ARGV[8] == '1' then redis.call('ZADD', KEYS[5], string.format('%.0f', answer), ARGV[1]) end
if waited == 1 then redis.call('PUBLISH', ARGV[11], ARGV[1] .. string.sub(ARGV[2], 1, 8)) end
return 1
