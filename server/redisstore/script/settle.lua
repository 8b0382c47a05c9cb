-- Settle ends the owner's run without an answer. complete.lua records answers.
-- ARGV: fence, token, to state, '1' if the run may have had effects, failed attempts
if not r or r.token ~= ARGV[5] or r.fence ~= tonumber(ARGV[4]) then return reply(0) end
local from, to = r.state, tonumber(ARGV[6])
if from ~= IN_PROGRESS and not (from == UNKNOWN and to == RELEASED) then return reply(0) end
r.state = to
if ARGV[7] == '1' then r.maybe = 1 end
r.status = tonumber(ARGV[8]) > 0 and 1000 + ARGV[8] or 0 -- no status of an answer is as high
if r.state ~= RELEASED then r.lease = now end
save(r, from, r.fence)
return reply(1)
