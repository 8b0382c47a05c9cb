package pgstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgkit"
)

// ErrDuplicate: a pipeline was rolled back because its key had been used before;
// see [OnceRequest.Queue].
var ErrDuplicate = errors.New("pgstore: the key was used before")

// A OnceRequest names what is to be done once.
type OnceRequest struct {
	// Scope is whose key it is, 1 to [server.MaxScopeBytes] bytes. Required.
	Scope string
	// Namespace tells apart who uses the table, as [server.Config.Namespace]
	// and the consumers of inboxes do. Empty is one too.
	Namespace string
	// Name is what is done. Required.
	Name string
	// Key is the key. Required.
	Key childkey.Key
	// Payload is what the key is bound to: another one under the same key is
	// refused. nil: nothing.
	Payload []byte
	// Keep is how long the key is remembered. Zero means
	// [server.DefaultAuditRetention].
	Keep time.Duration
	// Schema is as [Config].Schema.
	Schema string
}

// Once reports whether this is the first use of a key, and remembers it as part
// of tx: for work that already has a transaction and nobody who waits for an
// answer, as a consumer's or a batch job's. It costs one INSERT, no claim and no
// commit of its own; the price is that nobody sees that the work is under way:
// another transaction with the same key waits for this one to end, for as long as
// its lock_timeout lets it.
//
//	first, err := pgstore.Once(ctx, tx, request)
//	if err != nil || !first {
//		return err // done before
//	}
//	… // the work, in tx
//
// [Store.OnceFunc] begins and commits the transaction as well, with a round trip less.
//
// The key commits and rolls back with tx. Where commits wait for a standby a record that is in
// the way is locked, so that tx waits for it too: commit it before you believe that
// the work was done. Once returns a [*server.RefusedError] for
// a key that was used with another name or payload, or otherwise than by Once
// (key-reused), or was cancelled (key-cancelled), and an error wrapping
// [ErrArgument] for a request that is not as it must be; then it has sent nothing.
// In a REPEATABLE READ or SERIALIZABLE transaction it can fail with 40001: run the
// transaction again.
func Once(ctx context.Context, tx pgx.Tx, req OnceRequest) (first bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("%w: no transaction", ErrArgument)
	}
	return onceIn(ctx, pgxOnce{tx}, &req)
}

// OnceSQL is [Once] for a transaction of database/sql, over pgx's driver.
func OnceSQL(ctx context.Context, tx *sql.Tx, req OnceRequest) (first bool, err error) {
	if tx == nil {
		return false, fmt.Errorf("%w: no transaction", ErrArgument)
	}
	return onceIn(ctx, sqlOnce{tx}, &req)
}

// Queue appends [Once] to a batch whose first statement it must be, so that the
// work goes with it in one round trip; with COMMIT at the end of the batch, or
// outside a transaction, in one commit. Where the key was used before the whole
// batch fails and rolls back: [OnceError] says so. [Store.SendOnce] does all of it.
func (req OnceRequest) Queue(batch *pgx.Batch) error {
	p, err := prepare(&req)
	if err != nil {
		return err
	}
	return p.queue(batch)
}

func (p *prepared) queue(batch *pgx.Batch) error {
	st := p.query.onceOrFail.Bind(p.args)
	if err := st.Err(); err != nil {
		return wrap("once", err)
	}
	batch.Queue(st.SQL, st.Args...)
	return nil
}

// SendOnce is [Once] for work that is known beforehand: the key, the queries of
// batch and the commit go in one round trip. It reports false, and nothing of batch
// has happened, where the key was used before for the same Name and Payload; that costs
// one more. The functions of batch are called with what comes back, and never after SendOnce has
// returned. That one fails does not prevent the commit: then it is a [server.ErrFateUnknown].
//
// The transaction is the store's own, at READ COMMITTED, and so is the schema: that of
// req is not used. Another transaction with the key is waited for, for at most
// Config.LockTimeout. Besides the errors of Once it returns what the server says of a
// query that fails, and [server.ErrFateUnknown] if the answer was lost: send the same
// again, and it finds out. batch is as it was, and can be.
func (s *Store) SendOnce(ctx context.Context, req OnceRequest, batch *pgx.Batch) (first bool, err error) {
	if batch == nil || batch.Len() == 0 || begins(batch) {
		return false, fmt.Errorf("%w: a batch without queries, or with a BEGIN", ErrArgument)
	}
	req.Schema = s.cfg.Schema
	p, err := prepare(&req)
	if err != nil {
		return false, err
	}
	sent := new(pgx.Batch)
	bound, unbound := p.query.boundLocks.Bind(pgx.NamedArgs{"lock_timeout": s.lockTimeout}), p.query.unboundLocks.Bind(nil)
	if err := errors.Join(bound.Err(), unbound.Err()); err != nil {
		return false, wrap("once", err)
	}
	sent.Queue(bound.SQL, bound.Args...)
	if err := p.queue(sent); err != nil {
		return false, err
	}
	sent.Queue(unbound.SQL)
	sent.QueuedQueries = append(sent.QueuedQueries, batch.QueuedQueries...)
	for n := 0; ; n++ {
		err := OnceError(pgkit.SendBatch(ctx, s.writer, sent))
		if !errors.Is(err, ErrDuplicate) || n == sweptInBetween {
			return err == nil, wrap("once", err)
		}
		st := p.query.onceRecord.Bind(pgx.NamedArgs{"key": uuid(p.id)})
		r, err := pgkit.One(ctx, s.pool, st, func(row pgx.CollectableRow) (r onceRecord, err error) { return r, r.scan(row) })
		switch {
		case err == nil:
			return false, s.confirmOnce(ctx, r, p)
		case !errors.Is(err, pgx.ErrNoRows): // else it was swept in between
			return false, wrap("once", err)
		}
	}
}

// sweptInBetween is how often a record that is in the way may be gone when it is looked
// at. One time is rare, and several mean that something else is in the way.
const sweptInBetween = 3

// begins reports whether b begins a transaction by itself. It can only be
// recognized by what it makes of a failure.
func begins(b *pgx.Batch) bool { return pgx.FailedBatchResults(b, ErrTxOwned).Tx() != nil }

// OnceError returns [ErrDuplicate] if err is how a batch failed because of
// [OnceRequest.Queue], and err itself otherwise. Whether the key was used for the
// same is for [Once] to say.
func OnceError(err error) error {
	if !errors.Is(err, pgkit.ErrFateUnknown) && isTaken(err) {
		return fmt.Errorf("%w: %w", ErrDuplicate, err)
	}
	return err
}

// prepared is a request that has been checked.
type prepared struct {
	query       *queries
	id          server.ID
	fingerprint server.Fingerprint
	args        pgx.NamedArgs
}

func prepare(req *OnceRequest) (prepared, error) {
	switch {
	case req.Scope == "" || len(req.Scope) > server.MaxScopeBytes:
		return prepared{}, fmt.Errorf("%w: a Scope of %d bytes", ErrArgument, len(req.Scope))
	case req.Name == "":
		return prepared{}, fmt.Errorf("%w: no Name", ErrArgument)
	case req.Key.IsZero():
		return prepared{}, fmt.Errorf("%w: no Key", ErrArgument)
	}
	if err := checkLength("Keep", req.Keep); err != nil {
		return prepared{}, err
	}
	if req.Keep == 0 {
		req.Keep = server.DefaultAuditRetention
	}
	query, err := queriesFor(req.Schema)
	if err != nil {
		return prepared{}, fmt.Errorf("%w: Schema: %w", ErrArgument, err)
	}
	p := prepared{
		query:       query,
		id:          server.NewID(req.Scope, req.Namespace, req.Key),
		fingerprint: server.NewFingerprint(req.Scope, req.Namespace, req.Key, "once "+req.Name, req.Payload),
	}
	p.args = pgx.NamedArgs{
		"key": uuid(p.id), "token": uuid(newToken()), "keep": req.Keep,
		"fingerprint_version": int16(p.fingerprint.Version), "fingerprint": p.fingerprint.Sum[:],
	}
	return p, nil
}

// queriesBySchema are the statements of those who have no store.
var queriesBySchema sync.Map // string → *queries

func queriesFor(schema string) (*queries, error) {
	if q, ok := queriesBySchema.Load(schema); ok {
		return q.(*queries), nil //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	q, err := loadQueries(schema)
	if err == nil {
		queriesBySchema.Store(schema, q)
	}
	return q, err
}

// newToken returns a random token. crypto/rand never fails: it ends the process
// instead.
func newToken() (t server.Token) {
	_, _ = rand.Read(t[:])
	return t
}

// A onceTx is one of the two kinds of transaction.
type onceTx interface {
	insert(ctx context.Context, st pgkit.Statement) (inserted bool, err error) // or locks a row
	read(ctx context.Context, st pgkit.Statement) (r onceRecord, found bool, err error)
}

// onceRecord is what Once has to know of the record in its way.
type onceRecord struct {
	state       server.State
	fingerprint server.Fingerprint
	synchronous bool // commits wait for a standby
}

// onceIn is once for the caller's own transaction.
func onceIn(ctx context.Context, tx onceTx, req *OnceRequest) (bool, error) {
	p, err := prepare(req)
	if err != nil {
		return false, err
	}
	first, r, err := once(ctx, tx, p)
	if first || err != nil {
		return first, err
	}
	if err := r.refusal(p.fingerprint); err != nil || !r.synchronous {
		return false, err
	}
	_, err = tx.insert(ctx, p.query.onceConfirm.Bind(pgx.NamedArgs{"key": uuid(p.id)}))
	return false, wrap("once", err)
}

// once inserts the key, or returns the record in its way.
func once(ctx context.Context, tx onceTx, p prepared) (first bool, r onceRecord, err error) {
	for {
		st := p.query.once.Bind(p.args)
		if err := st.Err(); err != nil {
			return false, r, wrap("once", err)
		}
		if first, err := tx.insert(ctx, st); first || err != nil {
			return first, r, wrap("once", err)
		}
		r, found, err := tx.read(ctx, p.query.onceRecord.Bind(pgx.NamedArgs{"key": uuid(p.id)}))
		switch {
		case err != nil:
			return false, r, wrap("once", err)
		case found: // else it was swept in between
			return false, r, nil
		}
	}
}

// refusal is nil for the record that the same request left.
func (r onceRecord) refusal(mine server.Fingerprint) error {
	switch {
	case r.state == server.StateCancelled:
		return &server.RefusedError{Code: wire.KeyCancelled}
	case r.fingerprint != mine:
		return &server.RefusedError{Code: wire.KeyReused}
	default:
		return nil
	}
}

type pgxOnce struct{ tx pgx.Tx }

func (o pgxOnce) insert(ctx context.Context, st pgkit.Statement) (bool, error) {
	tag, err := o.tx.Exec(ctx, st.SQL, st.Args...)
	return tag.RowsAffected() == 1, err
}

func (o pgxOnce) read(ctx context.Context, st pgkit.Statement) (r onceRecord, found bool, err error) {
	err = r.scan(o.tx.QueryRow(ctx, st.SQL, st.Args...))
	if errors.Is(err, pgx.ErrNoRows) {
		return r, false, nil
	}
	return r, err == nil, err
}

type sqlOnce struct{ tx *sql.Tx }

func (o sqlOnce) insert(ctx context.Context, st pgkit.Statement) (bool, error) {
	result, err := o.tx.ExecContext(ctx, st.SQL, st.Args...)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n == 1, err
}

func (o sqlOnce) read(ctx context.Context, st pgkit.Statement) (r onceRecord, found bool, err error) {
	err = r.scan(o.tx.QueryRowContext(ctx, st.SQL, st.Args...))
	if errors.Is(err, sql.ErrNoRows) {
		return r, false, nil
	}
	return r, err == nil, err
}

func (r *onceRecord) scan(row interface{ Scan(...any) error }) error {
	var state, version int16
	var sum []byte
	if err := row.Scan(&state, &version, &sum, &r.synchronous); err != nil {
		return err
	}
	c := columns{state: state, fingerprintVersion: version, fingerprint: sum}
	if err := cmp.Or(c.stateDamage(), c.fingerprintDamage()); err != nil {
		return fmt.Errorf("%w: %w", server.ErrRecordUnreadable, err)
	}
	found := c.record()
	r.state, r.fingerprint = found.State, found.Fingerprint
	return nil
}
