-- ReaderSettings goes before each statement of a Reader, and returns one row. The settings end with
-- the transaction. The server itself ends a statement that takes too long. The planner must use the
-- indexes: for a rare state it would read the whole table. A person who looks gets one
-- process of the server, and no time for compiling the statement.
select set_config('transaction_read_only', 'on', true), set_config('statement_timeout', @statement_timeout, true),
  set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)
