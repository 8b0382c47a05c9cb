-- Cancel makes the key a tombstone, unless it is completed, cancelled, or in progress within its lease.
-- It returns the record as it was before.
-- ARGV: token, keep, '1' if the effects were undone, a tombstone of an absent key (packed, without its times)
if not r then
	local blank = load(ARGV[7])
	blank.created, blank.expires = now, now + ARGV[5]
	save(blank)
	redis.call('ZADD', KEYS[11], whole(now), ARGV[1])
	return reply(2)
end
local state, fence = r.state, r.fence
local undoable = ARGV[6] == '1' and state == COMPLETED and r.status < 400
if not undoable and (state == COMPLETED or state == CANCELLED or (state == IN_PROGRESS and not dead(r))) then
	return reply(0, raw)
end
bereave(r)
r.state, r.token, r.fence, r.letter = CANCELLED, ARGV[4], fence + 1, 0
-- As long as a new tombstone: else a late forward call could run after its undo.
r.expires = math.max(r.expires, now + ARGV[5], r.replay)
save(r, state, fence)
return reply(1, raw)
