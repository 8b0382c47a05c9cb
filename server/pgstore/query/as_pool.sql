-- AsPool lets the statements behind it in a handler's transaction write the tables, whatever role the handler has set.
-- It returns one row. A role that may write the table stays. as_handler.sql gives back the handler's.
select case when not has_any_column_privilege('/*schema*/idempotency', 'update')
  then set_config('role', @role, set_config('fanonce.role', current_setting('role'), true) is not null)
end
