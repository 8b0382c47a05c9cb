package pgkit

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// A host that does not answer is tried last until a connection to it succeeds. Its older connections stay
// given up.
func TestHosts_reorder(t *testing.T) {
	t.Parallel()
	parse := func() *pgx.ConnConfig {
		cfg, err := pgx.ParseConfig("postgres://a,b,c/x?sslmode=disable")
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	h := new(hosts)
	first := func() string {
		cfg := parse()
		h.reorder(cfg)
		if len(cfg.Fallbacks) != 2 {
			t.Fatalf("fallbacks = %d, want 2", len(cfg.Fallbacks))
		}
		return cfg.Host + cfg.Fallbacks[0].Host + cfg.Fallbacks[1].Host
	}
	h.noteAddresses("a", []string{"10.0.0.1", "10.0.0.2"})
	h.noteAddresses("b", []string{"10.0.0.3"})
	before := time.Now()
	for _, step := range []struct {
		do   func()
		want string
	}{
		{func() {}, "abc"},
		{func() { h.fell("10.0.0.2:5432") }, "bca"},
		{func() { h.fell("10.0.0.3:5432") }, "cab"},
		{func() { h.noteAnswer("10.0.0.2:5432") }, "acb"},
		{func() { h.fell("10.0.0.9:5432") }, "acb"},
	} {
		step.do()
		if got := first(); got != step.want {
			t.Errorf("order = %q, want %q", got, step.want)
		}
	}
	if !h.lost("10.0.0.2:5432", before) || h.lost("10.0.0.2:5432", time.Now()) || h.lost("10.0.0.1:5432", before) {
		t.Error("given up are the older connections to the address that fell silent, and no others")
	}
}
