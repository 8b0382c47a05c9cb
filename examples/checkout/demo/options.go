package demo

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"net"
	"os"

	"github.com/fanonce/fanonce/examples/internal/faultnet"
)

// onMemory is the value of -database that asks for none.
const onMemory = "memory"

// anyPort is the default of -listen.
const anyPort = "127.0.0.1:0"

// options are the flags, parsed and checked.
type options struct {
	checkouts int
	parallel  int
	seed      uint64
	faults    string
	network   faultnet.Profile
	database  string
	keys      keysAddress
	unsafe    bool
	install   bool
	json      bool
	serve     bool
	listen    string
}

// parseOptions returns an error that says what is wrong, or flag.ErrHelp after
// it has printed what there is.
func parseOptions(args []string, openers map[string]Opener, stderr io.Writer) (options, error) {
	var o options
	var keys string
	flags := flag.NewFlagSet("checkout", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.IntVar(&o.checkouts, "n", 200, "how many checkouts")
	flags.IntVar(&o.parallel, "c", 16, "how many at a time")
	flags.Uint64Var(&o.seed, "seed", 1, "chooses which requests suffer what")
	flags.StringVar(&o.faults, "faults", "normal", "how bad the network is: none, normal or brutal")
	flags.StringVar(&o.database, "database", "", "URL of a Postgres whose role may create databases, or memory (default: DATABASE_URL, else this machine's own)")
	flags.StringVar(&keys, "store", "", "URL of another store for the Keyed and Opaque routes (default: STORE, else the database)")
	flags.BoolVar(&o.unsafe, "unsafe", false, "without keys: unguarded handlers and plain retries")
	flags.BoolVar(&o.install, "install-postgres", false, "where there is no Postgres: install one first, with apt-get")
	flags.BoolVar(&o.json, "json", false, "print the report as JSON")
	flags.BoolVar(&o.serve, "serve", false, "customers buy until you press Ctrl-C; watch and steer it in a browser")
	flags.StringVar(&o.listen, "listen", anyPort, "with -serve: the console's address, on this machine")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if err := o.check(flags.Args()); err != nil {
		return o, err
	}
	if keys == "" {
		keys = os.Getenv(envStore)
	}
	var err error
	o.keys, err = parseKeys(keys, args, openers)
	if err == nil && o.keys.isSet() && o.unsafe {
		err = errors.New("checkout: -unsafe has no keys: it cannot have a store for them; unset STORE")
	}
	return o, err
}

func (o *options) check(rest []string) (err error) {
	if o.network, err = faultnet.Named(o.faults); err != nil {
		return fmt.Errorf("checkout: -faults: %w", err)
	}
	switch {
	case len(rest) > 0:
		return fmt.Errorf("checkout: %q is not a flag", rest[0])
	case o.checkouts < 1:
		return fmt.Errorf("checkout: -n: %d is less than 1", o.checkouts)
	case o.parallel < 1:
		return fmt.Errorf("checkout: -c: %d is less than 1", o.parallel)
	case o.install && o.database != "":
		return errors.New("checkout: -install-postgres needs no -database")
	case o.serve && o.unsafe:
		return errors.New("checkout: -serve shows keys, and -unsafe has none")
	case !o.serve && o.listen != anyPort:
		return errors.New("checkout: -listen goes with -serve")
	}
	if host, _, err := net.SplitHostPort(o.listen); err != nil || !isLoopback(host) {
		return fmt.Errorf("checkout: -listen: %q is not an address of this machine, such as localhost:7070", o.listen)
	}
	return nil
}

// isLoopback reports whether nobody else can reach the host.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// killAfter returns after how many accepted orders the payment service is killed, one time after the other.
func (o *options) killAfter() iter.Seq[int64] {
	kills := map[string]int{"none": 0, "normal": 2, "brutal": 4}[o.faults]
	return func(yield func(int64) bool) {
		for i := 1; (i <= kills || o.serve) && kills > 0; i++ {
			due := int64(o.checkouts * i / (kills + 1))
			if o.serve {
				due = int64(watchedKills * i)
			}
			if !yield(due) {
				return
			}
		}
	}
}
