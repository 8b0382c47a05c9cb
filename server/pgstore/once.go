package pgstore

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/internal/record"
	"github.com/fanonce/fanonce/server/store"
)

// ErrDuplicate: a pipeline was rolled back because its key had been used before;
// see [OnceRequest.Queue].
var ErrDuplicate = errors.New("pgstore: the key was used before")

// A OnceRequest names the work that is done once.
type OnceRequest struct {
	// Scope is whose key it is, 1 to [childkey.MaxScopeBytes] bytes. Required.
	Scope string
	// Namespace tells the users of the table apart, as server.Config.Namespace and the consumers of
	// inboxes do. Empty is one too.
	Namespace string
	// Name is the name of the work. Required.
	Name string
	// Key is the key. Required.
	Key childkey.Key
	// Payload is what the key is bound to: another one under the same key is
	// refused. nil: nothing.
	Payload []byte
	// Keep is how long the key is remembered. Zero means
	// [store.DefaultAuditRetention].
	Keep time.Duration
	// Schema is as [Config].Schema.
	Schema string
}

// Once reports whether this is the first use of a key, and remembers the key as part
// of tx. It is for work that already has a transaction and no caller that waits for an
// answer, as in a consumer or a batch job. It costs one INSERT, no claim and no
// commit of its own. The running work is not visible to others: another transaction
// with the same key waits for this one to end, for as long as its lock_timeout lets it.
//
//	first, err := pgstore.Once(ctx, tx, request)
//	if err != nil || !first {
//		return err // done before
//	}
//	… // the work, in tx
//
// [Store.OnceFunc] begins and commits the transaction as well, with a round trip less.
//
// The key commits and rolls back with tx. Where commits wait for a standby Once also locks the
// record of an earlier use, so that the commit of tx waits for the standby. Commit tx before you
// rely on a result of false.
//
// Once returns a [*store.RefusedError] for a key that was used with another name or
// payload, or not by Once (key-reused), and for a key that was cancelled (key-cancelled). It
// returns an error wrapping [ErrArgument] for an invalid request, and has sent no statement then.
// In a REPEATABLE READ or SERIALIZABLE transaction it can fail with 40001: run the
// transaction again.
func Once(ctx context.Context, tx pgx.Tx, req OnceRequest) (first bool, err error) {
	if tx == nil {
		return false, badArgument("the transaction is nil")
	}
	return onceIn(ctx, pgkit.PgxTx{Tx: tx}, &req)
}

// OnceSQL is [Once] for a transaction of database/sql, over pgx's driver.
func (o OnceRequest) OnceSQL(ctx context.Context, tx *sql.Tx) (first bool, err error) {
	if tx == nil {
		return false, badArgument("the transaction is nil")
	}
	return onceIn(ctx, pgkit.SQLTx{Tx: tx}, &o)
}

// Queue appends [Once] to a batch, so that the work goes with it in one round trip. It
// must be the first statement of the batch, behind BEGIN if there is one. With COMMIT at the end of the batch, or
// outside a transaction, all of it goes in one commit. Statements that can commit by themselves, such as CALL and DO,
// need BEGIN and COMMIT around them. Where the key was used before the whole
// batch fails and rolls back: [OnceRequest.BatchError] says so. [Store.SendOnce] does all of it.
func (o OnceRequest) Queue(batch *pgx.Batch) error {
	p, err := prepare(&o)
	if err != nil {
		return err
	}
	return wrap("once", p.queue(batch))
}

func (p *prepared) queue(batch *pgx.Batch) error {
	st := p.query.OnceOrFail.Bind(p.args)
	if err := st.Err(); err != nil {
		return err
	}
	batch.Queue(st.SQL, st.Args...)
	return nil
}

// SendOnce is [Once] for work that is known beforehand: the key, the queries of
// batch and the commit go in one round trip. It reports false where the
// key was used before for the same Name and Payload. Then the batch has changed no row, and SendOnce
// costs one more round trip. SendOnce calls the functions of batch with the results, and never after it has
// returned. A function that fails does not prevent the commit: SendOnce returns [store.ErrFateUnknown].
//
// All of it is one transaction. SendOnce refuses a statement that would end it, such as COMMIT, with [ErrTxOwned], and
// sends nothing then; the server refuses a procedure that commits. No query can use what a query before it makes: see
// [Queue].
//
// The transaction is the store's own, at READ COMMITTED, and so is the schema: that of
// req is not used. Another transaction with the key is waited for, for at most
// Config.LockTimeout. Besides the errors of Once it returns the server's error for a
// query that fails, and [store.ErrFateUnknown] if the answer was lost. Send the same request and
// batch again: the second SendOnce learns the fate. SendOnce does not change batch.
func (s *Store) SendOnce(ctx context.Context, req OnceRequest, batch *pgx.Batch) (first bool, err error) {
	if batch == nil || batch.Len() == 0 || begins(batch) {
		return false, badArgument("a batch without queries, or with a BEGIN")
	}
	for _, q := range batch.QueuedQueries {
		if err := canQueue(q.SQL); err != nil {
			return false, err
		}
	}
	req.Schema = s.query().schema
	p, err := prepare(&req)
	if err != nil {
		return false, err
	}
	sent, err := s.onceBatch(p, batch)
	if err != nil {
		return false, wrap("once", err)
	}
	for n := 0; ; n++ {
		err := onceError(pgkit.SendBatch(ctx, s.db.Writer, sent, mayCommit(batch.QueuedQueries)))
		if !errors.Is(err, ErrDuplicate) || n == sweptInBetween {
			return err == nil, wrap("once", err)
		}
		st := p.query.OnceRecord.Bind(pgx.NamedArgs{"key": toUUID(p.id)})
		r, err := pgkit.One(ctx, s.db.Pool, st, func(row pgx.CollectableRow) (r onceRecord, err error) { return r, r.scan(row) })
		switch {
		case err == nil:
			return false, s.confirmOnce(ctx, r, p)
		case !errors.Is(err, pgx.ErrNoRows): // else it was swept in between
			return false, wrap("once", err)
		}
	}
}

// onceBatch returns the key and the queries of work in one batch.
func (s *Store) onceBatch(p prepared, work *pgx.Batch) (*pgx.Batch, error) {
	sent := new(pgx.Batch)
	bound, unbound := s.query().BoundLocks.Bind(pgx.NamedArgs{"lock_timeout": s.db.LockTimeout}), s.query().UnboundLocks.Bind(nil)
	if err := errors.Join(bound.Err(), unbound.Err()); err != nil {
		return nil, err
	}
	sent.Queue(bound.SQL, bound.Args...)
	for _, setting := range bound.Settings() {
		sent.Queue(setting)
	}
	if err := p.queue(sent); err != nil {
		return nil, err
	}
	if len(bound.Settings()) > 0 {
		for _, setting := range pgkit.LockTimeoutReset() {
			sent.Queue(setting)
		}
	}
	sent.Queue(unbound.SQL)
	sent.QueuedQueries = append(sent.QueuedQueries, work.QueuedQueries...)
	return sent, nil
}

// sweptInBetween is how often a record that is in the way may be swept before it is read. Once is
// rare, and several times mean that something else is in the way.
const sweptInBetween = 3

// BatchError returns an error wrapping [ErrDuplicate] if err is how a batch failed because of
// [OnceRequest.Queue], and err itself otherwise. Whether the key was used for the
// same is for [Once] to say.
func (o OnceRequest) BatchError(err error) error { return onceError(err) }

func onceError(err error) error {
	if !errors.Is(err, pgkit.ErrFateUnknown) && isTaken(err) {
		return fmt.Errorf("%w: %w", ErrDuplicate, err)
	}
	return err
}

// prepared is a request that has been checked.
type prepared struct {
	query       *queries
	id          store.ID
	fingerprint store.Fingerprint
	args        pgx.NamedArgs
}

func prepare(req *OnceRequest) (prepared, error) {
	switch {
	case req.Scope == "" || len(req.Scope) > childkey.MaxScopeBytes:
		return prepared{}, badArgument("OnceRequest.Scope has %d bytes, must have 1 to %d", len(req.Scope), childkey.MaxScopeBytes)
	case req.Name == "":
		return prepared{}, badArgument("OnceRequest.Name is empty")
	case req.Key.IsZero():
		return prepared{}, badArgument("OnceRequest.Key is zero")
	}
	if err := store.CheckLength("Keep", req.Keep); err != nil {
		return prepared{}, err
	}
	if req.Keep == 0 {
		req.Keep = store.DefaultAuditRetention
	}
	query, err := queriesBySchema.For(req.Schema, false)
	if err != nil {
		return prepared{}, badArgument("Schema: %w", err)
	}
	p := prepared{
		query:       query,
		id:          store.NewID(req.Scope, req.Namespace, req.Key),
		fingerprint: record.TaskFingerprint(req.Scope, req.Namespace, req.Key, "once "+req.Name, req.Payload),
	}
	p.args = pgx.NamedArgs{
		"key": toUUID(p.id), "token": toUUID(newToken()), "keep": req.Keep,
		"fingerprint_version": int16(p.fingerprint.Version), "fingerprint": p.fingerprint.Sum[:],
	}
	return p, nil
}

// newToken returns a random token. crypto/rand never fails: it ends the process
// instead.
func newToken() (t store.Token) {
	_, _ = rand.Read(t[:])
	return t
}

// onceRecord has the facts that Once needs about the record in its way.
type onceRecord struct {
	state       store.State
	fingerprint store.Fingerprint
	synchronous bool // commits wait for a standby
}

// onceIn is once for the caller's own transaction.
func onceIn(ctx context.Context, tx pgkit.UserTx, req *OnceRequest) (bool, error) {
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
	_, err = tx.Insert(ctx, p.query.OnceConfirm.Bind(pgx.NamedArgs{"key": toUUID(p.id)}))
	return false, wrap("once", err)
}

// once inserts the key, or returns the record in its way.
func once(ctx context.Context, tx pgkit.UserTx, p prepared) (first bool, r onceRecord, err error) {
	for {
		st := p.query.Once.Bind(p.args)
		if err := st.Err(); err != nil {
			return false, r, wrap("once", err)
		}
		if first, err := tx.Insert(ctx, st); first || err != nil {
			return first, r, wrap("once", err)
		}
		found, err := tx.Read(ctx, p.query.OnceRecord.Bind(pgx.NamedArgs{"key": toUUID(p.id)}), r.scan)
		switch {
		case err != nil:
			return false, r, wrap("once", err)
		case found: // else it was swept in between
			return false, r, nil
		}
	}
}

// refusal is nil for the record that the same request left.
func (r onceRecord) refusal(mine store.Fingerprint) error {
	switch {
	case r.state == store.StateCancelled:
		return &store.RefusedError{Code: wire.KeyCancelled}
	case r.fingerprint != mine:
		return &store.RefusedError{Code: wire.KeyReused}
	default:
		return nil
	}
}

func (r *onceRecord) scan(row pgkit.Scanner) error {
	var state, version int16
	var sum []byte
	if err := row.Scan(&state, &version, &sum, &r.synchronous); err != nil {
		return err
	}
	c := columns{state: state, fingerprintVersion: version, fingerprint: sum}
	if err := cmp.Or(c.stateDamage(), c.fingerprintDamage()); err != nil {
		return fmt.Errorf("%w: %w", store.ErrRecordUnreadable, err)
	}
	found := c.record()
	r.state, r.fingerprint = found.State, found.Fingerprint
	return nil
}

// OnceFunc is [Once] with the transaction around it: it begins one, in the round
// trip that inserts the key, calls work, and commits. It reports false, and work was
// not called, where the key was used before for the same. Work that is known
// beforehand is done faster by [Store.SendOnce].
//
//	first, err := store.OnceFunc(ctx, request, func(ctx context.Context, tx pgx.Tx) error {
//		_, err := tx.Exec(ctx, "insert into payout values ($1, $2)", to, cents)
//		return err
//	})
//
// The transaction is the store's own, at Config.Isolation, and so is the schema: that of req is not
// used. Work must not end the transaction by SQL of its own: if it ends the transaction and begins
// another, the key is lost. Its argument tx is as in a guarded run, and [Tx], or [SQLTx] for
// database/sql, finds it in work's ctx. Its Commit and Rollback return [ErrTxOwned], and after work
// every method returns [ErrTxEnded]. If work returns an error or panics everything is rolled back,
// the key too, and OnceFunc returns that error, or panics.
//
// ctx bounds all of it. Besides the errors of Once, OnceFunc returns [store.ErrFateUnknown] if the
// answer to COMMIT was lost, or ctx ended before the answer came. Call it again with the same
// request, and it finds out. An error that wraps [store.ErrConflict] is a serialization failure or
// deadlock: nothing happened, and it can be called again. [ErrTxFailed] and [ErrTxBusy] say what
// work left behind that a COMMIT would hide; then nothing is committed.
func (s *Store) OnceFunc(ctx context.Context, req OnceRequest, work func(ctx context.Context, tx pgx.Tx) error) (bool, error) {
	if work == nil {
		return false, badArgument("the function is nil")
	}
	req.Schema = s.query().schema
	p, err := prepare(&req)
	if err != nil {
		return false, err
	}
	if err := s.db.Writer.Admit(ctx); err != nil {
		return false, wrap("once", err)
	}
	first, r, err := s.runOnce(ctx, p, work)
	if first || err != nil {
		return first, err
	}
	return false, s.confirmOnce(ctx, r, p)
}

// runOnce does the work in a transaction that begins with the key. It reports false, and returns the record that is in
// the way, where the key was used.
func (s *Store) runOnce(ctx context.Context, p prepared, work func(ctx context.Context, tx pgx.Tx) error) (bool, onceRecord, error) {
	t := &tx{store: s, runs: ctx}
	defer func() { _ = t.Rollback(ctx) }() // nothing, once it has ended; and the server does it where the connection broke
	inside := &handlerTx{root: t, refuse: ErrTxOwned}
	first, r, err := once(ctx, pgkit.PgxTx{Tx: inside}, p)
	if !first || err != nil {
		return false, r, t.blame(err)
	}
	if err := work(t.NewContext(ctx), inside); err != nil {
		return false, r, t.blame(err)
	}
	if err := t.commit(ctx); err != nil {
		return false, r, wrap("once", err)
	}
	return true, r, nil
}

// confirmOnce decides about a record in the way, which may be visible before a standby has
// confirmed it.
func (s *Store) confirmOnce(ctx context.Context, r onceRecord, p prepared) error {
	if err := r.refusal(p.fingerprint); err != nil {
		return err
	}
	if !r.synchronous && s.cfg.ConfirmReplays != ConfirmAlways {
		return nil
	}
	_, err := s.readPatiently(ctx, p.id)
	return wrap("once", err)
}

// blame names the conflict that err came from, whatever was made of it since.
func (t *tx) blame(err error) error {
	if err != nil && errors.Is(t.Err(), store.ErrConflict) && !errors.Is(err, store.ErrConflict) {
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	}
	return err
}

// commit commits the transaction without a settlement.
func (t *tx) commit(ctx context.Context) error {
	if err := t.committable(); err != nil {
		return err
	}
	stage, ok := t.end()
	if !ok {
		return ErrTxEnded
	}
	queued := t.queue.close()
	if stage != stageBegun && len(queued) == 0 {
		return nil
	}
	return t.judge(t.finish(ctx, stage, func(ctx context.Context, conn *pgx.Conn) (sent bool, err error) {
		switch {
		case len(queued) == 0:
			err = commitRefused(pgkit.Commit(ctx, conn))
		case stage != stageBegun:
			err = commitQueued(ctx, conn, beginAt(t.store.options(conn).IsoLevel), queued)
		default:
			err = commitQueued(ctx, conn, "", queued)
		}
		return !pgkit.IsUnsent(err), err
	}))
}

// commitQueued sends the queued statements and COMMIT, in one round trip, behind begin where that is not empty.
func commitQueued(ctx context.Context, conn *pgx.Conn, begin string, queued []*pgx.QueuedQuery) error {
	if err := pgkit.NameQueries(ctx, conn, queued); err != nil {
		return refusedName(err)
	}
	batch := new(pgx.Batch)
	if begin != "" {
		batch.Queue(begin)
	}
	appendQueries(batch, queued)
	batch.Queue("set local client_min_messages = warning") // see [pgkit.Commit]
	work := batch.Len()
	batch.Queue("commit")
	results := conn.SendBatch(ctx, batch)
	err := execAll(results, work)
	if err != nil {
		_ = results.Close() // says the same
		return queuedRefused(err)
	}
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err == nil && tag.String() != "COMMIT" {
		return fmt.Errorf("%w: COMMIT answered %s", ErrTxFailed, tag)
	}
	return commitRefused(err)
}
