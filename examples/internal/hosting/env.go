package hosting

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
)

// An Env parses a service's environment and collects what is wrong with it,
// so that all of it is said at once, before anything is opened.
type Env struct {
	getenv func(string) string
	errs   []error
}

// NewEnv returns an Env over getenv, as os.Getenv.
func NewEnv(getenv func(string) string) *Env { return &Env{getenv: getenv} }

// Err returns everything that was wrong, each with its variable's name.
func (e *Env) Err() error { return errors.Join(e.errs...) }

func (e *Env) fail(name string, err error) {
	if err != nil {
		e.errs = append(e.errs, fmt.Errorf("%s: %w", name, err))
	}
}

var errNotSet = errors.New("not set")

// Required returns the variable's text.
func (e *Env) Required(name string) string {
	text := e.getenv(name)
	if text == "" {
		e.fail(name, errNotSet)
	}
	return text
}

// Name returns a service's name.
func (e *Env) Name(name, unset string) string {
	text := e.getenv(name)
	if text == "" {
		text = unset
	}
	e.fail(name, childkey.CheckName(text))
	return text
}

// Duration returns a Go duration of zero or more.
func (e *Env) Duration(name string, unset time.Duration) time.Duration {
	text := e.getenv(name)
	if text == "" {
		return unset
	}
	d, err := time.ParseDuration(text)
	if err == nil && d < 0 {
		err = fmt.Errorf("%q is negative", text)
	}
	e.fail(name, err)
	return d
}

// OptionalURL returns an http or https URL, or "" where none is set.
func (e *Env) OptionalURL(name string) string {
	text := e.getenv(name)
	if text == "" {
		return ""
	}
	u, err := url.Parse(text)
	if err == nil && (u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		err = fmt.Errorf("%q is not an http URL", text)
	}
	e.fail(name, err)
	return text
}

// URL is [Env.OptionalURL] for a variable that must be set.
func (e *Env) URL(name string) string {
	e.Required(name)
	return e.OptionalURL(name)
}

// Database returns the connection settings of a Postgres URL, which may list
// several hosts.
func (e *Env) Database(name, application string) *pgxpool.Config {
	text := e.Required(name)
	if text == "" {
		return nil
	}
	cfg, err := pgxpool.ParseConfig(text)
	if err != nil {
		e.fail(name, errors.New("not a Postgres URL")) // pgx's own text may show the password
		return nil
	}
	if _, set := cfg.ConnConfig.RuntimeParams["application_name"]; !set {
		cfg.ConnConfig.RuntimeParams["application_name"] = application
	}
	return cfg
}
