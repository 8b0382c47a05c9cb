package pgkit

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// mendNames reports whether a statement that failed with err is to be sent again, without names. That is
// so where the server does not know a name of it: a refused statement has changed nothing. Only the
// error of the statement itself counts for that, and not other events on the connection. A write whose
// answer was lost must not be sent again here, and must not count as failed. The connection is then
// outside a transaction block, as it was before the statement. mendNames sets err if that fails.
func mendNames(ctx context.Context, conn *pgx.Conn, err *error) bool {
	var refused *pgconn.PgError
	if !errors.As(*err, &refused) || !isMisnamed(refused) || conn.IsClosed() {
		return false
	}
	if conn.PgConn().TxStatus() != 'I' { // the statement made a block of its own
		if _, failed := conn.Exec(ctx, "rollback"); failed != nil {
			*err = &nothingChanged{failed}
			return false
		}
	}
	if failed := unname(ctx, conn); failed != nil {
		*err = &nothingChanged{failed}
		return false
	}
	return true
}

// Name prepares statements by name on conn, so that pgx uses the names from now on wherever it is
// given one of these texts. It does so once per connection, in a round trip each. It does nothing
// where a session may not last; see [Prepare].
func Name(ctx context.Context, conn *pgx.Conn, statements ...string) error {
	s := sessionOf(conn.PgConn())
	if !s.named {
		return nil
	}
	for _, sql := range statements {
		if err := s.name(ctx, conn, sql); err != nil {
			return err
		}
	}
	return nil
}

// maxNames is how many names a connection has at the most if some are for the user's statements.
// Their texts may be many, and each costs the server memory.
const maxNames = 256

// NameQueries is [Name] for queries that are not of this module, as long as the connection has few
// names. A query that the server does not accept is left to be sent as it is: it may be a name
// already. In a transaction block such a query fails the transaction, and NameQueries returns its
// error. A query without arguments may be several statements,
// and is left as well. So is a query with an option among its arguments, because the option may
// change its text.
func NameQueries(ctx context.Context, conn *pgx.Conn, queries []*pgx.QueuedQuery) error {
	s := sessionOf(conn.PgConn())
	inBlock := conn.PgConn().TxStatus() == 'T'
	for _, q := range queries {
		if !s.named || len(s.names) >= maxNames {
			return nil
		}
		if len(q.Arguments) == 0 {
			continue
		}
		if _, rewritten := q.Arguments[0].(pgx.QueryRewriter); rewritten {
			continue
		}
		err := s.name(ctx, conn, q.SQL)
		if err != nil && inBlock {
			return err
		}
		if err != nil {
			s.remember(q.SQL, false) // once is enough
		}
	}
	return nil
}

// MayName reports whether conn's session lasts, so that names do.
func MayName(conn *pgx.Conn) bool { return sessionOf(conn.PgConn()).named }

func (s *session) name(ctx context.Context, conn *pgx.Conn, sql string) error {
	if _, ok := s.names[sql]; ok {
		return nil
	}
	if _, err := conn.Prepare(ctx, sql, sql); err != nil {
		return &nothingChanged{err}
	}
	s.remember(sql, true)
	return nil
}

func (s *session) remember(sql string, named bool) {
	if s.names == nil {
		s.names = make(map[string]bool)
	}
	s.names[sql] = named
}

// unname goes on without names on conn: somebody took them away, or the tables
// have changed under them, or there is a pooler after all.
func unname(ctx context.Context, conn *pgx.Conn) error {
	s := sessionOf(conn.PgConn())
	s.named, s.misnamed = false, false
	for sql, ours := range s.names {
		if !ours { // somebody else's name, perhaps
			continue
		}
		if err := conn.Deallocate(ctx, sql); err != nil {
			return err
		}
	}
	s.names = nil
	return nil
}

// isMisnamed reports whether the server knows no statement of that name, has such a statement
// already, or cannot use it any more, because a table's columns have another type. Postgres gives
// the last case no code of its own, and its text may be translated.
func isMisnamed(err *pgconn.PgError) bool {
	return err.Code == "26000" || err.Code == "42P05" || err.Routine == "RevalidateCachedQuery"
}
