-- Signals returns the signals of sagas.
select saga, name, value
from /*schema*/saga_signal
where saga = any (@ids::uuid[])
