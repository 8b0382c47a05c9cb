# The reaper of one private cluster. $1 is the cluster's folder. Standard input is a pipe from the program that owns
# the cluster. Each line is the process id of its running postmaster, or empty if none is running. The pipe breaks
# when the owner stops the cluster or dies.
pid=
while read -r line; do pid=$line; done

# SIGQUIT stops the server without a checkpoint: the data is not kept. A postmaster that ends removes its pid file.
# The process may stay long as a zombie, on systems that do not reap orphans.
[ -n "$pid" ] && kill -QUIT "$pid" 2>/dev/null
tries=0
while [ -n "$pid" ] && [ -e "$1/data/postmaster.pid" ] && kill -0 "$pid" 2>/dev/null && [ "$tries" -lt 100 ]; do
	tries=$((tries + 1))
	sleep 0.1
done

# A postmaster that was killed leaves its System V segment; line 7 of its pid file
# is "key id".
if [ -r "$1/data/postmaster.pid" ]; then
	set -- "$1" $(sed -n 7p "$1/data/postmaster.pid")
	[ -n "$3" ] && ipcrm -m "$3" 2>/dev/null
fi

# Backends of a killed postmaster may write for a moment yet.
tries=0
until rm -rf "$1" || [ "$tries" -ge 100 ]; do
	tries=$((tries + 1))
	sleep 0.1
done
