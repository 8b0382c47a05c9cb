package demo

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/store"
)

// envStore names the store of the Keyed and Opaque routes.
const envStore = "STORE"

// An Opener opens the store at address. The caller calls closeStore at the end, if err is nil.
type Opener func(ctx context.Context, address *url.URL) (keys store.Store, closeStore func(), err error)

// own are the stores that need no module beside this one, by scheme.
var own = map[string]Opener{"memory": openMemoryKeys, "postgres": openPostgresKeys, "postgresql": openPostgresKeys}

// elsewhere are the schemes that only the command in examples/integrations/stores opens.
var elsewhere = []string{"redis", "rediss"}

// A keysAddress is where the keys of the Keyed and Opaque routes are. The zero keysAddress is the service's database.
type keysAddress struct {
	url  *url.URL
	open Opener
}

func (k keysAddress) isSet() bool { return k.url != nil }

// String is the address without its password.
func (k keysAddress) String() string { return k.url.Redacted() }

// parseKeys finds the opener of an address. args are for the command that it advises.
func parseKeys(address string, args []string, openers map[string]Opener) (k keysAddress, err error) {
	if address == "" {
		return k, nil
	}
	if k.url, err = url.Parse(address); err != nil {
		return keysAddress{}, fmt.Errorf("checkout: %s is not a URL, want such as redis://localhost:6379", envStore) // err has the password
	}
	scheme := k.url.Scheme
	if k.open = openers[scheme]; k.open == nil {
		k.open = own[scheme]
	}
	switch {
	case k.open != nil:
		return k, nil
	case slices.Contains(elsewhere, scheme):
		return keysAddress{}, fmt.Errorf("checkout: this command opens memory:// and postgres:// only; for %s:// type: %s", scheme, advice(k.url, args))
	default:
		return keysAddress{}, fmt.Errorf("checkout: %s: no store has the scheme %q", envStore, scheme)
	}
}

// advice is the command line that can open address. It is for a shell in the root of a clone.
func advice(address *url.URL, args []string) string {
	words := []string{envStore + "=" + quote(address.Redacted()), "go run -C examples/integrations ./stores/checkout"}
	for i, arg := range args {
		// The address is in the words already, and an argument may have its password.
		isStore := func(arg string) bool { return strings.TrimLeft(arg, "-") == "store" }
		if name, _, _ := strings.Cut(arg, "="); !isStore(name) && (i == 0 || !isStore(args[i-1])) {
			words = append(words, quote(arg))
		}
	}
	return strings.Join(words, " ")
}

// quote quotes a word for a shell if it has other characters than plain ones.
func quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=./:,@"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

func openMemoryKeys(context.Context, *url.URL) (store.Store, func(), error) {
	return memstore.New(), func() {}, nil
}

func openPostgresKeys(ctx context.Context, address *url.URL) (store.Store, func(), error) {
	cfg, err := pgxpool.ParseConfig(address.String())
	if err != nil {
		return nil, nil, err
	}
	pgstore.Prepare(cfg)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, nil, err
	}
	if err := pgstore.Migrate(ctx, pool, ""); err != nil {
		pool.Close()
		return nil, nil, err
	}
	keys, err := pgstore.New(pool, pgstore.Config{})
	if err != nil {
		pool.Close()
		return nil, nil, err
	}
	return keys, func() { keys.Close(); pool.Close() }, nil
}

const keysAreElsewhere = `Keyed and Opaque routes (checkout, notification) have their keys in %v.
Transactional routes (inventory, payment) keep theirs beside their ledgers, in %v.
The keys of this run stay in the store for %v.
`

// openKeys opens the store of the Keyed and Opaque routes, and says which routes use it. It returns nil if they use
// the databases of their services.
func openKeys(ctx context.Context, address keysAddress, db *databases, stderr io.Writer) (*node.Keys, func(), error) {
	if !address.isSet() {
		return nil, func() {}, nil
	}
	keys, closeStore, err := address.open(ctx, address.url)
	if err != nil {
		return nil, nil, fmt.Errorf("%s=%v: %w", envStore, address, err)
	}
	// Another run of the demo places the same orders. A namespace of this run separates their keys.
	opened := &node.Keys{Store: keys, Run: rand.Text()}
	if _, err := fmt.Fprintf(stderr, keysAreElsewhere, address, db, node.KeysRetention); err != nil {
		closeStore()
		return nil, nil, err
	}
	return opened, closeStore, nil
}
