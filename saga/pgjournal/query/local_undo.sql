-- LocalUndo marks a call as undone, in the transaction of the undo's rows, and returns what was stored
-- for the call. It returns no row if the call is undone already, or if there is none.
update /*schema*/saga_local
set undone = true
where saga = @saga and key = @key and not undone
returning output, refusal
