package pgjournal

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/journal"
)

// Send sends v to a saga as part of tx, as [saga.Signal.Send] does: one commit stores what a webhook says, and has the saga go on.
// An engine that awaits signals finds it after the commit, at most saga.Config.Poll later.
//
//	err := pgjournal.Send(ctx, tx, Approved, journal.IDOf(tenant, "checkout", key), decision, j.StartConfig())
//
// Of cfg only Schema and Codec count: they must be those of the journals whose engines run the saga.
//
// Another transaction that sends the same signal to the saga waits for this one to end, and so does the end of the
// saga's wait for it. Keep tx short.
//
// The errors are those of Send, and those of [Start] about arguments and the codec. None of them has stored anything, or made tx unusable,
// except those of the server. In a REPEATABLE READ or SERIALIZABLE transaction it can fail with 40001: then run the
// transaction again.
func Send[T any](ctx context.Context, tx pgx.Tx, s saga.Signal[T], id journal.ID, v T, cfg StartConfig) error {
	if tx == nil {
		return fmt.Errorf("%w: the transaction is nil", ErrArgument)
	}
	return sendIn(ctx, pgkit.PgxTx{Tx: tx}, s, id, v, cfg)
}

// SendSQL is [Send] for a transaction of database/sql, over pgx's driver.
func SendSQL[T any](ctx context.Context, tx *sql.Tx, s saga.Signal[T], id journal.ID, v T, cfg StartConfig) error {
	if tx == nil {
		return fmt.Errorf("%w: the transaction is nil", ErrArgument)
	}
	return sendIn(ctx, pgkit.SQLTx{Tx: tx}, s, id, v, cfg)
}

func sendIn[T any](ctx context.Context, tx pgkit.UserTx, of saga.Signal[T], id journal.ID, v T, cfg StartConfig) error {
	s, err := of.Request(id, v)
	if err != nil {
		return err
	}
	if err := checkCodec(cfg.Codec); err != nil {
		return err
	}
	query, err := queriesBySchema.For(cfg.Schema, false)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrArgument, err)
	}
	sealer := sealer{codec: cfg.Codec, acceptPlain: true}
	args, err := sealer.signalArgs(s)
	if err != nil {
		return wrap("send", err)
	}
	takes, insert, sent := query.Takes.Bind(pgx.NamedArgs{"id": args["id"]}), query.SendTx.Bind(args), query.Sent.Bind(pgx.NamedArgs{"id": args["id"], "name": s.Name})
	if err := errors.Join(takes.Err(), insert.Err(), sent.Err()); err != nil {
		return wrap("send", err)
	}
	for {
		taken := true // also where the saga is not there yet
		if _, err := tx.Read(ctx, takes, func(row pgkit.Scanner) error { return row.Scan(&taken) }); err != nil {
			return wrap("send", err)
		}
		if taken {
			if stored, err := tx.Insert(ctx, insert); stored || err != nil {
				return wrap("send", err)
			}
		}
		var value []byte
		found, err := tx.Read(ctx, sent, func(row pgkit.Scanner) error { return row.Scan(&value) })
		switch {
		case err != nil:
			return wrap("send", err)
		case !found && taken: // swept in between
			continue
		}
		return wrap("send", sealer.compare(s, value, found))
	}
}

// signalArgs returns the arguments of the statements that store s, with its value sealed.
func (s sealer) signalArgs(signal journal.Signal) (pgx.NamedArgs, error) {
	if signal.Name == "" || signal.Value == nil {
		return nil, fmt.Errorf("%w: signal %q without a name or a value", ErrArgument, signal.Name)
	}
	if err := checkText("Name", signal.Name); err != nil {
		return nil, err
	}
	value, err := s.seal(signal.Value, kindSignal, signal.ID, signal.Name)
	return pgx.NamedArgs{"id": toUUID(signal.ID), "name": signal.Name, "value": value, "retention": journal.SignalRetention}, err
}

// compare returns what Send says of a saga that has that value already. found is false if it has none, and takes none.
func (s sealer) compare(signal journal.Signal, stored []byte, found bool) error {
	if !found || stored == nil {
		return journal.ErrTooLate
	}
	value, err := s.open(stored, kindSignal, signal.ID, signal.Name)
	switch {
	case err != nil:
		return unreadableSignal(signal, err)
	case !bytes.Equal(value, signal.Value):
		return journal.ErrSignalReused
	}
	return nil
}

func unreadableSignal(s journal.Signal, err error) error {
	var found damage
	found.note(fmt.Errorf("the signal %s %w", s.Name, err))
	return found.toError(s.ID)
}

// Send implements [journal.OperatorJournal]. A new signal, the saga that it wakes and the line in the audit log take one
// statement.
func (j *Journal) Send(ctx context.Context, s journal.Signal, by journal.Audit) error {
	args, err := j.sealer.signalArgs(s)
	if err == nil {
		err = checkAudit(by)
	}
	if err != nil {
		return wrap("send", err)
	}
	if args["reason"], err = j.sealer.sealReason(s.ID, by); err != nil {
		return wrap("send", err)
	}
	args["verb"], args["actor"] = string(by.Verb), by.Actor
	for {
		stored, err := j.store(ctx, s.ID, args)
		if stored || err != nil {
			return wrap("send", err)
		}
		value, found, err := j.sent(ctx, s)
		if found || err != nil {
			return wrap("send", cmp.Or(err, j.sealer.compare(s, value, true)))
		}
		switch takes, there, err := j.takes(ctx, s.ID); {
		case err != nil:
			return wrap("send", err)
		case !there && by.Verb != "":
			return journal.ErrNotFound
		case there && !takes:
			return wrap("send", journal.ErrTooLate)
		} // else the signal was swept in between
	}
}

// store stores a signal. It returns false if the saga has one of that name, or takes none.
func (j *Journal) store(ctx context.Context, id journal.ID, args pgx.NamedArgs) (bool, error) {
	if j.cfg.Distributed {
		takes, there, err := j.takes(ctx, id)
		if err != nil || there && !takes || !there && args["verb"] != "" {
			return false, err
		}
		args["woken"] = there
	}
	return briefly(ctx, j, func(args pgx.NamedArgs) (bool, error) {
		_, stored, err := pgkit.Row(ctx, j.db.Writer, j.query.Send.Bind(args), pgx.RowTo[pgtype.UUID])
		return stored, err
	}, args)
}

// takes reports whether the saga takes signals, and whether it is there.
func (j *Journal) takes(ctx context.Context, id journal.ID) (takes, there bool, err error) {
	takes, err = pgkit.One(ctx, j.db.Pool, j.query.Takes.Bind(pgx.NamedArgs{"id": toUUID(id)}), pgx.RowTo[bool])
	if errors.Is(err, pgx.ErrNoRows) {
		return false, false, nil
	}
	return takes, err == nil, err
}

// sent returns the sealed value that the saga was sent; nil if its wait has ended.
func (j *Journal) sent(ctx context.Context, s journal.Signal) (value []byte, found bool, err error) {
	type row struct {
		value []byte
		found bool
	}
	r, err := briefly(ctx, j, func(args pgx.NamedArgs) (r row, err error) {
		r.value, r.found, err = pgkit.Row(ctx, j.db.Writer, j.query.ConfirmSent.Bind(args), pgx.RowTo[[]byte])
		return r, err
	}, pgx.NamedArgs{"id": toUUID(s.ID), "name": s.Name})
	return r.value, r.found, err
}

// briefly calls write, again while a lock is held or two writes conflict. The arguments have the brief lock timeout of each try.
func briefly[T any](ctx context.Context, j *Journal, write func(pgx.NamedArgs) (T, error), args pgx.NamedArgs) (T, error) {
	args["lock_timeout"] = j.db.Briefly
	return pgkit.RetryLocked(ctx, j.cfg.LockTimeout, func() (T, error) {
		return pgkit.RetryConflict(ctx, func() (T, error) { return write(args) })
	})
}

// EndWait implements [journal.Journal], in one statement if the wait ends by it.
func (j *Journal) EndWait(ctx context.Context, o journal.Owner, name string) (journal.Signal, error) {
	s := journal.Signal{ID: o.ID, Name: name}
	if err := checkText("Name", name); err != nil {
		return s, err
	}
	args := pgx.NamedArgs{
		"id": toUUID(o.ID), "name": name, "engine": toUUID(o.Engine), "fence": o.Fence, "retention": journal.SignalRetention,
	}
	n, err := briefly(ctx, j, func(args pgx.NamedArgs) (int64, error) {
		return pgkit.Exec(ctx, j.db.Writer, j.query.EndWait.Bind(args))
	}, args)
	if err != nil || n == 1 {
		return s, wrap("end of a wait", err)
	}
	value, found, err := j.sent(ctx, s)
	if err != nil {
		return s, wrap("end of a wait", err)
	}
	r, err := j.Read(ctx, o.ID)
	switch {
	case err != nil && !errors.Is(err, journal.ErrNotFound):
		return s, err
	case err != nil, !found, r.Engine != o.Engine, r.Fence != o.Fence, r.Status != journal.Running:
		return s, wrap("end of a wait", journal.ErrLeaseLost)
	}
	return j.sealer.openSignal(s, value), nil
}

// openSignal returns s with a value that was stored.
func (s sealer) openSignal(signal journal.Signal, stored []byte) journal.Signal {
	value, err := s.open(stored, kindSignal, signal.ID, signal.Name)
	if err != nil {
		signal.Corrupt = unreadableSignal(signal, err)
	}
	signal.Value = value
	return signal
}

// Signals implements [journal.Journal], in one statement.
func (j *Journal) Signals(ctx context.Context, ids []journal.ID) ([]journal.Signal, error) {
	if len(ids) == 0 {
		return nil, ctx.Err()
	}
	all := make([]pgtype.UUID, len(ids))
	for i, id := range ids {
		all[i] = toUUID(id)
	}
	found, err := pgkit.All(ctx, j.db.Pool, j.query.Signals.Bind(pgx.NamedArgs{"ids": all}), func(row pgx.CollectableRow) (s journal.Signal, err error) {
		var id pgtype.UUID
		var value []byte
		if err := row.Scan(&id, &s.Name, &value); err != nil {
			return s, err
		}
		s.ID = id.Bytes
		return j.sealer.openSignal(s, value), nil
	})
	return found, wrap("signals", err)
}

// hearBatch is how many sagas one look of WakeSignalled finds.
const hearBatch = 100

// WakeSignalled implements [journal.Journal], in one statement if there is nothing to wake, and one more for each saga.
func (j *Journal) WakeSignalled(ctx context.Context) (woken int, err error) {
	for {
		ids, err := pgkit.All(ctx, j.db.Pool, j.query.Unheard.Bind(pgx.NamedArgs{"limit": int64(hearBatch)}), pgx.RowTo[pgtype.UUID])
		if err != nil {
			return woken, wrap("wake", err)
		}
		for _, id := range ids {
			_, err := briefly(ctx, j, func(args pgx.NamedArgs) (int64, error) {
				return pgkit.Exec(ctx, j.db.Writer, j.query.Hear.Bind(args))
			}, pgx.NamedArgs{"id": id})
			if err != nil {
				return woken, wrap("wake", err)
			}
			woken++
		}
		if len(ids) < hearBatch {
			return woken, nil
		}
	}
}
