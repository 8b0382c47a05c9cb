-- LocalRead returns what is stored for the call of a local step.
select undone, output, refusal
from /*schema*/saga_local
where saga = @saga and key = @key
