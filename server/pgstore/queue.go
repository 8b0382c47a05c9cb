package pgstore

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
)

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
// Queued statements are bounded by SettleTimeout of the guard's Config. They are outside the handler's savepoints. sql
// is one statement, as for an Exec with arguments. args may be one [pgx.NamedArgs], but may not have other options.
//
// Queue returns [ErrNoTx] where ctx has no transaction, and [ErrTxEnded] after the run. It returns [ErrTxOwned] for
// a statement that would end the transaction, and [ErrArgument] for an empty one. Then nothing is queued. It does not
// block, and is safe for concurrent use.
func Queue(ctx context.Context, sql string, args ...any) error {
	t, ok := ctx.Value(contextKey{}).(*handlerTx)
	if !ok {
		return ErrNoTx
	}
	switch word := firstWord(sql); {
	case word == "":
		return fmt.Errorf("%w: no statement", ErrArgument)
	case endsTx[word]:
		return fmt.Errorf("%w: %s", ErrTxOwned, word)
	}
	return t.root.queue.add(&pgx.QueuedQuery{SQL: sql, Arguments: args}) // a savepoint has no queue of its own
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

// endsTx has the first words of statements that begin or end a transaction. In a pipeline the statements after such
// a statement would be committed without the others.
var endsTx = map[string]bool{
	"begin": true, "start": true, "commit": true, "end": true, "rollback": true, "abort": true, "prepare": true,
}

// firstWord returns the first word of a statement in lower case, without the comments before it.
func firstWord(sql string) string {
	for {
		sql = strings.TrimLeft(sql, " \t\r\n\f\v;")
		switch {
		case strings.HasPrefix(sql, "--"):
			_, sql, _ = strings.Cut(sql, "\n")
		case strings.HasPrefix(sql, "/*"):
			sql = afterComment(sql)
		default:
			end := strings.IndexFunc(sql, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
			if end == 0 { // as in "(select …)"
				return sql[:1]
			}
			if end < 0 {
				end = len(sql)
			}
			return strings.ToLower(sql[:end])
		}
	}
}

// afterComment returns the text after a comment, in which comments may be nested.
func afterComment(sql string) string {
	depth := 0
	for i := 0; i+1 < len(sql); i++ {
		switch sql[i : i+2] {
		case "/*":
			depth++
			i++
		case "*/":
			depth--
			i++
		}
		if depth == 0 {
			return sql[i+1:]
		}
	}
	return ""
}
