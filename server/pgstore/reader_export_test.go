package pgstore

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fanonce/fanonce/internal/pgkit"
	"github.com/fanonce/fanonce/server/store"
)

// Ask sends a statement as a Reader sends its own.
func (r *Reader) Ask(ctx context.Context, sql string) error {
	return wrap("ask", r.tables.Ask(ctx, pgkit.Question{Statement: pgkit.Statement{SQL: sql}}))
}

// A Question is a statement of a Reader, as the server gets it.
type Question struct {
	Name, SQL string
	Args      []any
}

// Questions are all statements of the Reader that read its tables, for requests with and without conditions.
func (r *Reader) Questions(ctx context.Context, id, parent store.ID) ([]Question, error) {
	q, err := r.tables.Query(ctx)
	if err != nil {
		return nil, err
	}
	from := time.Now().Add(-24 * time.Hour)
	page := store.Cursor{CreatedAt: time.Now().Add(-time.Minute), ID: id}
	list := func(req store.ListRequest) pgkit.Statement { req.Limit = 100; return listing(q, req)[0] }
	browse := func(req store.BrowseRequest) pgkit.Statement { req.Limit = 100; return browsing(q, req) }
	unknown := []store.State{store.StateUnknown}
	var all []Question
	for _, st := range []struct {
		name string
		pgkit.Statement
	}{
		{"show", q.ReaderShow.Bind(pgx.NamedArgs{"key": toUUID(id)})},
		{"browse", browse(store.BrowseRequest{})},
		{"browse of a day", browse(store.BrowseRequest{From: from})},
		{"browse of a rare state", browse(store.BrowseRequest{From: from, States: unknown})},
		{"browse of everything", browse(store.BrowseRequest{From: from, To: time.Now(), States: unknown, Effect: store.Keyed, Route: "r", Before: page})},
		{"attention", list(store.ListRequest{States: unknown})},
		{"attention page", list(store.ListRequest{DeadLetters: true, After: page, Route: "r", Effect: store.Keyed})},
		{"dead", list(store.ListRequest{States: []store.State{store.StateInProgress}})},
		{"dead page", list(store.ListRequest{States: []store.State{store.StateInProgress}, After: page, Route: "r"})},
		{"children", list(store.ListRequest{Parent: parent})},
		{"children page", list(store.ListRequest{Parent: parent, After: page, States: unknown, Effect: store.Keyed})},
		{"count attention", q.CountAttention.Bind(nil)},
		{"sweep lag", q.ReaderSweepLag.Bind(pgx.NamedArgs{"limit": int64(mostExpired)})},
		{"young", q.ReaderYoung.Bind(pgx.NamedArgs{"limit": int64(1000)})},
		{"audit", q.ReaderAudit.Bind(pgx.NamedArgs{"before": int64(1 << 60), "actor": "", "limit": int64(100)})},
		{"audit of an actor", q.ReaderAudit.Bind(pgx.NamedArgs{"before": int64(1 << 60), "actor": "ann", "limit": int64(100)})},
		{"audit of a key", q.ReaderAuditOf.Bind(pgx.NamedArgs{"key": toUUID(id), "before": int64(1 << 60), "actor": "", "limit": int64(100)})},
	} {
		if err := st.Err(); err != nil {
			return nil, err
		}
		all = append(all, Question{st.name, st.SQL, st.Args})
	}
	return all, nil
}

// Settings returns the statement that goes before each question.
func (r *Reader) Settings(ctx context.Context) (Question, error) {
	q, err := r.tables.Query(ctx)
	if err != nil {
		return Question{}, err
	}
	st := q.ReaderSettings.Bind(nil)
	return Question{"settings", st.SQL, st.Args}, st.Err()
}

// NoteWindow is how many notes one sweep looks at.
const NoteWindow = noteWindow

// Recurring are the statements that a store sends again and again without a request: of its sweep and its reconciler.
func (s *Store) Recurring(keys ...[16]byte) ([]Question, error) {
	q, start := s.query(), after(time.Time{})
	var all []Question
	for _, st := range []struct {
		name string
		pgkit.Statement
	}{
		{"sweep", q.Sweep.Bind(pgx.NamedArgs{"after": start, "limit": int64(100)})},
		{"drop answers", q.DropAnswers.Bind(pgx.NamedArgs{"after": start, "limit": int64(100), "window": int64(leastWindow)})},
		{"stale notes", q.StaleNotes.Bind(pgx.NamedArgs{"after_created_at": start, "after_key": toUUID(store.ID{}), "window": int64(noteWindow)})},
		{"sweep attention", q.SweepAttention.Bind(pgx.NamedArgs{"keys": keys})},
		{"find dead", q.FindDead.Bind(pgx.NamedArgs{"after_created_at": start, "after_key": toUUID(store.ID{}), "window": opaqueWindow(false)})},
		{"size", q.Size.Bind(nil)},
	} {
		if err := st.Err(); err != nil {
			return nil, err
		}
		all = append(all, Question{st.name, st.SQL, st.Args})
	}
	return all, nil
}
