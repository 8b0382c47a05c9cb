package pgkit

import (
	"cmp"
	"context"
	"encoding/binary"
	"math/bits"
	"slices"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

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
	rows, err := pool.Query(ctx, shardsOf, prefix(schema)+table, sample)
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
