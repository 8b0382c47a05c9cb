package main

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/server/pgstore"
)

// A component is a package with tables.
type component struct {
	name   string // of the package
	tables string // what their names begin with; Migrate notes the steps that were taken in tables_version
	files  fs.FS
}

var components = []component{
	{"pgstore", "idempotency", pgstore.MigrationFiles},
	{"pgjournal", "saga", pgjournal.MigrationFiles},
}

// A step leads from one version of a component's tables to the next.
type step struct {
	of       component
	version  int
	name     string // as 0002_attention
	up, down string // plain SQL
}

// steps are those of the options' packages, in their order.
func (o options) steps() ([]step, error) {
	var all []step
	for _, name := range o.packages {
		i := indexOf(name)
		if i < 0 {
			return nil, fmt.Errorf("package %q: want pgstore or pgjournal", name)
		}
		steps, err := components[i].steps()
		if err != nil {
			return nil, err
		}
		if o.after > len(steps) {
			return nil, fmt.Errorf("-after %d: the latest version of %s is %d", o.after, name, len(steps))
		}
		all = append(all, steps[o.after:]...)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("-after %d: %s has no later step", o.after, o.packages[0])
	}
	return all, nil
}

func indexOf(name string) int {
	for i, c := range components {
		if c.name == name {
			return i
		}
	}
	return -1
}

// steps reads the component's files. They are numbered from 1 without a gap.
func (c component) steps() ([]step, error) {
	ups, err := fs.Glob(c.files, "*.up.sql") // sorted by name, and so by number
	if err != nil {
		return nil, err
	}
	steps := make([]step, len(ups))
	for i, file := range ups {
		name := strings.TrimSuffix(file, ".up.sql")
		up, err := fs.ReadFile(c.files, file)
		if err != nil {
			return nil, err
		}
		down, err := fs.ReadFile(c.files, name+".down.sql")
		if err != nil {
			return nil, err
		}
		steps[i] = step{c, i + 1, name, string(up), string(down)}
	}
	return steps, nil
}
