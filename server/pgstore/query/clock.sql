-- Clock returns the server's time, which decides which times are past.
select clock_timestamp()
