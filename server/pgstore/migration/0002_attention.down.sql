-- The records keep their states: lists read the whole table again. Which completed keys are of dead
-- letters is forgotten.
drop table idempotency_attention;
delete from idempotency_version where version = 2;
