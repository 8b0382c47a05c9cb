-- Unheard returns sagas with a signal that has not woken them. There are rarely any. The order is that of the index, so
-- that the server uses it without statistics, too.
select distinct saga
from /*schema*/saga_signal
where not woken
order by saga
limit @limit
