package pgstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// Orders of one hot row hold every connection of the pool. A request for another row is refused within StoreTimeout. Its
// answer and the log say that the key was not claimed, and that the pool was the reason.
func TestPool_hotRow(t *testing.T) {
	t.Parallel()
	_, look := open(t, pgstore.Config{})
	exec(t, look, "create table stock (sku text primary key, n int not null)")
	exec(t, look, "insert into stock values ('hot', 9), ('cold', 9)")
	const size = 4 // the default of a machine with up to four processors
	var lines lockedBuffer
	g, err := server.NewGuard(openOn(t, look, pgstore.Config{}, func(p *pgxpool.Config) { p.MaxConns = size }), server.Unscoped, server.Config{
		StoreTimeout: time.Second, Wait: -1, Logger: slog.New(slog.NewTextHandler(&lines, nil)),
	})
	require.NoError(t, err)
	var began sync.WaitGroup
	began.Add(size)
	h := routeOn(t, g, server.Route{Effect: server.Transactional}, func(w http.ResponseWriter, r *http.Request) {
		tx := pgstore.Tx(r.Context())
		sku := r.Header.Get("Sku")
		if _, err := tx.Exec(r.Context(), "select 1"); err != nil { // takes the connection
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if sku == "hot" {
			began.Done()
		}
		if _, err := tx.Exec(r.Context(), "update stock set n = n - 1 where sku = $1", sku); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
		}
	})
	holder, err := look.Begin(t.Context())
	require.NoError(t, err)
	_, err = holder.Exec(t.Context(), "select from stock where sku = 'hot' for update")
	require.NoError(t, err)
	var wg sync.WaitGroup
	for i := range size {
		wg.Go(func() {
			if code := postTo(h, fmt.Sprint("hot", i), "Sku", "hot").Code; code != http.StatusOK {
				t.Errorf("hot %d: status %d", i, code)
			}
		})
	}
	began.Wait()
	w := postTo(h, "cold", "Sku", "cold")
	requireCode(t, w, wire.NotClaimed)
	database := look.Config().ConnConfig.Database
	require.Contains(t, w.Body.String(), fmt.Sprintf(`All %d connections of the service's pool to its database \"%s\" are in use. The key was not claimed, and this attempt ran nothing.`, size, database))
	require.Contains(t, lines.String(), fmt.Sprintf("all %d connections of the pool of", size))
	require.Zero(t, queryRow[int](t, look, "select count(*) from idempotency where state <> 1"))
	require.Equal(t, size, queryRow[int](t, look, "select count(*) from idempotency"), "only the hot keys were claimed")

	require.NoError(t, holder.Rollback(t.Context()))
	wg.Wait()
	require.Equal(t, http.StatusOK, postTo(h, "cold", "Sku", "cold").Code)
}

// A lockedBuffer is a log for several goroutines.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
