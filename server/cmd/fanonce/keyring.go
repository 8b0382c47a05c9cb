package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/pgstore"
	"github.com/fanonce/fanonce/server/redisstore"
	"github.com/fanonce/fanonce/server/store"
)

// A keyring is where keys are: tables in Postgres, or Redis.
type keyring struct {
	store.Reader

	// newStore returns the store for changes. It needs more rights than the Reader. end lets it go.
	newStore func() (s store.Store, end func(), err error)
	// now is the time by which the keys have their times.
	now func(ctx context.Context) (time.Time, error)
	ids idFinder
}

// keyring opens the keys of the one database of most commands. For looking, the rights of an observer are enough.
func (a *app) keyring(ctx context.Context) (*keyring, error) {
	address, err := a.address("")
	if err != nil {
		return nil, err
	}
	if isRedis(address) {
		keys, s, err := a.openRedis(ctx, address)
		if err != nil {
			return nil, err
		}
		a.closes = append(a.closes, func() { _ = s.Close() })
		return keys, nil
	}
	pool, err := a.openComponent(ctx, "keys")
	if err != nil {
		return nil, err
	}
	return a.tableKeyring(pool)
}

// openComponent connects, and returns an error where the tables of a component are not usable.
func (a *app) openComponent(ctx context.Context, name string) (*pgxpool.Pool, error) {
	pool, err := a.pool(ctx)
	if err != nil {
		return nil, err
	}
	picked, err := pickComponents([]string{name})
	if err != nil {
		return nil, err
	}
	v, err := a.version(ctx, pool, &picked[0])
	if err == nil {
		err = v.check(name)
	}
	return pool, err
}

func (a *app) tableKeyring(pool *pgxpool.Pool) (*keyring, error) {
	reader, err := pgstore.NewReader(pool, pgstore.ReaderConfig{Schema: a.schema, StatementTimeout: a.readTime()})
	if err != nil {
		return nil, err
	}
	return &keyring{
		Reader: reader,
		newStore: func() (store.Store, func(), error) {
			s, err := pgstore.New(pool, pgstore.Config{Schema: a.schema})
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		},
		now: func(ctx context.Context) (time.Time, error) { return a.serverTime(ctx, pool) },
		ids: a.tableIDs(pool, [2]string{"idempotency", "key"}, [2]string{"idempotency_audit", "key"}),
	}, nil
}

// serverTime is the time by the database's clock.
func (a *app) serverTime(ctx context.Context, pool *pgxpool.Pool) (now time.Time, err error) {
	ctx, cancel := a.bound(ctx)
	defer cancel()
	err = pool.QueryRow(ctx, "select statement_timestamp()").Scan(&now)
	return now, err
}

// tableIDs finds IDs by the indexes of the first of some tables that has one. Each is given with its column.
func (a *app) tableIDs(pool *pgxpool.Pool, tables ...[2]string) idFinder {
	return func(ctx context.Context, low, high store.ID, limit int) ([]store.ID, error) {
		ctx, cancel := a.bound(ctx)
		defer cancel()
		for _, t := range tables {
			rows, err := pool.Query(ctx, idRange(a.schema, t[0], t[1]), [16]byte(low), [16]byte(high), limit)
			if err != nil {
				return nil, err
			}
			found, err := pgx.CollectRows(rows, pgx.RowTo[[16]byte])
			if err != nil {
				return nil, err
			}
			if len(found) > 0 {
				ids := make([]store.ID, len(found))
				for i := range found {
					ids[i] = found[i]
				}
				return ids, nil
			}
		}
		return nil, nil
	}
}

// idRange is the statement that returns the IDs of a table from $1 to $2, at most $3.
func idRange(schema, table, column string) string {
	return fmt.Sprintf("select distinct %[1]s from %[2]s where %[1]s between $1 and $2 order by 1 limit $3", column, qualify(schema, table))
}

// A redisAddress is a URL of Redis that was read.
type redisAddress struct {
	options *redis.UniversalOptions
	cfg     redisstore.Config
}

func (a *app) openRedis(ctx context.Context, address string) (*keyring, *redisstore.Store, error) {
	if a.schema != "" {
		return nil, nil, errors.New("--schema is for Postgres: in Redis, ?prefix=NAME of the address does this")
	}
	parsed, err := parseRedis(address)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := a.bound(ctx)
	defer cancel()
	s, err := redisstore.Open(ctx, parsed.options, parsed.cfg)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot open Redis: %w", err)
	}
	return redisKeyring(s, parsed.options), s, nil
}

func redisKeyring(s *redisstore.Store, options *redis.UniversalOptions) *keyring {
	return &keyring{
		Reader: s.Reader(), newStore: func() (store.Store, func(), error) { return s, func() {}, nil },
		now: func(ctx context.Context) (time.Time, error) { return redisTime(ctx, options) },
		ids: func(ctx context.Context, low, high store.ID, limit int) ([]store.ID, error) {
			return listedIDs(ctx, s.Reader(), low, high, limit)
		},
	}
}

// redisTime is the time by the clock of a server. It takes a connection of its own.
func redisTime(ctx context.Context, options *redis.UniversalOptions) (time.Time, error) {
	client := redis.NewClient(options.Simple())
	defer client.Close() //nolint:errcheck // it was only read from
	return client.Time(ctx).Result()
}

// listedIDs finds IDs of keys that need a person: Redis has no index of IDs.
func listedIDs(ctx context.Context, r store.Reader, low, high store.ID, limit int) (found []store.ID, err error) {
	for _, letters := range []bool{false, true} {
		for after := (store.Cursor{}); ; {
			page, err := r.List(ctx, store.ListRequest{DeadLetters: letters, Limit: maxPage, After: after})
			if err != nil {
				return nil, err
			}
			for _, r := range page {
				if compareIDs(low, r.ID) <= 0 && compareIDs(r.ID, high) <= 0 && len(found) < limit {
					found = append(found, r.ID)
				}
			}
			if len(page) < maxPage {
				break
			}
			after = page[len(page)-1].Cursor()
		}
	}
	return found, nil
}

// newGuard returns a guard of no namespace on the keys: IDs are those of any.
func (a *app) newGuard(s store.Store) (*server.Guard, error) {
	return server.NewGuard(s, server.Unscoped, server.Config{StoreTimeout: a.timeout, Retention: a.retention})
}

// An idFinder returns at most limit IDs from low to high that there are, in order.
type idFinder func(ctx context.Context, low, high store.ID, limit int) ([]store.ID, error)

// An idArg is an ID that a person named: whole, or by its beginning. Low and high are equal for a whole one.
type idArg struct {
	text      string
	low, high store.ID
}

const (
	leastDigits    = 4  // of the beginning of an ID
	mostCandidates = 10 // that an error lists
)

func compareIDs(a, b store.ID) int { return bytes.Compare(a[:], b[:]) }

// parseIDs reads arguments that name IDs. It asks nobody.
func parseIDs(args []string) ([]idArg, error) {
	out := make([]idArg, len(args))
	for i, arg := range args {
		if id, err := store.ParseID(arg); err == nil {
			out[i] = idArg{arg, id, id}
			continue
		}
		low, high, ok := parseBeginning(arg)
		if !ok {
			return nil, fmt.Errorf("%q is no ID: want the form of a UUID, as lists and logs have it, or its first %d digits or more", arg, leastDigits)
		}
		out[i] = idArg{arg, low, high}
	}
	return out, nil
}

// parseBeginning returns the least and the greatest ID that begin with text, which has hyphens where UUIDs have them, or none.
func parseBeginning(text string) (low, high store.ID, ok bool) {
	digits := strings.ToLower(strings.ReplaceAll(text, "-", ""))
	if len(digits) < leastDigits || len(digits) > 2*len(low) {
		return low, high, false
	}
	n, err := hex.Decode(low[:], []byte(digits+strings.Repeat("0", 2*len(low)-len(digits))))
	if err != nil || n != len(low) {
		return low, high, false
	}
	_, _ = hex.Decode(high[:], []byte(digits+strings.Repeat("f", 2*len(high)-len(digits))))
	hyphens := strings.Contains(text, "-")
	return low, high, !hyphens || strings.HasPrefix(low.String(), strings.ToLower(text))
}

// complete returns the IDs of arguments, each once. It asks find for those of which only the beginning is known.
func complete(ctx context.Context, args []idArg, noun string, find idFinder) ([]store.ID, error) {
	var ids []store.ID
	seen := make(map[store.ID]bool, len(args))
	for _, arg := range args {
		id := arg.low
		if arg.low != arg.high {
			found, err := find(ctx, arg.low, arg.high, mostCandidates+1)
			if err != nil {
				return nil, tooSlow(err)
			}
			if len(found) != 1 {
				return nil, notOne(arg.text, noun, found)
			}
			id = found[0]
		}
		if !seen[id] {
			ids = append(ids, id)
		}
		seen[id] = true
	}
	return ids, nil
}

// notOne is the answer to a beginning that no ID has, or more than one.
func notOne(text, noun string, found []store.ID) error {
	if len(found) == 0 {
		return no("no %s has an ID that begins with %s", noun, text)
	}
	names := make([]string, 0, len(found))
	for _, id := range found[:min(len(found), mostCandidates)] {
		names = append(names, id.String())
	}
	more := ""
	if len(found) > mostCandidates {
		more = " and more"
	}
	return no("%s is the beginning of more than one ID of a %s: %s%s", text, noun, strings.Join(names, ", "), more)
}
