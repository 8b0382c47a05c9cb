-- TooOld tells whether a request was first sent before its window. It returns
-- one row. Asked only where claim.sql inserted nothing and there is no record.
select @first_sent::timestamptz < clock_timestamp() - @window::interval
