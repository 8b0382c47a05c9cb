package pgjournal

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga/journal"
)

// Read implements [journal.Journal], in one statement. It takes a second statement if results are
// in the side table. It waits for no transaction, and sees committed data. If [Config].Confirm
// says so, Read first confirms a saga that is over or stuck. This confirmation waits for a
// transaction that holds the saga.
func (j *Journal) Read(ctx context.Context, id journal.ID) (journal.Record, error) {
	r, err := j.look(ctx, id, func(r journal.Record) bool { return !r.Status.Active() })
	return r, wrap("read", err)
}

// ReadOutlines implements [journal.Journal], in one statement.
func (j *Journal) ReadOutlines(ctx context.Context, ids []journal.ID) ([]journal.Record, error) {
	all := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		all[i] = toUUID(id)
	}
	found, err := pgkit.All(ctx, j.db.Pool, j.query.ReadOutlines.Bind(pgx.NamedArgs{"ids": all}), j.sealer.scanOutline)
	return found, wrap("read outlines", err)
}

// look reads the saga, and confirms it if the caller is to rely on its present state.
func (j *Journal) look(ctx context.Context, id journal.ID, relied func(journal.Record) bool) (journal.Record, error) {
	f, err := pgkit.One(ctx, j.db.Pool, j.query.Read.Bind(pgx.NamedArgs{"id": toUUID(id)}), j.sealer.scanFound)
	if err == nil && relied(f.Record) && j.mustConfirm(f.synchronous) {
		f.stored, err = j.confirm(ctx, id)
	}
	if err != nil {
		return journal.Record{}, notFound(err)
	}
	return j.addMissing(ctx, f.stored)
}

// always is for repeated writes: the caller that repeats a write relies on the record.
func always(journal.Record) bool { return true }

func (j *Journal) mustConfirm(synchronous bool) bool {
	switch j.cfg.Confirm {
	case ConfirmAlways:
		return true
	case ConfirmNever:
		return false
	default:
		return synchronous
	}
}

// confirm writes before it trusts the record that it reads.
func (j *Journal) confirm(ctx context.Context, id journal.ID) (stored, error) {
	return pgkit.RetryConflict(ctx, func() (stored, error) {
		st := j.query.Confirm.Bind(pgx.NamedArgs{"id": toUUID(id), "lock_timeout": j.db.LockTimeout})
		f, ok, err := pgkit.Row(ctx, j.db.Writer, st, j.sealer.scanFound)
		if err == nil && !ok {
			err = pgx.ErrNoRows
		}
		return f.stored, err
	})
}

// addMissing adds the results that are in the side table. They are written once and
// deleted with their saga, so that they belong to it whenever they are read.
func (j *Journal) addMissing(ctx context.Context, s stored) (journal.Record, error) {
	if len(s.missing) == 0 {
		return s.Record, nil
	}
	all, err := j.addAllMissing(ctx, []stored{s})
	if err != nil {
		return journal.Record{}, err
	}
	return all[0], nil
}

func (j *Journal) addAllMissing(ctx context.Context, sagas []stored) ([]journal.Record, error) {
	var ids []pgtype.UUID
	index := make(map[[16]byte]*stored)
	for i := range sagas {
		if s := &sagas[i]; len(s.missing) > 0 {
			ids = append(ids, toUUID(s.ID))
			index[s.ID] = s
		}
	}
	if len(ids) > 0 {
		if err := j.addResults(ctx, ids, index); err != nil {
			return nil, err
		}
	}
	records := make([]journal.Record, len(sagas))
	for i, s := range sagas {
		if len(s.missing) > 0 && s.Corrupt == nil {
			s.Corrupt = fmt.Errorf("%w: saga %v: %d results are not there", journal.ErrCorrupt, s.ID, len(s.missing))
		}
		records[i] = s.Record
	}
	return records, nil
}

func (j *Journal) addResults(ctx context.Context, ids []pgtype.UUID, index map[[16]byte]*stored) error {
	st := j.query.Results.Bind(pgx.NamedArgs{"ids": ids})
	if err := st.Err(); err != nil {
		return err
	}
	rows, err := j.db.Pool.Query(ctx, st.SQL, st.Args...)
	if err != nil {
		return err
	}
	var id pgtype.UUID
	var at place
	var result []byte
	_, err = pgx.ForEachRow(rows, []any{&id, &at.revision, &at.position, &result}, func() error {
		s := index[id.Bytes]
		i, ok := s.missing[at]
		if !ok { // it was replaced by a later one
			return nil
		}
		plain, err := j.sealer.open(result, kindLarge, s.ID, at.toParts(s.Entries[i].Step)...)
		if err != nil {
			s.damage.note(fmt.Errorf("the result of %s %w", s.Entries[i].Step, err))
			s.Corrupt = s.damage.toError(s.ID)
		}
		s.Entries[i].Result = plain
		delete(s.missing, at)
		return nil
	})
	return err
}

func notFound(err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return journal.ErrNotFound
	}
	return err
}
