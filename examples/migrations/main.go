package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "migrations:", err)
		}
		os.Exit(2)
	}
}

const usage = `usage: migrations -tool TOOL -dir DIR [options] PACKAGE...

Writes the tables of each PACKAGE (pgstore, pgjournal) as files for TOOL (tern, goose, golang-migrate).

`

// options are the command line.
type options struct {
	tool     string
	dir      string
	schema   string
	first    int64 // the number of the first file
	after    int   // a version that the one package has already
	packages []string
}

// run writes the files, and their names to out. It writes all of them or none.
func run(args []string, out io.Writer) error {
	o, err := parse(args, out)
	if err != nil {
		return err
	}
	files, err := o.files()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return err
	}
	for i, f := range files {
		path := filepath.Join(o.dir, f.name)
		if err := create(path, f.text); err != nil {
			for _, made := range files[:i] {
				err = errors.Join(err, os.Remove(filepath.Join(o.dir, made.name)))
			}
			return err
		}
	}
	for _, f := range files {
		_, _ = fmt.Fprintln(out, filepath.Join(o.dir, f.name))
	}
	return nil
}

// create writes a new file. It keeps a file that exists, because a database may have run it.
func create(path, text string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}

// schemaName is what a Schema of the packages may be.
var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

func parse(args []string, out io.Writer) (options, error) {
	var o options
	flags := flag.NewFlagSet("migrations", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.Usage = func() {
		_, _ = fmt.Fprint(out, usage)
		flags.PrintDefaults()
	}
	flags.StringVar(&o.tool, "tool", "", "the `name` of the tool that will run the files")
	flags.StringVar(&o.dir, "dir", "", "the `folder` of the files; it is made if it is missing")
	flags.StringVar(&o.schema, "schema", "", "the Postgres `schema` of the tables, as in the packages' Config; empty: the search_path's first")
	flags.Int64Var(&o.first, "first", 1, "the `number` of the first file: one more than the last of yours")
	flags.IntVar(&o.after, "after", 0, "leave out the steps up to this `version` of the one package")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.packages = flags.Args()
	return o, o.check()
}

func (o options) check() error {
	sorted := slices.Sorted(slices.Values(o.packages))
	switch {
	case !slices.Contains(toolNames, o.tool):
		return fmt.Errorf("-tool %q: want one of %s", o.tool, strings.Join(toolNames, ", "))
	case o.dir == "":
		return errors.New("-dir: a folder is required")
	case o.schema != "" && (!schemaName.MatchString(o.schema) || strings.HasPrefix(o.schema, "pg_")):
		return fmt.Errorf("-schema %q: want %s, not beginning with pg_", o.schema, schemaName)
	case o.first < 1:
		return fmt.Errorf("-first %d: want 1 or more", o.first)
	case o.after < 0:
		return fmt.Errorf("-after %d: want 0 or more", o.after)
	case len(o.packages) == 0:
		return errors.New("no package: want pgstore, pgjournal or both")
	case o.after > 0 && len(o.packages) > 1:
		return fmt.Errorf("-after %d: a version is one package's: run the command for each", o.after)
	case len(slices.Compact(sorted)) < len(o.packages):
		return fmt.Errorf("%s: a package is there twice", strings.Join(o.packages, " "))
	}
	return nil
}
