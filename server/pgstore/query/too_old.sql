-- TooOld tells whether a request was first sent before its window. It returns one row. It is asked
-- only if claim.sql inserted nothing although no record exists.
select @first_sent::timestamptz < clock_timestamp() - @window::interval
