-- KeepSignals has signals wait for the next look of the sweep, behind sweep_signals.sql.
update /*schema*/saga_signal
set check_at = statement_timestamp() + @retention::interval
where check_at <= statement_timestamp()
