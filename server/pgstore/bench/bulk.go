package main

import (
	"context"
	"crypto/md5" //nolint:gosec // as the server makes the keys; nothing secret
	"strconv"

	"github.com/fanonce/fanonce/server/store"
)

// bulkKey is the nth of the keys that fill inserts.
func bulkKey(n int) store.ID { return md5.Sum([]byte("bulk-" + strconv.Itoa(n))) } //nolint:gosec // as above

// fill inserts so many completed records as the store writes them, which expire in
// that time; the keys are bulkKey's from 0 on. The indexes are made after the rows:
// by that they are as small as they can be.
func (d *database) fill(ctx context.Context, rows int, expiresIn string) error {
	for _, statement := range []string{
		"alter table idempotency drop constraint idempotency_pkey",
		"drop index idempotency_expires_at",
		`insert into idempotency (key, token, fence, state, effect, fingerprint_version, fingerprint, created_at, lease_until, expires_at, replay_until, status, envelope)
			select md5('bulk-' || n)::uuid, gen_random_uuid(), 1, 2, 2, 1, decode('07' || repeat('00', 31), 'hex'), s.now, s.now,
				s.now + interval '` + expiresIn + `', s.now + interval '` + expiresIn + `', 200, decode(repeat('17', 200), 'hex')
			from generate_series(0, ` + strconv.Itoa(rows-1) + `) n, (select now() as now) s`,
		"alter table idempotency add constraint idempotency_pkey primary key (key)",
		"create index idempotency_expires_at on idempotency (expires_at)",
		"vacuum analyze idempotency",
		"checkpoint",
	} {
		if err := script(statement)(ctx, d.look); err != nil {
			return err
		}
	}
	return nil
}

// fillDatabase makes a database with so many of them.
func fillDatabase(ctx context.Context, on *postgres, rows int, expiresIn string) (*database, error) {
	db, err := on.database(ctx, migrateStore)
	if err != nil {
		return nil, err
	}
	if err := db.fill(ctx, rows, expiresIn); err != nil {
		_ = db.drop() // the first error says more
		return nil, err
	}
	return db, nil
}
