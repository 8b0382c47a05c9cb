-- Defer lets one caller look into an unknown key for a while.
-- ARGV: from fence, for how long
if not r then return reply(2) end
if r.fence ~= tonumber(ARGV[4]) or r.state ~= UNKNOWN or now < r.lease then return reply(0) end
r.lease = now + ARGV[5]
save(r, UNKNOWN, r.fence)
return reply(1)
