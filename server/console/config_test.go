package console_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/memjournal"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestNew_badConfig(t *testing.T) {
	t.Parallel()
	reader := memstore.New().Reader()
	good := func() console.Config {
		return console.Config{
			Authenticate: func(*http.Request) (console.User, error) { return console.User{}, nil },
			Stores:       []console.Store{{Name: "orders", Reader: reader}},
		}
	}
	_, err := console.New(good())
	require.NoError(t, err)
	tests := []struct {
		name, field string
		change      func(*console.Config)
	}{
		{"nobody authenticates", "Config.Authenticate", func(c *console.Config) { c.Authenticate = nil }},
		{"nothing to show", "Config.Stores", func(c *console.Config) { c.Stores = nil }},
		{"store without a name", "Config.Stores[0].Name", func(c *console.Config) { c.Stores[0].Name = "" }},
		{"store with two lines", "Config.Stores[0].Name", func(c *console.Config) { c.Stores[0].Name = "a\nb" }},
		{"store with a long name", "Config.Stores[0].Name", func(c *console.Config) { c.Stores[0].Name = strings.Repeat("a", 101) }},
		{"store without a reader", "Config.Stores[0]", func(c *console.Config) { c.Stores[0].Reader = nil }},
		{"store with a nil reader", "Config.Stores[0]", func(c *console.Config) { c.Stores[0].Reader = store.Reader((*nilReader)(nil)) }},
		{"a reason of two lines", "Config.Stores[0].NoAnswers", func(c *console.Config) { c.Stores[0].NoAnswers = "a\nb" }},
		{"two of one name", "Config.Stores[1].Name", func(c *console.Config) { c.Stores = append(c.Stores, c.Stores[0]) }},
		{"a journal with a store's name", "Config.Sagas[0].Name", func(c *console.Config) {
			c.Sagas = []console.Sagas{{Name: "orders", Reader: memjournal.New().Reader()}}
		}},
		{"a journal without a reader", "Config.Sagas[0]", func(c *console.Config) { c.Sagas = []console.Sagas{{Name: "s"}} }},
		{"short secret", "Config.Secret", func(c *console.Config) { c.Secret = make([]byte, 31) }},
		{"empty secret", "Config.Secret", func(c *console.Config) { c.Secret = []byte{} }},
		{"relative prefix", "Config.Prefix", func(c *console.Config) { c.Prefix = "ops" }},
		{"prefix with a slash at the end", "Config.Prefix", func(c *console.Config) { c.Prefix = "/ops/" }},
		{"root as prefix", "Config.Prefix", func(c *console.Config) { c.Prefix = "/" }},
		{"unclean prefix", "Config.Prefix", func(c *console.Config) { c.Prefix = "/a/../b" }},
		{"prefix with a query", "Config.Prefix", func(c *console.Config) { c.Prefix = "/ops?x" }},
		{"challenge of two lines", "Config.Challenge", func(c *console.Config) { c.Challenge = "Basic\r\nSet-Cookie: a=b" }},
		{"title of two lines", "Config.Title", func(c *console.Config) { c.Title = "a\nb" }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			cfg := good()
			tt.change(&cfg)
			_, err := console.New(cfg)
			var bad *console.ConfigError
			require.ErrorAs(t, err, &bad)
			require.Equal(t, tt.field, bad.Field, bad.Error())
		})
	}
}

// nilReader is the type of a reader that somebody did not open.
type nilReader struct{ store.Reader }
