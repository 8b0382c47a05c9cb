package migrators

import (
	"context"
	"database/sql"
	"errors"
	"os"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database/pgx/v5"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver
)

// GolangMigrate brings a database to a version with the files in dir, up or down.
func GolangMigrate(_ context.Context, url, dir string, to int) (err error) {
	source, err := iofs.New(os.DirFS(dir), ".")
	if err != nil {
		return err
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		return errors.Join(err, source.Close())
	}
	driver, err := pgx.WithInstance(db, &pgx.Config{})
	if err != nil {
		return errors.Join(err, source.Close(), db.Close())
	}
	m, err := migrate.NewWithInstance("iofs", source, "pgx5", driver)
	if err != nil {
		return errors.Join(err, source.Close(), driver.Close())
	}
	defer func() {
		closing, alsoClosing := m.Close()
		err = errors.Join(err, closing, alsoClosing)
	}()
	switch to {
	case Latest:
		err = m.Up()
	case 0:
		err = m.Down()
	default:
		err = m.Migrate(uint(to)) //nolint:gosec // the number of a file
	}
	if errors.Is(err, migrate.ErrNoChange) {
		return nil
	}
	return err
}
