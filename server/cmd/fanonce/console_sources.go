package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/console"
)

// A source is one database of several that a command looks at.
type source struct{ name, url string }

// sources returns the databases of --store, or the one of --database.
func (a *app) sources(stores []string) ([]source, error) {
	if len(stores) == 0 {
		address, err := a.address("")
		if err != nil {
			return nil, err
		}
		if isRedis(address) {
			return []source{{"redis", ""}}, nil
		}
		cfg, err := a.poolConfig("")
		if err != nil {
			return nil, err
		}
		return []source{{cmp.Or(cfg.ConnConfig.Database, cfg.ConnConfig.User), ""}}, nil
	}
	if a.database != "" {
		return nil, errors.New("--database or --store, not both")
	}
	var out []source
	for _, text := range stores {
		name, url, ok := strings.Cut(text, "=")
		if !ok || name == "" || url == "" || printable(name) != name || len(name) > 80 {
			// The text can hold a password.
			return nil, errors.New("--store is not NAME=postgres://…, NAME=redis://…, nor NAME=env:VARIABLE")
		}
		for _, other := range out {
			if other.name == name {
				return nil, fmt.Errorf("--store %s is there twice", name)
			}
		}
		if variable, ok := strings.CutPrefix(url, "env:"); ok {
			if url, _ = a.environ(variable); url == "" {
				return nil, fmt.Errorf("--store %s: the variable %s is empty", name, printable(variable))
			}
		}
		out = append(out, source{name, url})
	}
	return out, nil
}

// A showing has the sources that a console shows, and closes them at the end.
type showing struct {
	cfg    console.Config
	names  []string // of the sources
	closes []func()

	readOnly bool
}

func (s *showing) close() {
	for _, c := range slices.Backward(s.closes) {
		c()
	}
}

// show opens the databases. It fails if one cannot be reached, or if this program cannot use its tables.
func (a *app) show(ctx context.Context, sources []source, readOnly bool) (*showing, error) {
	s := &showing{readOnly: readOnly}
	for _, src := range sources {
		if err := a.showOne(ctx, s, src); err != nil {
			s.close()
			return nil, fmt.Errorf("%s: %w", printable(src.name), err)
		}
	}
	return s, nil
}

func (a *app) showOne(ctx context.Context, s *showing, src source) error {
	address, err := a.address(src.url)
	if err != nil {
		return err
	}
	if isRedis(address) {
		keys, opened, err := a.openRedis(ctx, address)
		if err != nil {
			return err
		}
		s.closes = append(s.closes, func() { _ = opened.Close() })
		return a.showKeys(s, keys, src.name)
	}
	pool, err := a.open(ctx, src.url)
	if err != nil {
		return err
	}
	s.closes = append(s.closes, pool.Close)
	found := len(s.names)
	for _, c := range components {
		v, err := a.version(ctx, pool, &c)
		switch {
		case err != nil:
			return err
		case v.have == 0:
			continue
		}
		if err := v.check(c.name); err != nil {
			return err
		}
		if err := a.showComponent(s, pool, src.name, c.name); err != nil {
			return err
		}
	}
	if len(s.names) == found {
		return errors.New("there are no tables to show: see fanonce migrate status, and --schema")
	}
	return nil
}

func (a *app) showComponent(s *showing, pool *pgxpool.Pool, name, component string) (err error) {
	if component == "keys" {
		keys, err := a.tableKeyring(pool)
		if err != nil {
			return err
		}
		return a.showKeys(s, keys, name)
	}
	shown := console.Sagas{Name: name + " sagas"}
	if shown.Reader, err = a.newSagaReader(pool); err != nil {
		return err
	}
	if !s.readOnly {
		var j *pgjournal.Journal
		if shown.Operator, j, err = a.newOperator(pool); err != nil {
			return err
		}
		s.closes = append(s.closes, j.Close)
	}
	s.cfg.Sagas, s.names = append(s.cfg.Sagas, shown), append(s.names, shown.Name)
	return nil
}

func (a *app) showKeys(s *showing, keys *keyring, name string) error {
	shown := console.Store{Name: name, NoAnswers: noAnswers, Reader: keys.Reader}
	if !s.readOnly {
		kept, end, err := keys.newStore()
		if err != nil {
			return err
		}
		s.closes = append(s.closes, end)
		if shown.Guard, err = a.newGuard(kept); err != nil {
			return err
		}
	}
	s.cfg.Stores, s.names = append(s.cfg.Stores, shown), append(s.names, name)
	return nil
}

// noAnswers is why nobody can state an answer. An answer in another form than the service's would be unreadable for ever.
const noAnswers = "This program cannot seal an answer as the service may do. Use a console that the service mounts, or, if the " +
	"service's guards read answers in plain text, fanonce keys resolve --as happened --plain."
