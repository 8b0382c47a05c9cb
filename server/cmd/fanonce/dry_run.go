package main

import (
	"context"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/store"
)

// A dry run is the verb itself, over a store or a journal that writes nothing: so it refuses what the verb would refuse.

// An unwrittenStore says of each change by a person that it was made, and makes none.
type unwrittenStore struct{ store.Store }

func (s unwrittenStore) Resolve(ctx context.Context, req store.ResolveRequest) (store.Record, bool, error) {
	r, err := s.Read(ctx, req.ID)
	return r, err == nil, err
}

func (s unwrittenStore) Forget(ctx context.Context, id store.ID, _ int64, _ store.Audit) (store.Record, bool, error) {
	r, err := s.Read(ctx, id)
	return r, err == nil, err
}

// An unwrittenJournal is the same for sagas.
type unwrittenJournal struct{ journal.Journal }

func (j unwrittenJournal) Send(ctx context.Context, s journal.Signal, _ journal.Audit) error {
	_, err := j.Read(ctx, s.ID)
	return err
}

func (j unwrittenJournal) Change(ctx context.Context, c journal.Change) (journal.Record, bool, error) {
	r, err := j.Read(ctx, c.ID)
	return r, err == nil, err
}
