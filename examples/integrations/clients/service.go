package clients

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
)

// SlowRun is how long three of ten charges take; the others take no time.
const SlowRun = 3 * time.Second

// CreateTables creates the table of the charges. The table has no unique key: the guard alone prevents a second charge.
func CreateTables(ctx context.Context, pool *pgxpool.Pool) error {
	_, err := pool.Exec(ctx, "create table charge (id bigint generated always as identity, key text not null)")
	return err
}

// NewCharges returns a service that makes a charge for each POST. Its guard has a store of package pgstore.
func NewCharges(guard *server.Guard) (http.Handler, error) {
	return guard.Route(server.Route{Name: "charges", Effect: server.Transactional}, http.HandlerFunc(charge))
}

func charge(w http.ResponseWriter, r *http.Request) {
	key, _ := server.InboundKey(r.Context()) // every guarded handler has a key
	if isSlow(key.String()) {
		time.Sleep(SlowRun) // a bank, say
	}
	var id int64
	err := pgstore.Tx(r.Context()).QueryRow(r.Context(), "insert into charge (key) values ($1) returning id", key.String()).Scan(&id)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]string{"id": fmt.Sprint("ch_", id), "object": "charge", "status": "succeeded"})
}

// isSlow chooses three of ten keys, always the same.
func isSlow(key string) bool {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key))
	return h.Sum32()%10 < 3
}
