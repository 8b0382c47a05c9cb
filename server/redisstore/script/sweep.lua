-- Sweep deletes those of some records that are not needed any more, and the entries of records that are gone.
-- It also drops the envelopes whose time is over.
-- KEYS: active, final, released, cancelled, letters, answers, created, then a record for each id
-- ARGV: most records to delete, then the ids
-- Result: the number of deleted records.
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local swept, most = 0, tonumber(ARGV[1])

local function forget(id)
	for i = 1, 7 do redis.call('ZREM', KEYS[i], id) end
end

-- spent reports that the record with this head is not needed any more.
local function spent(head)
	local _, state, effect = string.byte(head, 1, 3)
	local lease, expires, replay = struct.unpack('>ddd', head, 34)
	if now < expires then return false end
	if state == 2 then return now >= replay end
	if state == 1 then return now >= lease and effect ~= 3 end
	return state == 3 or state == 6
end

-- drop removes an envelope whose time is over.
local function drop(key, id)
	local raw = redis.call('GET', key)
	local answer = struct.unpack('>d', raw, 58)
	if answer == 0 or now < answer then return end
	local route, memo = struct.unpack('>I4I4', raw, 154)
	redis.call('SET', key, string.sub(raw, 1, 4) .. '\0' .. string.sub(raw, 6, 161 + route + memo), 'KEEPTTL')
	redis.call('ZREM', KEYS[6], id)
end

for i = 2, #ARGV do
	local key, id = KEYS[i + 6], ARGV[i]
	local head = redis.call('GETRANGE', key, 0, 160)
	if head == '' then
		forget(id)
	elseif #head == 161 and string.byte(head) == 1 then
		if spent(head) then
			if swept < most then
				swept = swept + 1
				redis.call('DEL', key)
				forget(id)
			end
		elseif string.byte(head, 5) == 1 then
			drop(key, id)
		end
	end
end
return swept
