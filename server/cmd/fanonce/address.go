package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgservicefile"

	"github.com/fanonce/fanonce/server/redisstore"
)

// environment are the variables that lead psql to a database, and pgx, too.
var environment = []string{"PGSERVICE", "PGHOST", "PGPORT", "PGDATABASE", "PGUSER"}

var errNoDatabase = errors.New("no database: set DATABASE_URL, or variables of psql such as PGHOST or PGSERVICE, or give --database postgres://USER@HOST:PORT/NAME")

// address returns what leads to a database, in a form that pgx reads, or a URL of Redis. url is that of one of several
// databases; "" means --database, then DATABASE_URL, then the variables of psql. "" as the result means these variables.
func (a *app) address(url string) (string, error) {
	if url == "" {
		url = a.database
	}
	if url == "" {
		url, _ = a.environ("DATABASE_URL")
	}
	switch {
	case url == "" && !slices.ContainsFunc(environment, func(name string) bool { value, _ := a.environ(name); return value != "" }):
		return "", errNoDatabase
	case isRedis(url):
		return url, nil
	case url != "" && !strings.Contains(url, "://") && !strings.Contains(url, "="): // the name of a database, as psql takes it
		url = "dbname=" + quoteValue(url)
	}
	return a.withSystemServices(url), nil
}

// quoteValue returns a value of a connection string.
func quoteValue(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

var serviceSetting = regexp.MustCompile(`(?:^|[\s?&])service\s*=\s*'?([^\s'&]+)`)

// serviceOf returns the name of the service that an address or PGSERVICE names, and the file that has the user's services.
func (a *app) serviceOf(address string) (service, file string) {
	service, _ = a.environ("PGSERVICE")
	if found := serviceSetting.FindStringSubmatch(address); found != nil {
		service = found[1]
	}
	if file, _ = a.environ("PGSERVICEFILE"); file == "" {
		home, _ := a.environ("HOME")
		file = filepath.Join(home, ".pg_service.conf")
	}
	return service, file
}

// withSystemServices makes pgx read the services of the machine, in PGSYSCONFDIR, where the user has no service of that name.
// pgx reads one file, and psql reads both.
func (a *app) withSystemServices(address string) string {
	service, file := a.serviceOf(address)
	folder, _ := a.environ("PGSYSCONFDIR")
	system := filepath.Join(folder, "pg_service.conf")
	switch {
	case service == "" || folder == "" || hasService(file, service) || !hasService(system, service):
		return address
	case strings.Contains(address, "://"):
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		return address + separator + "servicefile=" + url.QueryEscape(system)
	default:
		return strings.TrimSpace(address + " servicefile=" + quoteValue(system))
	}
}

func hasService(file, name string) bool {
	services, err := pgservicefile.ReadServicefile(file)
	if err != nil {
		return false
	}
	_, err = services.GetService(name)
	return err == nil
}

// explainAddress says what is wrong with an address that pgx does not read. It does not repeat the address, which can hold a
// password.
func (a *app) explainAddress(address string) error {
	service, file := a.serviceOf(address)
	if service == "" {
		return errors.New("the database's address is malformed: want postgres://USER@HOST:PORT/NAME, " +
			"with special characters of the password percent-encoded; or a variable of psql is")
	}
	if _, err := os.Stat(file); err != nil {
		return fmt.Errorf("the service %s of psql: %w", strconv.Quote(service), err)
	}
	if !hasService(file, service) {
		return fmt.Errorf("%s has no service %s", file, strconv.Quote(service))
	}
	return fmt.Errorf("the service %s in %s, or an address beside it, is malformed", strconv.Quote(service), file)
}

// isRedis reports whether an address is that of Redis.
func isRedis(address string) bool {
	return slices.ContainsFunc([]string{"redis://", "rediss://", "unix://"}, func(scheme string) bool { return strings.HasPrefix(address, scheme) })
}

// parseRedis returns what opens the store of an address. Its parameters prefix and replicas are those of the service's
// redisstore.Config: keys of another prefix are not seen, and a change waits for so many replicas.
func parseRedis(address string) (redisAddress, error) {
	out := redisAddress{cfg: redisstore.Config{AllowNonDurable: true, Unverified: true}} // the service has decided about its servers
	u, err := url.Parse(address)
	if err != nil {
		return out, errors.New("the address of Redis is malformed: want redis://USER:PASSWORD@HOST:PORT/NUMBER?prefix=NAME")
	}
	query := u.Query()
	out.cfg.Prefix = query.Get("prefix")
	if text := query.Get("replicas"); text != "" {
		if out.cfg.Replicas, err = strconv.Atoi(text); err != nil {
			return out, fmt.Errorf("the parameter replicas of the address is no number: %s", strconv.Quote(text))
		}
	}
	query.Del("prefix")
	query.Del("replicas")
	u.RawQuery = query.Encode()
	out.options, err = redisstore.ParseURL(u.String())
	return out, err
}
