-- Flush is the first statement of a flush, and returns one row. Its settings end with the
-- transaction. The lock timeout is short: if one write of the flush waits, all of them wait. The
-- server is to say if no standby confirmed the commit, whatever an earlier user of the connection
-- had set. The planner is to look sagas up one by one in the order of their IDs. By its own
-- estimate it would often read a table of some ten thousand sagas as a whole. Then the order of
-- the locks would be arbitrary.
select set_config('lock_timeout', @lock_timeout, true), set_config('client_min_messages', 'warning', true), set_config('enable_seqscan', 'off', true),
  set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
  set_config('random_page_cost', '0.1', true)
