package pgstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// An ending is what goes in a transaction's last round trip in front of the settlement.
type ending struct {
	begun  bool               // the transaction has begun
	bare   bool               // the round trip is a transaction without BEGIN and COMMIT; set with the settlement
	asPool bool               // it settles with the pool's role, if it can; set with the settlement
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
	apart := s.goesApart(end.end)
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
	return s.cfg.Isolation != pgx.ReadCommitted || pgkit.NeedsBlock(conn) || mayCommit(queued)
}

// mayCommit reports whether one of queries may commit by itself where no block is around it.
func mayCommit(queries []*pgx.QueuedQuery) bool {
	return slices.ContainsFunc(queries, func(q *pgx.QueuedQuery) bool { return !neverCommits[pgkit.FirstWord(q.SQL)] })
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
	query := s.query().SettleTx
	if apart {
		query = s.query().SettleTxPartitioned
	}
	st := query.Bind(settleArgs(end.owner, end.end, s.db.LockTimeout))
	if err := st.Err(); err != nil {
		return false, err
	}
	if err := pgkit.NameQueries(ctx, conn, e.queued); err != nil {
		return false, refusedName(err)
	}
	if err := pgkit.Name(ctx, conn, st.SQL); err != nil {
		return false, err
	}
	e.asPool = s.changesRole.Load() || s.query().distributed
	before, err := s.beforeSettlement(ctx, conn, end, e)
	if err != nil {
		return false, err
	}
	begin := ""
	if !e.begun && !e.bare {
		begin = beginAt(s.options(conn).IsoLevel)
	}
	err = e.send(ctx, conn, begin, before, st, apart)
	if errors.Is(err, errOtherRole) {
		s.changesRole.Store(true)
	}
	return !pgkit.IsUnsent(err) || errors.As(err, new(*store.TxError)), err
}

// beforeSettlement returns the statements that go between the handler's and the settlement, with names.
func (s *Store) beforeSettlement(ctx context.Context, conn *pgx.Conn, end settlement, e ending) ([]pgkit.Statement, error) {
	before := s.notesOf(end)
	if e.asPool {
		before = append(s.asPool(conn), before...)
	}
	for _, st := range before {
		if err := st.Err(); err != nil {
			return nil, err
		}
		if err := pgkit.Name(ctx, conn, st.SQL); err != nil {
			return nil, err
		}
	}
	return before, nil
}

// asPool returns the statement after which others of the store run with the role that conn began with. Citus has a
// connection to its workers for each role, so distributed tables do without it.
func (s *Store) asPool(conn *pgx.Conn) []pgkit.Statement {
	if s.query().distributed {
		return nil
	}
	return []pgkit.Statement{s.query().AsPool.Bind(pgx.NamedArgs{"role": pgkit.FirstRole(conn)})}
}

// send sends the ending, what goes before the settlement, the settlement and COMMIT.
func (e ending) send(ctx context.Context, conn *pgx.Conn, begin string, before []pgkit.Statement, st pgkit.Statement, apart bool) error {
	batch := new(pgx.Batch)
	if begin != "" {
		batch.Queue(begin)
	}
	appendQueries(batch, e.queued)
	work := batch.Len()
	for _, setting := range st.Settings() {
		batch.Queue(setting)
	}
	for _, b := range before {
		batch.Queue(b.SQL, b.Args...)
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
	for range before {
		_, _ = results.Exec() // as below
	}
	if apart {
		_, _ = results.Exec() // if it fails, the next statement fails too
	}
	_, settleErr := results.Exec()
	tag, err := e.readCommit(results)
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	switch {
	case workErr != nil:
		return queuedRefused(workErr)
	case isLeaseLost(settleErr):
		return store.ErrLeaseLost
	case settleErr != nil:
		return e.explainSettlement(conn, settleErr)
	case err == nil && tag != "COMMIT":
		return fmt.Errorf("%w: COMMIT answered %s", ErrTxFailed, tag)
	}
	return commitRefused(err)
}

// errOtherRole is a settlement that the handler's role may not make. Few services have such a handler, so it costs the
// first run of it a second turn, and not each run of all others the statement of asPool.
var errOtherRole = fmt.Errorf("%w: the handler's role may not write the store's tables, so the next turn settles with the pool's",
	store.ErrConflict)

// explainSettlement names what the handler did if the settlement cannot find the tables or may not write them.
func (e ending) explainSettlement(conn *pgx.Conn, err error) error {
	switch {
	case hasCode(err, "25006") && takesWrites(conn):
		return &store.TxError{
			SQLState: "25006", Commit: true, Err: fmt.Errorf("%w: %w", ErrTxFailed, err),
			Reason: "the handler made its transaction read only, and the answer belongs into it: let it leave that out, or make the route Keyed",
		}
	case !hasCode(err, "42501", "42P01", "3F000"):
		return err
	case hasCode(err, "42501") && !e.asPool:
		return errOtherRole
	}
	return &store.TxError{
		SQLState: refusalOf(err).Code, Commit: true, Err: fmt.Errorf("%w: %w", ErrTxFailed, err),
		Reason: "the settlement cannot write the store's tables in the handler's transaction, which has another role, or a search_path without them: " +
			"let the handler send \"reset role\" before it returns, or set Config.Schema",
	}
}

// takesWrites reports whether the server of conn is known to take writes, unless a transaction says otherwise.
func takesWrites(conn *pgx.Conn) bool {
	return conn.PgConn().ParameterStatus("in_hot_standby") == "off" && conn.PgConn().ParameterStatus("default_transaction_read_only") == "off"
}

// readCommit returns the server's answer to COMMIT. Without a block the server answers a commit that it refuses with an
// error, which the end of results has.
func (e ending) readCommit(results pgx.BatchResults) (tag string, err error) {
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

// refusedName is the error of a queued statement that could not be prepared. Then nothing was sent but that.
func refusedName(err error) error {
	var refused *pgconn.PgError
	if errors.As(err, &refused) {
		return commitRefused(refused)
	}
	return err
}

// Queue appends a statement to the transaction of the run that ctx belongs to. It sends nothing. When the handler has
// returned, the queued statements go in one round trip with the answer and COMMIT, in their order. They come after
// every statement that the handler sent with [Tx] or [SQLTx]. Each one saves a round trip.
//
//	err := pgstore.Queue(ctx, "insert into entry (account, cents) values ($1, $2)", in.Account, in.Cents)
//
// The answer must not depend on a queued statement: it is complete before the statement is sent. The handler does not
// get the result, and a row count prevents nothing. If a queued statement fails nothing is committed, neither the rows
// nor the answer. The guard then does what it does after a refused COMMIT: a violated constraint goes to OnCommitError
// of the [server.Route]. So a rule that the answer relies on must be a constraint. To demand a row, write it into the
// statement:
//
//	with changed as (update account set cents = cents - $2 where id = $1 returning id)
//	insert into entry (account, cents) values ((select id from changed), -$2) -- account is not null
//
// A queued statement cannot use what a queued statement before it makes, such as a temporary table, or a search_path
// that it sets: the types of all statements are looked up before the first is sent. Use [Tx] for these.
//
// Queued statements are bounded by SettleTimeout of the guard's Config. They are outside the handler's savepoints. sql
// is one statement, as for an Exec with arguments. args may be one [pgx.NamedArgs], but may not have other options.
//
// Queue returns [ErrNoTx] where ctx has no transaction, and [ErrTxEnded] after the run. It returns [ErrTxOwned] for
// a statement that would end the transaction, and [ErrArgument] for an empty one. Then nothing is queued. It does not
// block, and is safe for concurrent use.
func Queue(ctx context.Context, sql string, args ...any) error {
	t, ok := store.TxFromContext(ctx).(*handlerTx)
	if !ok {
		return ErrNoTx
	}
	if err := canQueue(sql); err != nil {
		return err
	}
	return t.root.queue.add(&pgx.QueuedQuery{SQL: sql, Arguments: args}) // a savepoint has no queue of its own
}

// canQueue refuses a statement that would begin or end the transaction around it, and an empty one.
func canQueue(sql string) error {
	switch word := pgkit.FirstWord(sql); {
	case word == "":
		return badArgument("the statement is empty")
	case pgkit.IsEnd(word):
		return fmt.Errorf("%w: %s", ErrTxOwned, word)
	default:
		return nil
	}
}

// A queue has the statements that a run leaves to its end. It is safe for concurrent use.
type queue struct {
	mu      sync.Mutex
	closed  bool
	queries []*pgx.QueuedQuery
}

func (q *queue) add(query *pgx.QueuedQuery) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrTxEnded
	}
	q.queries = append(q.queries, query)
	return nil
}

// close returns the statements. None is added afterwards.
func (q *queue) close() []*pgx.QueuedQuery {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	return q.queries
}
