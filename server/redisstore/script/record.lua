-- This text is in front of every script that moves a record. It loads and saves the record, and keeps the
-- bucket's indexes in step with it.
-- KEYS: record, active, unknown, quarantined, final, released, cancelled, letters, answers, audit, created
-- ARGV: id, margin in ms, channel, then those of the script
local FORMAT = '>BBBBBBBBBdc16dddddddddc32c16I4I4'
local IN_PROGRESS, COMPLETED, RELEASED, UNKNOWN, QUARANTINED, CANCELLED = 1, 2, 3, 4, 5, 6
local TRANSACTIONAL, OPAQUE = 1, 3
local t = redis.call('TIME')
local now = t[1] * 1000000 + t[2]
local raw = redis.call('GET', KEYS[1])

local function whole(n) return string.format('%.0f', n) end

local function load(raw)
	local r, routeBytes, memoBytes, at, version = {}
	version, r.state, r.effect, r.maybe, r.hasEnvelope, r.waited, r.letter, r.hasFirst, r.algorithm,
		r.fence, r.token, r.lease, r.expires, r.replay, r.answer, r.status, r.deaths,
		r.created, r.keep, r.first, r.sum, r.parent, routeBytes, memoBytes, at = struct.unpack(FORMAT, raw)
	r.route = string.sub(raw, at, at + routeBytes - 1)
	r.memo = string.sub(raw, at + routeBytes, at + routeBytes + memoBytes - 1)
	r.envelope = string.sub(raw, at + routeBytes + memoBytes)
	return r
end

local function pack(r)
	return struct.pack(FORMAT, 1, r.state, r.effect, r.maybe, r.hasEnvelope, r.waited, r.letter, r.hasFirst, r.algorithm,
		r.fence, r.token, r.lease, r.expires, r.replay, r.answer, r.status, r.deaths,
		r.created, r.keep, r.first, r.sum, r.parent, #r.route, #r.memo) .. r.route .. r.memo .. r.envelope
end

-- ends returns the time at which Redis may delete the record by itself, or nil: never.
local function ends(r)
	if r.state == IN_PROGRESS and r.effect ~= OPAQUE then return math.max(r.expires, r.lease + r.keep) end
	if r.state == COMPLETED then return math.max(r.expires, r.replay) end
	if r.state == RELEASED or r.state == CANCELLED then return r.expires end
end

local INDEX = {[IN_PROGRESS] = KEYS[2], [UNKNOWN] = KEYS[3], [QUARANTINED] = KEYS[4], [RELEASED] = KEYS[6], [CANCELLED] = KEYS[7]}

local function leave(state)
	if INDEX[state] then redis.call('ZREM', INDEX[state], ARGV[1]) end
	if state == COMPLETED or state == RELEASED or state == CANCELLED then redis.call('ZREM', KEYS[5], ARGV[1]) end
	if state == COMPLETED then redis.call('ZREM', KEYS[8], ARGV[1]) end
	if state == COMPLETED or state == CANCELLED then redis.call('ZREM', KEYS[9], ARGV[1]) end
end

local function enter(r)
	if INDEX[r.state] then redis.call('ZADD', INDEX[r.state], whole(r.created), ARGV[1]) end
	if r.state == COMPLETED or r.state == RELEASED or r.state == CANCELLED then
		redis.call('ZADD', KEYS[5], whole(ends(r)), ARGV[1])
	end
	if (r.state == COMPLETED or r.state == CANCELLED) and r.answer > 0 and r.hasEnvelope == 1 then
		redis.call('ZADD', KEYS[9], whole(r.answer), ARGV[1])
	end
end

-- tell publishes that the run at fence has ended, if another process waits for that.
local function tell(r, fence)
	if r.waited == 1 then redis.call('PUBLISH', ARGV[3], ARGV[1] .. struct.pack('>d', fence)) end
	r.waited = 0
end

-- save stores the record after a move from state and fence, and returns its bytes.
local function save(r, state, fence)
	if r.state ~= IN_PROGRESS or r.fence ~= fence then tell(r, fence) end
	local raw, at = pack(r), ends(r)
	if at then
		redis.call('SET', KEYS[1], raw, 'PXAT', whole(math.ceil(at / 1000) + ARGV[2]))
	else
		redis.call('SET', KEYS[1], raw)
	end
	if state and state ~= r.state then leave(state) end
	enter(r)
	return raw
end

local function dead(r) return r.state == IN_PROGRESS and now >= r.lease end

-- bereave counts the death of the owner, if the owner is dead.
local function bereave(r)
	if not dead(r) then return end
	r.deaths = r.deaths + 1
	if r.effect ~= TRANSACTIONAL then r.maybe = 1 end
end

local function reply(code, raw) return {code, t[1], t[2], raw} end

local function audit(from, to, fence, verb, actor, reason)
	redis.call('XADD', KEYS[10], '*', 'id', ARGV[1], 'at', whole(now), 'from', from, 'to', to, 'fence', whole(fence),
		'verb', verb, 'actor', actor, 'reason', reason)
end

if raw and (#raw < 161 or string.byte(raw) ~= 1) then return redis.error_reply('UNREADABLE record') end
local r = raw and load(raw)
-- The codes of a reply: 0 nothing changed, 1 moved, 2 absent, 3 too old.
