package pgkit

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var (
	// plainLine ends with the mark of a line that distributed tables do without.
	plainLine  = regexp.MustCompile(`(?m)^(.*?)[ \t]*-- plain$`)
	plainWhole = regexp.MustCompile(`(?m)^.*-- plain\n?`)
	// distributedLine is a line for distributed tables alone. It is a comment for others.
	distributedLine = regexp.MustCompile(`(?m)^--distributed `)
)

// DistributedText returns the statement in file as it is for distributed tables: the file of the
// same name in the folder "distributed" beside it, if there is one. Else it is the file itself,
// without the lines that end with "-- plain", and with the lines that begin with "--distributed".
func DistributedText(files fs.FS, file string) (string, error) {
	dir := path.Dir(file)
	text, err := fs.ReadFile(files, path.Join(dir, "distributed", path.Base(file)))
	if errors.Is(err, fs.ErrNotExist) {
		text, err = fs.ReadFile(files, file)
	}
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrStatement, err)
	}
	return fillColumns(files, dir, distributedLine.ReplaceAllString(plainWhole.ReplaceAllString(string(text), ""), ""))
}

// distributedSettings are the settings that a statement for distributed tables needs. A worker hears of a setting only
// by SET LOCAL, and in a transaction block. So the argument lock_timeout of a statement becomes statements in front of
// it.
func distributedSettings(timeout any) []string {
	text, ok := timeout.(string)
	if !ok {
		return nil
	}
	return propagate("set local lock_timeout = '" + quoteLiteral(text) + "'")
}

// LockTimeoutReset returns the statements that give the session's lock timeout back to a transaction
// on all servers.
func LockTimeoutReset() []string { return propagate("set local lock_timeout to default") }

// propagate returns statements that have all servers carry out a SET LOCAL. After them no SET LOCAL is
// propagated any more: Citus would send the whole string that it is in, also a COMMIT behind it.
func propagate(setting string) []string {
	return []string{"set local citus.propagate_set_commands = 'local'", setting, "set local citus.propagate_set_commands to default"}
}

// BriefLockTimeout is how long a statement waits for a lock where others wait for its connection.
// Most locks are held by another process's flush, and gone with its commit. A lock that is held
// longer belongs to a user's transaction: the write comes again later, and holds no connection in
// between. The timeout is also far less than the usual deadlock_timeout. So a transaction that
// waits for the statement in turn goes on before the server looks for a victim.
const BriefLockTimeout = 10 * time.Millisecond

// BriefLockTimeout is how long the statement waits for a lock where others wait for its connection. A
// commit on several servers holds its locks for several round trips between them: a shorter wait would
// hardly ever see its end.
func (q Query) BriefLockTimeout() time.Duration {
	if q.distributed {
		return 5 * BriefLockTimeout
	}
	return BriefLockTimeout
}

// quoteLiteral drops the characters that could end a literal: no timeout has them.
func quoteLiteral(text string) string { return strings.NewReplacer("'", "", `\`, "").Replace(text) }

// Distributed reports whether a table of a component is distributed by Citus. A table that does
// not exist is not. It returns the server's error.
func Distributed(ctx context.Context, pool *pgxpool.Pool, schema, table string) (bool, error) {
	if err := CheckSchemaName(schema); err != nil {
		return false, err
	}
	var installed bool
	if err := pool.QueryRow(ctx, "select to_regclass('pg_catalog.pg_dist_partition') is not null").Scan(&installed); err != nil || !installed {
		return false, err
	}
	var distributed bool
	err := pool.QueryRow(ctx, "select exists (select from pg_catalog.pg_dist_partition where logicalrelid = to_regclass("+
		"$1) and partmethod = 'h')", QualifyTable(schema, table)).Scan(&distributed)
	return distributed, err
}

// A Place is where a row of a distributed table is: the node, and the shard, both counted from 1. The
// zero Place means that this is not known.
type Place struct{ Node, Shard int }

// A Placement knows where Citus has the rows of a table whose distribution column is a uuid. It decides
// only which writes share a commit and a statement. So a Placement that is out of date costs time and
// nothing else. It is safe for concurrent use. The zero Placement knows nothing.
type Placement struct{ shards atomic.Pointer[[]shard] }

// A shard has the rows whose hash is no more than last, and more than that of the shard before.
type shard struct {
	last int32
	node int
}

// shardsOf returns each shard, the first node that has it, and the server's hash of a value.
const shardsOf = `select s.shardmaxvalue::integer as last, min(p.groupid) + 1, worker_hash($2::uuid)
from pg_catalog.pg_dist_shard s
join pg_catalog.pg_dist_placement p using (shardid)
where s.logicalrelid = to_regclass($1) and p.shardstate = 1
group by last
order by last`

// Load asks the server where the shards of a table are. It returns the server's error.
func (p *Placement) Load(ctx context.Context, pool *pgxpool.Pool, schema, table string) error {
	sample := [16]byte{0: 1, 5: 2, 10: 3, 15: 4}
	ours := true
	rows, err := pool.Query(ctx, shardsOf, QualifyTable(schema, table), sample)
	if err != nil {
		return err
	}
	shards, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s shard, err error) {
		var hash int32
		err = row.Scan(&s.last, &s.node, &hash)
		ours = ours && hash == hashUUID(sample)
		return s, err
	})
	if err != nil {
		return err
	}
	if !ours { // a server of another byte order
		shards = nil
	}
	p.shards.Store(&shards)
	return nil
}

// Of returns the place of the row with this key.
func (p *Placement) Of(key [16]byte) Place {
	shards := p.shards.Load()
	if shards == nil {
		return Place{}
	}
	i, _ := slices.BinarySearchFunc(*shards, hashUUID(key), func(s shard, hash int32) int { return cmp.Compare(s.last, hash) })
	if i == len(*shards) {
		return Place{}
	}
	return Place{Node: (*shards)[i].node, Shard: i + 1}
}

// hashUUID is uuid_hash of Postgres on a server that is little-endian, by which Citus finds the shard of
// a row. It is lookup3 of Bob Jenkins, for 16 bytes: one round of mix, and final with the last word.
func hashUUID(key [16]byte) int32 {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(key[i:]) }
	const seed = 0x9e3779b9 + 16 + 3923095
	a, b, c := seed+word(0), seed+word(4), seed+word(8)
	rot := bits.RotateLeft32
	a, c = (a-c)^rot(c, 4), c+b
	b, a = (b-a)^rot(a, 6), a+c
	c, b = (c-b)^rot(b, 8), b+a
	a, c = (a-c)^rot(c, 16), c+b
	b, a = (b-a)^rot(a, 19), a+c
	c, b = (c-b)^rot(b, 4), b+a
	a += word(12)
	c = (c ^ b) - rot(b, 14)
	a = (a ^ c) - rot(c, 11)
	b = (b ^ a) - rot(a, 25)
	c = (c ^ b) - rot(b, 16)
	a = (a ^ c) - rot(c, 4)
	b = (b ^ a) - rot(a, 14)
	return int32((c ^ b) - rot(b, 24)) //nolint:gosec // the server counts the same bits as signed
}

// A RowsQuery is an INSERT of several rows with VALUES. A node of Citus takes such rows as they are. For
// rows that a SELECT makes of arrays, the coordinator opens a connection for each shard.
//
// Its statements are prepared by name, so their numbers of rows are few: 1 to 16, and then eight up to
// each power of two. The last row is repeated up to such a number. So the statement must pass over a row
// that is there already. It is safe for concurrent use.
type RowsQuery struct {
	row   Query
	parts []string // before the row, the row, and behind it
	texts sync.Map // by the number of rows
}

var (
	insertedRow = regexp.MustCompile(`(?s)^(.*\bvalues )(\(.*\))(\s+on conflict .* do nothing\b.*)$`)
	position    = regexp.MustCompile(`\$\d+`)
)

// Rows returns the statement with any number of rows instead of one. It returns an error wrapping
// [ErrStatement] for a statement that is no INSERT with VALUES and ON CONFLICT DO NOTHING.
func (q Query) Rows() (*RowsQuery, error) {
	parts := insertedRow.FindStringSubmatch(q.sql)
	if parts == nil {
		return nil, fmt.Errorf("%w: %s inserts no row that can be repeated", ErrStatement, q.name)
	}
	return &RowsQuery{row: q, parts: parts[1:]}, nil
}

// text returns the statement for n rows.
func (q *RowsQuery) text(n int) string {
	if text, ok := q.texts.Load(n); ok {
		return text.(string) //nolint:errcheck,forcetypeassert // it is stored below
	}
	var text strings.Builder
	text.WriteString(q.parts[0])
	for i := range n {
		if i > 0 {
			text.WriteString(", ")
		}
		text.WriteString(position.ReplaceAllStringFunc(q.parts[1], func(at string) string {
			k, _ := strconv.Atoi(at[1:])
			return "$" + strconv.Itoa(i*len(q.row.names)+k)
		}))
	}
	text.WriteString(q.parts[2])
	q.texts.Store(n, text.String())
	return text.String()
}

// roundUp returns the number of rows that are sent for n.
func roundUp(n int) int {
	step := 1
	for n > 16*step {
		step *= 2
	}
	return (n + step - 1) / step * step
}

// Bind returns the statement with the arguments of each row, of which there is one at least. It is as
// [Query.Bind], and the rows have one lock timeout.
func (q *RowsQuery) Bind(rows []pgx.NamedArgs) Statement {
	n := roundUp(len(rows))
	st := Statement{SQL: q.text(n), Args: make([]any, 0, n*len(q.row.names))}
	for i := range n {
		row := q.row.Bind(rows[min(i, len(rows)-1)])
		if row.err != nil {
			return row
		}
		st.settings = row.settings
		st.Args = append(st.Args, row.Args...)
	}
	return st
}
