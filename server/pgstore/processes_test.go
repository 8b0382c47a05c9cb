package pgstore_test

import (
	"context"
	"fmt"
	"os"
	osexec "os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/pgtest"
	"github.com/fanonce/fanonce/server/store"
)

const (
	childURL = "PGSTORE_TEST_CHILD_URL"
	childIDs = "PGSTORE_TEST_CHILD_IDS"

	processes, callers, keys = 4, 64, 20
)

// All callers of all processes claim the same key at once, one key after the
// other. One caller wins each key, and no caller gets an error.
func TestStore_processes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		level  string
		pooler bool
	}{{"read committed", false}, {"serializable", false}, {"read committed", true}, {"serializable", true}} {
		level := tt.level
		t.Run(fmt.Sprintf("%s, through PgBouncer %v", level, tt.pooler), func(t *testing.T) {
			t.Parallel()
			look := pgtest.NewPool(t, pgstore.Migrate)
			url := look.Config().ConnString()
			if tt.pooler {
				url = pgtest.PooledURL(t, url)
			}
			exec(t, look, "alter database "+look.Config().ConnConfig.Database+" set default_transaction_isolation = '"+level+"'")
			ids := make([]string, keys)
			for i := range ids {
				ids[i] = store.ID(random()).String()
			}
			outputs := make([]string, processes)
			var wg sync.WaitGroup
			for i := range outputs {
				wg.Go(func() {
					cmd := osexec.CommandContext(t.Context(), os.Args[0])
					cmd.Env = append(os.Environ(), childURL+"="+url, childIDs+"="+strings.Join(ids, ","))
					out, err := cmd.CombinedOutput()
					outputs[i] = string(out)
					if err != nil {
						outputs[i] += "\nended with " + err.Error()
					}
				})
			}
			wg.Wait()
			won := make(map[string]int)
			for _, out := range outputs {
				for line := range strings.Lines(out) {
					id, ok := strings.CutPrefix(strings.TrimSpace(line), "won ")
					require.True(t, ok, "a process said: %s", line)
					won[id]++
				}
			}
			for _, id := range ids {
				if won[id] != 1 {
					t.Errorf("key %s was won %d times, want 1", id, won[id])
				}
			}
			require.Equal(t, keys, queryRow[int](t, look, "select count(*) from idempotency where fence = 1"))
		})
	}
}

// child is one of the processes.
func child(url string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	cfg.MaxConns = 16
	s, err := pgstore.Open(ctx, cfg, pgstore.Config{AllowNonDurable: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer s.Close()
	for text := range strings.SplitSeq(os.Getenv(childIDs), ",") {
		id, err := store.ParseID(text)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		won, err := contest(ctx, s, id)
		if err != nil {
			fmt.Println(err)
			return 1
		}
		if won > 0 {
			fmt.Println(strings.Repeat("won "+text+"\n", won-1) + "won " + text)
		}
	}
	return 0
}

func contest(ctx context.Context, s store.Store, id store.ID) (int, error) {
	var wins atomic.Int32
	var failure atomic.Value
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			_, won, err := s.Claim(ctx, claimOf(id))
			if err != nil {
				failure.Store(err)
			}
			if won {
				wins.Add(1)
			}
		})
	}
	wg.Wait()
	err, _ := failure.Load().(error)
	return int(wins.Load()), err
}
