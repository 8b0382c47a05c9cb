package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/store"
)

// Config says what a [Console] shows, and who may see it. Authenticate is required, and at least one store or journal.
type Config struct {
	// Title is the name of the page. Empty means "fanonce".
	Title string
	// Prefix is the path that the console is mounted below, such as "/ops". It begins with a slash and does not end
	// with one. The console itself strips it from the path, so mount it without http.StripPrefix. Empty means the root.
	Prefix string

	Stores []Store
	Sagas  []Sagas

	// Authenticate says who sends a request. After an error the answer is 401, and nothing else is served. It is
	// called for each request, from many goroutines. Required.
	Authenticate func(*http.Request) (User, error)
	// Challenge is the WWW-Authenticate header of a 401, such as `Basic realm="ops"`. Empty means "Bearer".
	Challenge string
	// Secret is the key of the tokens in forms. Replicas behind one address must share it. It has at least 32 bytes.
	// nil means a random one: a form that another process made is then refused.
	Secret []byte
	// Logger gets each verb and each failure. It gets IDs, and no key, scope or body. nil is silent.
	Logger *slog.Logger
}

// minSecretBytes is the length of the shortest [Config].Secret.
const minSecretBytes = 32

// A Store is the keys of one service.
type Store struct {
	// Name is the service's name, as people know it. It differs from those of the other stores and
	// journals: 1 to 100 bytes of text.
	Name string
	// Reader reads the keys. Required.
	Reader store.Reader
	// Guard changes keys for operators. Its namespace does not matter. nil: the keys can only be read.
	Guard *server.Guard
	// NoAnswers says why no operator can state here that a call happened, and with which answer. The page of a key then
	// shows the text instead of that verb. Set it if the Guard lacks the Codec of the service's own guards: the
	// service could not read the answer. Empty means that the Guard stores answers as the service reads them.
	NoAnswers string
}

// Sagas is the sagas of one journal.
type Sagas struct {
	Name   string         // as of a [Store]
	Reader journal.Reader // required
	// Operator changes sagas for operators: a [saga.Engine] or a [saga.Operator]. nil: the sagas can only be read.
	Operator SagaOperator
}

// A SagaOperator moves sagas. [saga.Operator] and [saga.Engine] are SagaOperators: see their methods. The page offers
// ForceOK for the sagas whose definition the SagaOperator has.
type SagaOperator interface {
	HasDefinition(plan journal.PlanHash) bool
	Retry(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
	RetryNow(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
	Cancel(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
	Abandon(ctx context.Context, id journal.ID, by journal.Audit) (journal.Record, error)
	ForceOK(ctx context.Context, id journal.ID, step string, output any, by journal.Audit) (journal.Record, error)
	ForceUndone(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error)
	ForceRejected(ctx context.Context, id journal.ID, step string, by journal.Audit) (journal.Record, error)
}

// A ConfigError is returned by [New] for a field that it rejects.
type ConfigError struct {
	Field  string // as "Config.Prefix"
	Reason string
}

// Error implements error.
func (e *ConfigError) Error() string { return "console: " + e.Field + ": " + e.Reason }

func reject(field, format string, args ...any) error {
	return &ConfigError{Field: field, Reason: fmt.Sprintf(format, args...)}
}

// check returns a [*ConfigError] for the first field that cannot work.
func (c *Config) check() error {
	switch {
	case c.Authenticate == nil:
		return reject("Config.Authenticate", "nil: the console serves nothing to strangers")
	case len(c.Stores) == 0 && len(c.Sagas) == 0:
		return reject("Config.Stores", "there is neither a store nor a journal to show")
	case c.Secret != nil && len(c.Secret) < minSecretBytes:
		return reject("Config.Secret", "%d bytes, must have at least %d", len(c.Secret), minSecretBytes)
	case !oneLine(c.Challenge, 1000):
		return reject("Config.Challenge", "is not one line of text")
	case !oneLine(c.Title, 200):
		return reject("Config.Title", "is not one line of at most 200 bytes")
	}
	if err := checkPrefix(c.Prefix); err != nil {
		return err
	}
	return c.checkSources()
}

// checkPrefix refuses a prefix that no path can begin with, or that a link would lose.
func checkPrefix(prefix string) error {
	switch {
	case prefix == "":
		return nil
	case !strings.HasPrefix(prefix, "/") || strings.HasSuffix(prefix, "/") || path.Clean(prefix) != prefix:
		return reject("Config.Prefix", "%.60q must begin with a slash, not end with one, and be a clean path", prefix)
	case strings.Trim(prefix, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/") != "":
		return reject("Config.Prefix", "%.60q has characters other than letters, digits and - . _ ~ /", prefix)
	}
	return nil
}

// checkSources refuses sources without a reader, and two of one name: a link names its source.
func (c *Config) checkSources() error {
	names := make(map[string]string)
	add := func(field, name string, readable bool) error {
		switch {
		case name == "" || !oneLine(name, 100):
			return reject(field+".Name", "%.120q must be one line of 1 to 100 bytes", name)
		case names[name] != "":
			return reject(field+".Name", "%q is also the name of %s", name, names[name])
		case !readable:
			return reject(field, "%q has nothing to read with", name)
		}
		names[name] = field
		return nil
	}
	for i := range c.Stores {
		if err := add(fmt.Sprintf("Config.Stores[%d]", i), c.Stores[i].Name, !isNil(c.Stores[i].Reader)); err != nil {
			return err
		}
		if !oneLine(c.Stores[i].NoAnswers, 300) {
			return reject(fmt.Sprintf("Config.Stores[%d].NoAnswers", i), "is not one line of at most 300 bytes")
		}
	}
	for i := range c.Sagas {
		if err := add(fmt.Sprintf("Config.Sagas[%d]", i), c.Sagas[i].Name, !isNil(c.Sagas[i].Reader)); err != nil {
			return err
		}
	}
	return nil
}

// oneLine reports whether text is UTF-8 without control characters, of at most that many bytes.
func oneLine(text string, most int) bool {
	return len(text) <= most && utf8.ValidString(text) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f })
}
