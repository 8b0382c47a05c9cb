-- Flush is the first statement of a flush, and returns one row. What it sets is
-- gone with the transaction.
-- The lock timeout is short: everybody in the flush waits with whoever has to.
-- The server is to say if no standby confirmed the commit, whatever somebody who had the
-- connection before chose to hear.
-- The planner is to look sagas up one by one in the order of their IDs. By its own
-- estimate a flush often is a reason to read a table of some ten thousand sagas as
-- a whole; and locks would then come in any order.
select set_config('lock_timeout', @lock_timeout, true), set_config('client_min_messages', 'warning', true), set_config('enable_seqscan', 'off', true),
  set_config('enable_bitmapscan', 'off', true), set_config('enable_hashjoin', 'off', true),
  set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),
  set_config('random_page_cost', '0.1', true)
