-- ReaderSettings goes before each statement of a Reader, and returns one row. The settings end with
-- the transaction. The planner must use the indexes: for a rare state it would read the whole table.
-- A person who looks gets one process of the server.
select set_config('enable_seqscan', 'off', true), set_config('enable_bitmapscan', 'off', true),
  set_config('max_parallel_workers_per_gather', '0', true), set_config('jit', 'off', true)
