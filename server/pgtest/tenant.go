package pgtest

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
)

// lockClass is the first half of the advisory locks that live tenants hold.
const lockClass = 0x70677473 // "pgts"

// A tenant is our presence on a server that is not ours. Its databases are called pgtest_<id>_<name>. It holds an
// advisory lock for its id on a connection of its own. If that lock is free the tenant is dead, and any process may
// drop its databases.
type tenant struct {
	server string // DATABASE_URL
	id     uint32
	conn   *pgx.Conn
}

func newTenant(ctx context.Context, server string) (*tenant, error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("pgtest: %s: %w", EnvDatabaseURL, err) // pgx leaves the password out
	}
	var id [4]byte
	rand.Read(id[:]) // never fails
	t := &tenant{server: server, id: binary.BigEndian.Uint32(id[:]), conn: conn}
	won, err := t.lock(ctx, t.id)
	if err == nil && !won {
		err = errors.New("advisory lock is taken")
	}
	if err == nil {
		err = t.sweep(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("pgtest: %s: %w", EnvDatabaseURL, err), conn.Close(ctx))
	}
	return t, nil
}

func (t *tenant) realName(name string) string {
	return fmt.Sprintf("pgtest_%08x_%s", t.id, name)
}

// url is the server's URL with another database in it. pgx takes URLs and
// keyword=value lists. In a list the last value of a keyword counts.
func (t *tenant) url(name string) string {
	if name == "" {
		return t.server
	}
	name = t.realName(name)
	u, err := url.Parse(t.server)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") {
		return t.server + " dbname='" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name) + "'"
	}
	query := u.Query()
	query.Del("dbname")
	query.Del("database")
	u.RawQuery = query.Encode()
	u.Path, u.RawPath = "/"+name, ""
	return u.String()
}

func (t *tenant) lock(ctx context.Context, id uint32) (won bool, err error) {
	err = t.conn.QueryRow(ctx, "select pg_try_advisory_lock($1, $2)", int32(lockClass), int32(id)).Scan(&won) //nolint:gosec // all 32 bits count
	return won, err
}

// sweep drops the databases of tenants that died.
func (t *tenant) sweep(ctx context.Context) error {
	names, err := t.databases(ctx, "pgtest_")
	if err != nil {
		return err
	}
	for _, name := range names {
		id, ok := tenantOf(name)
		if !ok || id == t.id {
			continue
		}
		// The lock stays until our connection ends: two sweepers never meet.
		won, err := t.lock(ctx, id)
		if err != nil {
			return err
		}
		if won {
			err = t.drop(ctx, name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// tenantOf returns the id in a database's name.
func tenantOf(name string) (uint32, bool) {
	rest, ok := strings.CutPrefix(name, "pgtest_")
	if !ok || len(rest) < 9 || rest[8] != '_' {
		return 0, false
	}
	id, err := strconv.ParseUint(rest[:8], 16, 32)
	return uint32(id), err == nil
}

func (t *tenant) databases(ctx context.Context, prefix string) ([]string, error) {
	rows, err := t.conn.Query(ctx, "select datname::text from pg_database where starts_with(datname::text, $1)", prefix)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

func (t *tenant) drop(ctx context.Context, realName string) error {
	_, err := t.conn.Exec(ctx, "drop database if exists "+pgx.Identifier{realName}.Sanitize()+" with (force)")
	return err
}

// leave drops our databases and closes the connection.
func (t *tenant) leave() error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	names, err := t.databases(ctx, t.realName(""))
	for _, name := range names {
		err = errors.Join(err, t.drop(ctx, name))
	}
	if err = errors.Join(err, t.conn.Close(ctx)); err != nil {
		return fmt.Errorf("pgtest: leave the server of %s: %w", EnvDatabaseURL, err)
	}
	return nil
}
