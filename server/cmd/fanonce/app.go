package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/term"

	"github.com/fanonce/fanonce/server/pgstore"
)

// app is what all commands share.
type app struct {
	stdin          *os.File
	stdout, stderr *os.File
	environ        func(string) (string, bool)

	database, schema string
	timeout          time.Duration
	retention        time.Duration // how long an answer is kept that a person gives; 0: the default of a guard
	json             bool

	opened   *pgxpool.Pool
	closes   []func()
	tookLine bool // the word "-" was used: stdin is read once
}

const defaultTimeout = 10 * time.Second

var schemaName = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,62}$`)

// check refuses bad values of the flags that all commands have.
func (a *app) check() error {
	if a.timeout < time.Millisecond || a.timeout > 24*time.Hour {
		return fmt.Errorf("--timeout %v is not between 1ms and 24h", a.timeout)
	}
	if a.schema != "" && (!schemaName.MatchString(a.schema) || strings.HasPrefix(a.schema, "pg_")) {
		return fmt.Errorf("--schema %q is not a name such as public: a-z, 0-9 and _, at most 63, not pg_…", a.schema)
	}
	return nil
}

func (a *app) close() {
	if a.opened != nil {
		a.opened.Close()
	}
	for _, end := range a.closes {
		end()
	}
}

// poolConfig reads the address of tables; "" is that of [app.address]. Its errors do not repeat the address: it can hold a password.
func (a *app) poolConfig(url string) (*pgxpool.Config, error) {
	url, err := a.address(url)
	if err != nil {
		return nil, err
	}
	if isRedis(url) {
		return nil, errors.New("the address is one of Redis, which has only keys: this command needs Postgres")
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, a.explainAddress(url)
	}
	pgstore.Prepare(cfg)
	cfg.MaxConns, cfg.MinConns = 4, 0
	if cfg.ConnConfig.RuntimeParams["application_name"] == "" { // as PGAPPNAME sets it
		cfg.ConnConfig.RuntimeParams["application_name"] = "fanonce"
	}
	if cfg.ConnConfig.ConnectTimeout == 0 {
		cfg.ConnConfig.ConnectTimeout = a.timeout
	}
	return cfg, nil
}

// pool connects to the one database of most commands.
func (a *app) pool(ctx context.Context) (*pgxpool.Pool, error) {
	if a.opened != nil {
		return a.opened, nil
	}
	pool, err := a.open(ctx, "")
	a.opened = pool
	return pool, err
}

// open connects. The server itself ends each statement after the time of --timeout. PgBouncer does not pass that
// setting on, and refuses it: then only this process ends them. A SET would not do, because behind a pooler it stays in
// the session of somebody else.
func (a *app) open(ctx context.Context, url string) (*pgxpool.Pool, error) {
	cfg, err := a.poolConfig(url)
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.RuntimeParams["statement_timeout"] = fmt.Sprint(a.timeout.Milliseconds())
	pool, err := a.connect(ctx, cfg)
	if refusedParameter(err) {
		delete(cfg.ConnConfig.RuntimeParams, "statement_timeout")
		pool, err = a.connect(ctx, cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot reach the database: %w", trimAddress(err))
	}
	return pool, nil
}

func (a *app) connect(ctx context.Context, cfg *pgxpool.Config) (*pgxpool.Pool, error) {
	ctx, cancel := context.WithTimeout(ctx, a.timeout)
	defer cancel()
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, err
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// refusedParameter reports whether a pooler refused a setting of the session.
func refusedParameter(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && strings.Contains(pgErr.Message, "unsupported startup parameter")
}

// trimAddress leaves out the address, which pgx begins its errors with.
func trimAddress(err error) error {
	var failed *pgconn.ConnectError
	if !errors.As(err, &failed) {
		return err
	}
	return failed.Unwrap()
}

// bound gives one statement or one verb its time.
func (a *app) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, a.timeout)
}

// maxLineBytes is more than any key has.
const maxLineBytes = 64 << 10

// word returns an argument, or the first line of stdin where the argument is "-".
func (a *app) word(arg string) (string, error) {
	if arg != "-" {
		return arg, nil
	}
	if a.tookLine {
		return "", errors.New(`only one argument can be "-": stdin has one line for it`)
	}
	a.tookLine = true
	line, err := bufio.NewReader(io.LimitReader(a.stdin, maxLineBytes)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", fmt.Errorf("reading stdin: %w", err)
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New(`"-" reads a line from stdin, and stdin has none`)
	}
	return line, nil
}

func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) } //nolint:gosec // a descriptor is small

// confirm asks before a change that can hurt. Without a terminal it refuses: nobody could answer.
func (a *app) confirm(yes bool, question string) error {
	if yes {
		return nil
	}
	answer, err := a.ask(question+" [y/N] ", "--yes")
	if err != nil {
		return err
	}
	switch strings.ToLower(answer) {
	case "y", "yes":
		return nil
	}
	return no("not confirmed: nothing was changed")
}

// confirmCount asks for the number of targets. A "yes" is typed too easily.
func (a *app) confirmCount(question string, n int) error {
	answer, err := a.ask(fmt.Sprintf("%s Type %d to go on: ", question, n), "--count with the number that match")
	if err != nil {
		return err
	}
	if answer != fmt.Sprint(n) {
		return no("not confirmed: nothing was changed")
	}
	return nil
}

// ask returns what a person types. Flag would have been the answer.
func (a *app) ask(question, flag string) (string, error) {
	if !isTerminal(a.stdin) || a.tookLine {
		return "", fmt.Errorf("this needs a confirmation, and stdin is no terminal: add %s, or look first with --dry-run", flag)
	}
	_, _ = fmt.Fprint(a.stderr, question)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	return strings.TrimSpace(answer), nil
}
