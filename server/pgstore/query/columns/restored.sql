-- Restored gives the handler's role back where as_pool.sql has changed it.
case when current_setting('fanonce.role', true) <> ''
  then set_config('role', current_setting('fanonce.role'), set_config('fanonce.role', '', true) is not null)
end
