-- Quarantine takes the key of a dead owner out of use.
-- ARGV: from fence, to state, route or ''
if not r then return reply(2) end
if r.fence ~= tonumber(ARGV[4]) or not dead(r) then return reply(0, raw) end
bereave(r)
r.state = tonumber(ARGV[5])
if ARGV[6] ~= '' then r.route = ARGV[6] end
return reply(1, save(r, IN_PROGRESS, r.fence))
