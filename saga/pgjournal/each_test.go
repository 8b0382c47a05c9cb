package pgjournal_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/saga/pgjournal"
)

// A long list of items is a large result, which is sealed in the side table. The next owner finds the items there, and
// their outputs in the order of the list. People find them by their entries.
func TestEach_longList(t *testing.T) {
	t.Parallel()
	j, look := open(t, pgjournal.Config{Codec: aesGCM(t, "k1")})
	list := make([]string, 200)
	for i := range list {
		list[i] = fmt.Sprintf("%03d-%s", len(list)-i, strings.Repeat("x", 240))
	}
	var stopped atomic.Bool
	begun := make(chan struct{}, 1)
	d := saga.MustDefine("long", 1, func(b *saga.Builder[[]string, []string]) {
		noted := saga.EachFunc(b, "local.note", b.Input(), func(name string) string { return name },
			func(ctx context.Context, c saga.Call[string]) (string, error) {
				if c.Input == list[150] && !stopped.Load() {
					begun <- struct{}{}
					<-ctx.Done()
					return "", ctx.Err()
				}
				return c.Input, nil
			}).ReadOnly().Max(200)
		saga.Return(b, noted.Output())
	})
	cfg := saga.Config{Definitions: []saga.AnyDefinition{d}, Lease: 5 * time.Second}
	first, err := saga.Open(t.Context(), j, cfg)
	require.NoError(t, err)
	_, err = d.Start(t.Context(), first, childkey.MustParse("k"), list)
	require.NoError(t, err)
	<-begun
	hurry, cancel := context.WithCancel(t.Context())
	cancel()
	_ = first.Close(hurry)
	stopped.Store(true)
	require.Positive(t, queryRow[int](t, look, "select count(*) from saga_result"))

	second, err := saga.Open(t.Context(), j, cfg)
	require.NoError(t, err)
	t.Cleanup(func() { closeEngine(t, second) })
	got, err := d.Run(t.Context(), second, childkey.MustParse("k"), list)
	require.NoError(t, err)
	require.Equal(t, list, got)

	shown, err := j.Reader().Show(t.Context(), journal.IDOf("", "long", childkey.MustParse("k")))
	require.NoError(t, err)
	steps, err := saga.RecordSteps(d.Plan(), shown)
	require.NoError(t, err)
	require.Len(t, steps, 201)
}
