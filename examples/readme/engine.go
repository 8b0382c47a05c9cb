package readme

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/pgjournal"
	"github.com/fanonce/fanonce/sdk"
)

// OpenSagas opens the engine of a process that runs sagas, and the journal in which they
// are stored. The engine also goes on with the sagas of processes that died. Close the
// engine first, then the journal.
func OpenSagas(ctx context.Context, databaseURL string, client *sdk.Client, cfg pgjournal.Config) (*saga.Engine, *pgjournal.Journal, error) {
	pool, err := pgxpool.New(ctx, databaseURL)
	if err != nil {
		return nil, nil, err
	}
	defer pool.Close()
	if err := pgjournal.Migrate(ctx, pool); err != nil { // or pgjournal.Migrations, by a tool of yours
		return nil, nil, err
	}
	journal, err := pgjournal.Open(ctx, pool.Config(), cfg)
	if err != nil {
		return nil, nil, err
	}
	engine, err := saga.Open(ctx, journal, client, saga.Config{Definitions: []saga.AnyDefinition{Checkout}})
	if err != nil {
		journal.Close()
		return nil, nil, err
	}
	return engine, journal, nil
}
