-- AsHandler ends what as_pool.sql began. It returns one row.
select /*restored*/
