package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/examples/internal/hosting"
	"github.com/fanonce/fanonce/server"
)

//go:embed effects.sql
var effectsSQL string

// createEffects makes the effects table, where it is missing. The search_path names its schema.
func createEffects(ctx context.Context, pool *pgxpool.Pool, _ string) error {
	_, err := pool.Exec(ctx, effectsSQL, pgx.QueryExecModeSimpleProtocol) // several statements
	return err
}

// An effect is a row of the effects table: what a call does in this service.
// The table has no unique constraint, so that only the guard keeps an effect
// from happening twice.
type effect struct {
	Tenant, Key, Service, FP, ID string
	// Fence is the run's fence where the row is not committed with the run's record. Elsewhere it is 0: a run that
	// asks for its fence waits for its claim to be durable.
	Fence      int64
	Saga, Kind string
}

// The kinds of effects: a forward call's, what takes it back, and what is done upon it.
const (
	kindDo      = "do"
	kindUndo    = "undo"
	kindCapture = "capture"
)

// An answer tells the caller which effect its call had.
type answer struct {
	EffectID string `json:"effect_id"`
	Tenant   string `json:"tenant"`
	Key      string `json:"key"`
	Service  string `json:"service"`
}

func (e effect) answer() answer {
	return answer{EffectID: e.ID, Tenant: e.Tenant, Key: e.Key, Service: e.Service}
}

// An execer runs a statement: it is the run's transaction, or the pool.
type execer interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
}

func (e effect) insert(ctx context.Context, db execer) error {
	_, err := db.Exec(ctx, `insert into effects (tenant, key, service, fp, effect_id, fence, saga, kind)
		values ($1, $2, $3, $4, $5, $6, nullif($7, ''), $8)`,
		e.Tenant, e.Key, e.Service, e.FP, e.ID, e.Fence, e.Saga, e.Kind)
	if err != nil {
		return fmt.Errorf("ledger: write effect: %w", hosting.OfDatabase(err))
	}
	return nil
}

// errNoEffect is why nothing can be done upon an effect.
var errNoEffect = errors.New("no such effect, or it is undone")

// insertUpon is insert if the tenant has the effect with that ID, and it is not undone.
func (e effect) insertUpon(ctx context.Context, tx pgx.Tx, id string) error {
	var stands bool
	err := tx.QueryRow(ctx, `select exists (select from effects d where tenant = $1 and effect_id = $2 and kind = 'do'
		and not exists (select from effects u where u.tenant = d.tenant and u.key = d.key and u.kind = 'undo'))`, e.Tenant, id).Scan(&stands)
	switch {
	case err != nil:
		return fmt.Errorf("ledger: find effect: %w", hosting.OfDatabase(err))
	case !stands:
		return errNoEffect
	}
	return e.insert(ctx, tx)
}

// inboundKey is the key as it arrived: callers look for their effects with it. The
// tenant in the same row tells apart the callers who chose the same key. It is the zero
// key outside a run.
func inboundKey(r *http.Request) childkey.Key {
	key, _ := server.InboundKey(r.Context())
	return key
}

// newEffect is the effect that r's run has under key.
func newEffect(r *http.Request, key childkey.Key, service string, in input) (effect, error) {
	owner, err := hosting.Tenant(r)
	if err != nil {
		return effect{}, err
	}
	if key.IsZero() {
		return effect{}, errors.New("ledger: no key in the handler's context")
	}
	id, err := uuid.NewRandom()
	if err != nil {
		return effect{}, err
	}
	return effect{
		Tenant: owner, Key: key.String(), Service: service, FP: in.FP, ID: id.String(), Saga: in.Saga, Kind: kindDo,
	}, nil
}

// undoable reports whether the forward key had an effect that nothing has
// taken back yet. The barrier holds the forward key's record until the
// transaction ends, so no other undo of it runs beside this one.
func undoable(ctx context.Context, tx pgx.Tx, tenant string, forward childkey.Key) (bool, error) {
	var yes bool
	err := tx.QueryRow(ctx, `select count(*) filter (where kind = 'do') > 0 and count(*) filter (where kind = 'undo') = 0
		from effects where tenant = $1 and key = $2`, tenant, forward.String()).Scan(&yes)
	return yes, hosting.OfDatabase(err)
}
