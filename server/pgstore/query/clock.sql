-- Clock returns the server's time, which decides what is past.
select clock_timestamp()
