-- Forget deletes a record that is not in progress within its lease, and returns it as it was.
-- ARGV: from fence, verb, actor, reason
if not r then return reply(2) end
if r.fence ~= tonumber(ARGV[4]) or (r.state == IN_PROGRESS and not dead(r)) then return reply(0, raw) end
tell(r, r.fence)
redis.call('DEL', KEYS[1])
leave(r.state)
redis.call('ZREM', KEYS[11], ARGV[1])
audit(r.state, 0, r.fence, ARGV[5], ARGV[6], ARGV[7])
return reply(1, raw)
