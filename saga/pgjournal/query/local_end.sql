-- LocalEnd stores the output of the call that local_begin.sql began, in the same transaction. The row
-- count is 0 if that transaction has ended meanwhile.
update /*schema*/saga_local
set output = @output
where saga = @saga and key = @key and output is null and refusal is null
