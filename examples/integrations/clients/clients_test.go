package clients

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/faultnet"
	"github.com/fanonce/fanonce/server/pgstore"
)

var calls = flag.Int("clients.calls", 30, "calls of each client and setting")

// A row is what came of the calls of one client and setting.
type row struct {
	setting
	calls, attempts int
	charged         int // keys with an effect, when the client was done
	most            int // the most effects of one key
	inProgress      int // refusals in progress, those that nobody saw included
	lost            int // calls that the client took for failed, or did not understand
	lostInProgress  int // lost, and the client's last answer was a refusal in progress
	lostCharged     int // lost, and the effect had happened
	misread         int // lost, because the client took an answer without a charge for a success
}

// Each client makes its calls through the bad network of examples/checkout. Whatever its settings are, no key has more
// than one effect, and a retry of a lost call gets the answer. With the recommended settings no call is lost. With -v
// the test prints the table of the README:
//
//	go test -run TestClients -v -clients.calls 100
func TestClients(t *testing.T) {
	t.Parallel()
	pool, store := newDatabase(t)
	settings := slices.Concat(goSettings(), nodeSettings())
	rows := make([]row, len(settings))
	t.Run("all", func(t *testing.T) {
		for i, s := range settings {
			t.Run(s.client+" "+s.name, func(t *testing.T) {
				t.Parallel()
				need(t, s.programs...)
				rows[i] = run(t, pool, store, s)
			})
		}
	})
	t.Log("\n" + table(rows))
}

// run makes the calls of one setting, and checks what holds for every one.
func run(t *testing.T, pool *pgxpool.Pool, store *pgstore.Store, s setting) row {
	addr, log := startService(t, store, s.render)
	edge := listen(t, s.client+" "+s.name, addr)
	keys := make([]string, *calls)
	for n := range keys {
		keys[n] = fmt.Sprintf("%s.%d", slug(s.client+" "+s.name), n)
	}
	outcomes := s.call(t, edge.URL(), keys)
	require.Len(t, outcomes, len(keys), "a call has no outcome")
	require.NoError(t, edge.Close(context.WithoutCancel(t.Context())), "late copies did not arrive")
	if s.keyless {
		return keyless(t, pool, s, outcomes, edge)
	}
	require.False(t, log.has(""), "a request came without a key")

	r := row{setting: s, calls: len(keys), attempts: edge.Counts().Attempts, inProgress: log.refusedInProgress()}
	charges := chargesOf(t, pool, keys)
	r.charged = len(charges)
	for _, o := range outcomes {
		ids := charges[o.Key]
		require.LessOrEqual(t, len(ids), 1, "effects of %s", o.Key)
		r.most = max(r.most, len(ids))
		if o.Err == "" && o.ID != "" {
			require.Equal(t, []string{o.ID}, ids, "%s: the client has the answer of a charge that is not there", o.Key)
			continue
		}
		r.count(t, o, len(ids))
		if id := log.again(t, addr, o.Key); id != "" {
			require.Equal(t, []string{id}, chargesOf(t, pool, []string{o.Key})[o.Key], "%s, sent again", o.Key)
		}
	}
	if s.recommended {
		if r.calls >= 30 { // of fewer calls none may be slow
			require.Positive(t, r.inProgress, "the client met no run in progress: the test shows nothing of it")
		}
		require.Zero(t, r.lostInProgress, "calls lost to a run in progress")
		require.Zero(t, r.lost, "calls lost")
		require.Equal(t, r.calls, r.charged)
	}
	return r
}

// keyless checks that a service refuses requests without a key: no retry of such a call is safe.
func keyless(t *testing.T, pool *pgxpool.Pool, s setting, outcomes []outcome, edge *faultnet.Edge) row {
	r := row{setting: s, calls: len(outcomes), attempts: edge.Counts().Attempts}
	require.Empty(t, chargesOf(t, pool, []string{""}))
	for _, o := range outcomes {
		require.NotEmpty(t, o.Err)
		r.count(t, o, len(chargesOf(t, pool, []string{o.Key})))
	}
	require.Zero(t, r.lostCharged)
	return r
}

// count counts a lost call.
func (r *row) count(t *testing.T, o outcome, effects int) {
	t.Helper()
	r.lost++
	if o.Err == "" {
		r.misread++
	}
	if o.Status == 409 || o.Status == 429 { // nothing else of this service has these
		r.lostInProgress++
	}
	r.lostCharged += effects
	if r.recommended {
		t.Errorf("lost: %+v", o)
	}
}

// listen opens the network in front of the service: the demo's, at its worst, and with the patience of a gateway.
func listen(t *testing.T, name, addr string) *faultnet.Edge {
	t.Helper()
	profile, err := faultnet.Named("brutal")
	require.NoError(t, err)
	profile.AnswerTimeout = time.Second
	edge, err := faultnet.Listen(faultnet.Config{Name: name, Seed: 26, Profile: profile})
	require.NoError(t, err)
	edge.Forward(addr)
	t.Cleanup(func() { _ = edge.Close(context.WithoutCancel(t.Context())) }) // if the test failed before it did
	return edge
}

// chargesOf returns the IDs of the charges of each key that has some.
func chargesOf(t *testing.T, pool *pgxpool.Pool, keys []string) map[string][]string {
	t.Helper()
	found, err := pool.Query(t.Context(), "select key, 'ch_' || id from charge where key = any($1)", keys)
	require.NoError(t, err)
	charges := make(map[string][]string)
	var key, id string
	_, err = pgx.ForEachRow(found, []any{&key, &id}, func() error {
		charges[key] = append(charges[key], id)
		return nil
	})
	require.NoError(t, err)
	return charges
}

// slug makes a part of a key of a setting's name.
func slug(name string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
}

func table(rows []row) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 1, ' ', 0)
	fmt.Fprintln(w, "| client\t| settings\t| attempts\t| 409 met\t| effects > 1\t| lost\t| to a 409\t| charged\t| misread\t|")
	fmt.Fprintln(w, "| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t| ---\t|")
	for _, r := range rows {
		if r.calls == 0 { // skipped
			continue
		}
		fmt.Fprintf(w, "| %s\t| %s\t| %d\t| %d\t| %d\t| %d\t| %d\t| %d\t| %d\t|\n", r.client, r.name, r.attempts, r.inProgress,
			max(r.most-1, 0), r.lost, r.lostInProgress, r.lostCharged, r.misread)
	}
	_ = w.Flush()
	return text.String()
}
