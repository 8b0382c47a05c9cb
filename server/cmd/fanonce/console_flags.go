package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strings"
	"time"
)

// consoleFlags are the flags of fanonce console.
type consoleFlags struct {
	listen, title, actor      string
	stores, hosts             []string
	passwordFile, trustHeader string
	certificate, key          string
	readOnly, plain           bool
	retention                 time.Duration
}

const (
	minPasswordBytes = 12
	maxPasswordBytes = 1 << 10
)

var headerName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`)

// check refuses flags that do not go together, and addresses that strangers can reach without a password.
func (f *consoleFlags) check() error {
	host, _, err := net.SplitHostPort(f.listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %q is not HOST:PORT", f.listen)
	case f.readOnly && f.plain:
		return errors.New("--read-only or --plain, not both: --plain is for a change")
	case f.retention != 0 && !f.plain:
		return errors.New("--retention is of an answer that a person gives: give --plain, too")
	case f.passwordFile != "" && f.trustHeader != "":
		return errors.New("--password-file or --trust-header, not both")
	case f.trustHeader != "" && !headerName.MatchString(f.trustHeader):
		return fmt.Errorf("--trust-header %q is not the name of a header", f.trustHeader)
	case f.trustHeader != "" && isOrdinary(f.trustHeader):
		return fmt.Errorf("--trust-header %q is a header that any client sends: take one that only the proxy sets", f.trustHeader)
	case (f.certificate == "") != (f.key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case f.passwordFile == "" && f.trustHeader == "" && !isLoopback(host):
		return fmt.Errorf("--listen %q can be reached from other machines: give --password-file, or --trust-header behind a proxy", f.listen)
	case f.passwordFile == "" && f.trustHeader == "" && !isActor(f.actor):
		return fmt.Errorf("--actor has %d bytes, must have 1 to 128: it goes to the audit log", len(f.actor))
	}
	for _, name := range f.hosts {
		if name == "" || strings.ContainsAny(name, "/:@*? ") {
			return fmt.Errorf("--host %q is not a name such as ops.example.com", name)
		}
	}
	return checkRetention(f.retention)
}

// isOrdinary reports whether clients send the header themselves.
func isOrdinary(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Cookie", "Accept", "User-Agent", "Origin", "Referer", "Authorization", "Connection", "Content-Type":
		return true
	}
	return false
}

// isLoopback reports whether only this machine reaches the host. A name other than localhost can lead anywhere.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// names are the names of the server that a request may have.
func (f *consoleFlags) names() []string {
	names := []string{}
	for _, name := range f.hosts {
		names = append(names, strings.ToLower(strings.TrimSuffix(name, ".")))
	}
	if host, _, err := net.SplitHostPort(f.listen); err == nil && host != "" && net.ParseIP(host) == nil {
		names = append(names, strings.ToLower(host))
	}
	return names
}

// password reads the first line of the password's file.
func (f *consoleFlags) password() ([]byte, error) {
	if f.passwordFile == "" {
		return nil, nil
	}
	file, err := os.Open(f.passwordFile)
	if err != nil {
		return nil, fmt.Errorf("--password-file: %w", err)
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, maxPasswordBytes+1))
	if err != nil {
		return nil, fmt.Errorf("--password-file: %w", err)
	}
	line, _, _ := bytes.Cut(text, []byte("\n"))
	line = bytes.TrimSuffix(line, []byte("\r"))
	if len(line) < minPasswordBytes || len(line) > maxPasswordBytes {
		return nil, fmt.Errorf("--password-file: the first line has %d bytes, must have %d to %d", len(line), minPasswordBytes, maxPasswordBytes)
	}
	return line, nil
}

// A source is one database that the console shows.
type source struct{ name, url string }

// sources returns the databases of --store, or the one of --database.
func (a *app) sources(stores []string) ([]source, error) {
	if len(stores) == 0 {
		cfg, err := a.poolConfig("")
		if err != nil {
			return nil, err
		}
		return []source{{cfg.ConnConfig.Database, ""}}, nil
	}
	if a.database != "" {
		return nil, errors.New("--database or --store, not both")
	}
	var out []source
	for _, text := range stores {
		name, url, ok := strings.Cut(text, "=")
		if !ok || name == "" || url == "" || printable(name) != name || len(name) > 80 {
			// The text can hold a password.
			return nil, errors.New("--store is not NAME=postgres://…, nor NAME=env:VARIABLE")
		}
		for _, other := range out {
			if other.name == name {
				return nil, fmt.Errorf("--store %s is there twice", name)
			}
		}
		if variable, ok := strings.CutPrefix(url, "env:"); ok {
			if url, _ = a.environ(variable); url == "" {
				return nil, fmt.Errorf("--store %s: the variable %s is empty", name, printable(variable))
			}
		}
		out = append(out, source{name, url})
	}
	return out, nil
}
