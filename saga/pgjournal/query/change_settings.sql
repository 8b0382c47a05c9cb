-- ChangeSettings is the first statement of a transaction that applies a verb, and returns one row. The
-- server itself ends the next statement after a time, also if the process of the operator dies. It must
-- say if no standby confirmed the commit.
select set_config('statement_timeout', @statement_timeout, true), set_config('client_min_messages', 'warning', true)
