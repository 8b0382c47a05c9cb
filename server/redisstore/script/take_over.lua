-- Take over makes the token the owner of a record that is released, or whose owner is dead.
-- ARGV: from fence, effect, token, lease, keep, window, route, memo, version and sum of the fingerprint
if not r then return reply(2) end
local fence, state = r.fence, r.state
if fence ~= tonumber(ARGV[4]) or (state ~= RELEASED and not dead(r)) then return reply(0, raw) end
if r.hasFirst == 1 and r.first < now - ARGV[9] then return reply(3) end
if state == RELEASED and r.maybe == 0 then r.algorithm, r.sum = tonumber(ARGV[12]), ARGV[13] end
bereave(r)
r.state, r.effect, r.token, r.fence = IN_PROGRESS, tonumber(ARGV[5]), ARGV[6], fence + 1
r.lease, r.keep, r.route, r.memo = now + ARGV[7], tonumber(ARGV[8]), ARGV[10], ARGV[11]
return reply(1, save(r, state, fence))
