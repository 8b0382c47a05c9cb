package pgstore

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// An ending is what goes in a transaction's last round trip in front of the settlement.
type ending struct {
	begun  bool               // the transaction has begun
	bare   bool               // the round trip is a transaction without BEGIN and COMMIT; set with the settlement
	queued []*pgx.QueuedQuery // of the handler
}

// beginAt is a BEGIN for an isolation level, or for the default level of the session.
func beginAt(level pgx.TxIsoLevel) string {
	if level == "" {
		return "begin"
	}
	return "begin isolation level " + string(level)
}

// settleAndCommit settles and commits, in one round trip. The handler's work must not be lost for
// want of a partition for its answer. Without a partition the answer goes to its record, in a
// second round trip. It reports whether the COMMIT may have been sent.
func (s *Store) settleAndCommit(ctx context.Context, conn *pgx.Conn, end settlement, e ending) (sent bool, err error) {
	apart := s.apart(end.end)
	e.bare = !e.begun && !apart && !s.needsBlock(conn, e.queued)
	sent, err = s.settleAs(ctx, conn, end, apart, e)
	if !apart || !s.lacksPartition(err) {
		return sent, err
	}
	if _, err := conn.Exec(ctx, "rollback to savepoint "+beforeAnswer); err != nil {
		return false, err
	}
	return s.settleAs(ctx, conn, end, false, ending{begun: true})
}

// needsBlock reports whether a pipeline with these statements needs BEGIN and COMMIT. Without them the server takes it
// for one transaction at the session's level. But then some statements could commit in the middle, such as a procedure.
func (s *Store) needsBlock(conn *pgx.Conn, queued []*pgx.QueuedQuery) bool {
	if s.cfg.Isolation != pgx.ReadCommitted || pgkit.NeedsBlock(conn) {
		return true
	}
	for _, q := range queued {
		if !neverCommits[firstWord(q.SQL)] {
			return true
		}
	}
	return false
}

// neverCommits has the first words of statements that cannot end a transaction.
var neverCommits = map[string]bool{
	"insert": true, "update": true, "delete": true, "merge": true, "select": true, "with": true, "values": true,
}

// beforeAnswer is where a transaction goes back to if its answer finds no partition.
const beforeAnswer = "fanonce_before_answer"

// settleAs is safe in one round trip because the settlement fails where
// it finds no owner: the server then passes over the COMMIT behind it.
func (s *Store) settleAs(ctx context.Context, conn *pgx.Conn, end settlement, apart bool, e ending) (sent bool, err error) {
	query := s.query.settleTx
	if apart {
		query = s.query.settleTxPartitioned
	}
	st := query.BindFunc(settleArgs(end.owner, end.end, s.db.LockTimeout))
	if err := st.Err(); err != nil {
		return false, err
	}
	if err := pgkit.NameQueries(ctx, conn, e.queued); err != nil {
		return false, unnamed(err)
	}
	if err := pgkit.Name(ctx, conn, st.SQL); err != nil {
		return false, err
	}
	notes, err := s.noteInTx(ctx, conn, end)
	if err != nil {
		return false, err
	}
	begin := ""
	if !e.begun && !e.bare {
		begin = beginAt(s.options(conn).IsoLevel)
	}
	err = e.send(ctx, conn, begin, notes, st, apart)
	return !pgkit.IsUnsent(err) || errors.As(err, new(*store.TxError)), err
}

// send sends the ending, the notes, the settlement and COMMIT.
func (e ending) send(ctx context.Context, conn *pgx.Conn, begin string, notes []pgkit.Statement, st pgkit.Statement, apart bool) error {
	batch := new(pgx.Batch)
	if begin != "" {
		batch.Queue(begin)
	}
	appendQueries(batch, e.queued)
	work := batch.Len()
	for _, setting := range st.Settings() {
		batch.Queue(setting)
	}
	for _, note := range notes {
		batch.Queue(note.SQL, note.Args...)
	}
	if apart {
		batch.Queue("savepoint " + beforeAnswer)
	}
	batch.Queue(st.SQL, st.Args...)
	if !e.bare {
		batch.Queue("commit")
	}
	results := conn.SendBatch(ctx, batch)
	workErr := execAll(results, work)
	_ = execAll(results, len(st.Settings())) // if one fails, the next statement fails too
	for range notes {
		_, _ = results.Exec() // as below
	}
	if apart {
		_, _ = results.Exec() // if it fails, the next statement fails too
	}
	_, settleErr := results.Exec()
	tag, err := e.committed(results)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	switch {
	case workErr != nil:
		return queuedRefused(workErr)
	case isLeaseLost(settleErr):
		return store.ErrLeaseLost
	case settleErr != nil:
		return settleErr
	case err == nil && tag != "COMMIT":
		return fmt.Errorf("%w: COMMIT answered %s", ErrTxFailed, tag)
	}
	return commitRefused(err)
}

// committed returns the server's answer to COMMIT. Without a block the server answers a commit that it refuses with an
// error, which the end of results has.
func (e ending) committed(results pgx.BatchResults) (tag string, err error) {
	if e.bare {
		return "COMMIT", nil
	}
	answer, err := results.Exec()
	return answer.String(), err
}

// appendQueries copies queries to batch: pgx changes the queries that it sends.
func appendQueries(batch *pgx.Batch, queries []*pgx.QueuedQuery) {
	for _, q := range queries {
		batch.Queue(q.SQL, q.Arguments...)
	}
}

// execAll reads the results of the next n statements, and returns the first error.
func execAll(results pgx.BatchResults, n int) error {
	for range n {
		if _, err := results.Exec(); err != nil {
			return err
		}
	}
	return nil
}

// queuedRefused is the failure of a queued statement. Its COMMIT was in the same round trip, and the server passed
// over it.
func queuedRefused(err error) error {
	switch {
	case isUnsendable(err):
		return pgkit.Unsent(unsendable(fmt.Errorf("%w: %w", ErrTxFailed, err)))
	case pgkit.IsUnsent(err) && pgkit.Classify(err) == pgkit.FailureLost:
		return pgkit.Unsent(err) // the connection broke while pgx asked for the statement's types
	default:
		return commitRefused(err)
	}
}

// unnamed is the error of a queued statement that could not be prepared. Then nothing was sent but that.
func unnamed(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return commitRefused(refused)
	}
	return err
}

// isLeaseLost reports that err is the failure that settle_tx.sql makes for
// itself.
func isLeaseLost(err error) bool {
	var pgErr *pgconn.PgError
	return !errors.Is(err, pgkit.ErrFateUnknown) && errors.As(err, &pgErr) && pgErr.Code == "22P02"
}
