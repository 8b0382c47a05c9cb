package pgtest

import (
	"maps"
	"os"
	"slices"
)

// These are the environment variables that pgtest reads.
const (
	// EnvDatabaseURL names the variable with the URL of a server to use instead
	// of a private cluster.
	EnvDatabaseURL = "DATABASE_URL"
	// EnvBin names the variable with the folder of the Postgres binaries. The
	// value [NoBin] hides all binaries.
	EnvBin = "PGTEST_BIN"
	// NoBin is the value of PGTEST_BIN with which no binaries are found. It
	// shows how a program behaves on a machine without Postgres.
	NoBin = "none"
)

// Config says which Postgres [Start] starts. The zero Config means the server
// in DATABASE_URL if that is set. Any other Config needs a private cluster, and
// gets one.
type Config struct {
	// Private asks for a private cluster even if DATABASE_URL is set, for
	// programs that crash or restart it.
	Private bool

	// Durable turns fsync and full_page_writes on, and keeps the data on a disk. Committed data then also survives a
	// crash of the machine, at about a third of the speed. Only measurements need it: a test on one machine cannot
	// see the difference.
	Durable bool

	// Settings are server settings by name, as in postgresql.conf. They replace
	// those of pgtest. Nil means none.
	Settings map[string]string

	// Bin is the folder with initdb and postgres. Empty means to look in the
	// places that the package documentation lists.
	Bin string
}

func (c Config) wantsPrivate() bool {
	return c.Private || c.Durable || c.Bin != "" || len(c.Settings) > 0
}

// options returns the command line settings of the server.
func (c Config) options() []string {
	settings := map[string]string{
		"listen_addresses": "127.0.0.1",
		"max_connections":  "200",
		"shared_buffers":   "64MB",
		// Shared memory is under the data folder: segments in /dev/shm would stay after a SIGKILL.
		"dynamic_shared_memory_type": "mmap",
		"log_checkpoints":            "off",
	}
	// synchronous_commit is not among them: off would lose acknowledged commits
	// when a test kills Postgres, and fsync=off already buys the speed.
	if !c.Durable {
		settings["fsync"] = "off"
		settings["full_page_writes"] = "off"
		settings["max_wal_size"] = "256MB" // it may be in memory
	}
	maps.Copy(settings, c.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(settings)) {
		args = append(args, "-c", name+"="+settings[name])
	}
	return args
}

// serverEnv is the environment of initdb and postgres: ours without the PG…
// variables, which would redirect them, and with messages in English.
func serverEnv() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return len(v) >= 2 && v[:2] == "PG"
	})
	return append(env, "LC_ALL=C")
}
