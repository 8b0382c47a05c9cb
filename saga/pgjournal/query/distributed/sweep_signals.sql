-- SweepSignals deletes old signals without a saga. keep_signals.sql has the others wait for the next look.
delete from /*schema*/saga_signal g
where g.check_at <= statement_timestamp() and not exists (select from /*schema*/saga s where s.id = g.saga)
