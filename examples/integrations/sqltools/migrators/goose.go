package migrators

import (
	"context"
	"database/sql"
	"errors"
	"os"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver
	"github.com/pressly/goose/v3"
)

// Goose brings a database to a version with the files in dir, up or down.
func Goose(ctx context.Context, url, dir string, to int) (err error) {
	db, err := sql.Open("pgx", url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	p, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS(dir))
	if err != nil {
		return err
	}
	have, err := p.GetDBVersion(ctx)
	switch {
	case err != nil:
		return err
	case to == Latest:
		_, err = p.Up(ctx)
	case int64(to) >= have:
		_, err = p.UpTo(ctx, int64(to))
	default:
		_, err = p.DownTo(ctx, int64(to))
	}
	return err
}
