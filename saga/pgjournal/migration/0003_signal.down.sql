-- Forgets what sagas were sent: a saga that has not taken its value yet waits on.
drop table saga_signal;
delete from saga_version where version = 3;
