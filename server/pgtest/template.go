package pgtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"github.com/jackc/pgx/v5/pgxpool"
)

type migrateFunc = func(ctx context.Context, pool *pgxpool.Pool, schema string) error

// A template is a database that tests get copies of.
type template struct {
	once    sync.Once
	name    string
	err     error
	migrate migrateFunc // keeps the function, and so its identity, from being collected
}

var templates struct {
	sync.Mutex
	byFunc map[unsafe.Pointer]*template
}

// templateFor returns the name of the database that migrate was run on, running it
// on first use. Tests that ask meanwhile wait.
func templateFor(ctx context.Context, cluster *Cluster, migrate migrateFunc) (string, error) {
	t := templateOf(migrate)
	t.once.Do(func() {
		// This error stays if migrate ends its goroutine, as a test's Fatal does.
		t.err = errors.New("pgtest: migrate did not return")
		t.name = nextName("template")
		// build does not use the first test's ctx: other tests wait for the result.
		t.err = t.build(context.WithoutCancel(ctx), cluster)
	})
	return t.name, t.err
}

func templateOf(migrate migrateFunc) *template {
	templates.Lock()
	defer templates.Unlock()
	// A function value is a pointer to its code and captured variables. The code alone
	// (all that package reflect shows) would give one template to two closures that
	// migrate to different schemas.
	id := *(*unsafe.Pointer)(unsafe.Pointer(&migrate))
	t, ok := templates.byFunc[id]
	if !ok {
		t = &template{migrate: migrate}
		if templates.byFunc == nil {
			templates.byFunc = make(map[unsafe.Pointer]*template)
		}
		templates.byFunc[id] = t
	}
	return t
}

func (t *template) build(ctx context.Context, cluster *Cluster) error {
	connURL, err := cluster.CreateDatabase(ctx, t.name)
	if err != nil {
		return err
	}
	pool, err := pgxpool.New(ctx, connURL)
	if err != nil {
		return fmt.Errorf("pgtest: migrate: %w", err)
	}
	err = t.migrate(ctx, pool, "")
	pool.Close() // a database with connections cannot be copied
	if err != nil {
		return errors.Join(fmt.Errorf("pgtest: migrate: %w", err), cluster.DropDatabase(ctx, t.name))
	}
	return nil
}
