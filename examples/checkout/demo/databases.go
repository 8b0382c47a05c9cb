package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"

	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/examples/checkout/internal/report"
	"github.com/fanonce/fanonce/server/pgtest"
)

const onlyMemory = `
  ***  NO POSTGRES HERE: everything runs in memory.  ***
  This cannot show that keys survive a killed process, or that rows and answers
  commit together in a database. -install-postgres installs a PostgreSQL with
  apt-get; or install one yourself, or set DATABASE_URL.

`

// afterMemory is the last line of a run in memory.
const afterMemory = "That was in memory, where no service can be killed. The whole form: go run ./examples/checkout -install-postgres"

// programs is the script of a clone that installs what tests and demos use.
const programs = ".ci/programs"

// databases gives each service a database of its own.
type databases struct {
	cluster *pgtest.Cluster // nil: memory
	unsafe  bool
}

// openDatabases finds or starts a Postgres; where there is none, it says so
// and uses memory.
func openDatabases(ctx context.Context, opts options, stderr io.Writer) (*databases, error) {
	d := &databases{unsafe: opts.unsafe}
	if opts.database == onMemory {
		return d, nil
	}
	if opts.database != "" {
		if err := os.Setenv(pgtest.EnvDatabaseURL, opts.database); err != nil {
			return nil, err
		}
	}
	var err error
	d.cluster, err = pgtest.Start(ctx, pgtest.Config{})
	if errors.Is(err, pgtest.ErrUnavailable) && opts.install {
		if err := installPostgres(ctx, stderr); err != nil {
			return nil, err
		}
		d.cluster, err = pgtest.Start(ctx, pgtest.Config{})
		return d, err
	}
	if errors.Is(err, pgtest.ErrUnavailable) {
		d.cluster = nil
		_, err = fmt.Fprint(stderr, onlyMemory)
	}
	return d, err
}

// installPostgres installs Debian's package, and starts no server.
func installPostgres(ctx context.Context, stderr io.Writer) error {
	if _, err := os.Stat(programs); err != nil {
		return fmt.Errorf("-install-postgres works at the root of a clone: %w", err)
	}
	cmd := exec.CommandContext(ctx, "sh", programs, "install", "postgresql")
	cmd.Stdout, cmd.Stderr = stderr, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("-install-postgres: %w", err)
	}
	return nil
}

// create makes the service's database and returns its URL; "" in memory.
func (d *databases) create(ctx context.Context, service string) (string, error) {
	if d.cluster == nil {
		return "", nil
	}
	return d.cluster.CreateDatabase(ctx, service)
}

// open opens what create has made.
func (d *databases) open(ctx context.Context, url string) (*node.Storage, error) {
	if d.cluster == nil {
		return node.OpenMemory(d.unsafe), nil
	}
	return node.OpenPostgres(ctx, url, d.unsafe)
}

// close drops the databases, and removes the Postgres if it was started here.
func (d *databases) close() error {
	if d.cluster == nil {
		return nil
	}
	return d.cluster.Stop()
}

// String names the storage in reports.
func (d *databases) String() string {
	switch {
	case d.cluster == nil:
		return report.Memory
	case d.cluster.Private():
		return "a private Postgres"
	default:
		return "the Postgres of DATABASE_URL"
	}
}
