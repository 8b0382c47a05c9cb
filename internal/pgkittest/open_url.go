package pgkittest

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server/pgtest"
)

// An Opener is a package with the functions OpenURL, New and Prepare, and two of its errors. No server of a test keeps
// commits in a crash, which the configuration has to accept.
type Opener struct {
	OpenURL func(ctx context.Context, url string, migrate bool) (Opened, error)
	New     func(pool *pgxpool.Pool, migrate bool) error
	Prepare func(cfg *pgxpool.Config)

	ErrConfig, ErrSchemaMissing error
}

// Opened is what OpenURL returns.
type Opened interface {
	Pool() *pgxpool.Pool
	Close()
}

// TestOpenURL tests that OpenURL migrates if it is to, also if the replicas of a service start at the same time on an empty
// database. New, which sends nothing, must refuse to. An error about the address must not show the password.
func TestOpenURL(t *testing.T, o Opener) {
	t.Helper()
	url := pgtest.URL(t)
	if _, err := o.OpenURL(t.Context(), url, false); !errors.Is(err, o.ErrSchemaMissing) {
		t.Errorf("without tables: %v, want %v", err, o.ErrSchemaMissing)
	}
	var replicas sync.WaitGroup
	for range 4 {
		replicas.Go(func() {
			opened, err := o.OpenURL(t.Context(), url, true)
			if err != nil {
				t.Error(err)
				return
			}
			defer opened.Close()
			if err := opened.Pool().Ping(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	replicas.Wait()

	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if err := o.New(pool, true); !errors.Is(err, o.ErrConfig) {
		t.Errorf("New with Migrate: %v, want %v", err, o.ErrConfig)
	}
	for _, wrong := range []string{"", "postgres://user:secret@host:port/db", "not a url"} {
		_, err := o.OpenURL(t.Context(), wrong, false)
		if !errors.Is(err, o.ErrConfig) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %v without the password", wrong, err, o.ErrConfig)
		}
	}
}
