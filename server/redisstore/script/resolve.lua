-- Resolve moves a key that no run can settle to the state that a person chose.
-- ARGV: from fence, to state, token, status, '1' if there is an envelope, envelope, replay for, keep answer or '0',
--       keep, deaths, '1' if a run may have had effects, verb, actor, reason
if not r then return reply(2) end
local state, fence, from = r.state, r.fence, tonumber(ARGV[4])
if fence ~= from or not (state == UNKNOWN or state == QUARANTINED or dead(r)) then
	if r.token == ARGV[6] and fence == from + 1 then return reply(1, raw) end -- repeated after a lost answer
	return reply(0, raw)
end
r.state, r.token, r.fence = tonumber(ARGV[5]), ARGV[6], fence + 1
r.deaths, r.maybe, r.status = tonumber(ARGV[13]), tonumber(ARGV[14]), 0
if r.state == COMPLETED then
	r.status, r.hasEnvelope, r.envelope, r.replay = tonumber(ARGV[7]), tonumber(ARGV[8]), ARGV[9], now + ARGV[10]
	if ARGV[11] ~= '0' then r.answer = now + ARGV[11] end
elseif r.state == CANCELLED then
	r.expires = math.max(r.expires, now + ARGV[12])
end
local after = save(r, state, fence)
audit(state, r.state, r.fence, ARGV[15], ARGV[16], ARGV[17])
return reply(1, after)
