package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/console"
)

const consoleLong = `Serve the operations page on databases, until an interrupt. It shows keys, sagas and dead letters, and settles those
that need a person. It shows the tables that are there, and needs no service.

--store NAME=postgres://… names a database; repeat it for several. NAME=env:VARIABLE takes the address from a variable:
so a password stays out of the list of processes. Without --store the database is that of all commands.

Only this machine reaches the page. The program prints an address with a token, which lets one browser in, and then
prints the address for the next one. Who comes in counts as --actor in the audit log. For other machines and for
people by name, mount package server/console in an admin service of yours, behind its own sign-in and TLS; or put a
proxy of yours in front of this program, which signs people in and sends "Host: localhost".

--read-only shows everything and changes nothing: the role fanonce_observer is enough for it, but for the steps of one
saga. The decision "it happened, and this was the answer" is not offered, because this program cannot seal an answer:
fanonce keys resolve --as happened --plain is for services that do not seal. "Force OK" of a saga's step is not offered
either, because it needs the definition. A console that the service mounts has both.
--timeout ends each statement. The page shows neither a key's text nor a body, and writes none to a log.`

func newConsole(a *app) *cobra.Command {
	var f consoleFlags
	cmd := &cobra.Command{
		Use: "console", Short: "Serve the operations page on databases", Args: takes(0, 0), Long: consoleLong,
		Example: "  fanonce console\n" +
			"  fanonce console --store orders=env:ORDERS_URL --store payments=postgres://ann@db.example.com/payments --read-only",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			sources, err := a.sources(f.stores)
			if err != nil {
				return err
			}
			return a.console(cmd.Context(), &f, sources)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "localhost:7070", "address of this machine to listen on; port 0 is any free one")
	flags.StringArrayVar(&f.stores, "store", nil, "a database, as NAME=postgres://… or NAME=env:VARIABLE; repeat it for several")
	flags.StringVar(&f.title, "title", "", "name of the page")
	flags.StringVar(&f.actor, "actor", "", "who comes by the token, for the audit log; default $USER@HOST")
	f.actor = a.whoami()
	flags.BoolVar(&f.readOnly, "read-only", false, "change nothing: everybody is an observer")
	return cmd
}

// consoleFlags are the flags of fanonce console.
type consoleFlags struct {
	listen, title, actor string
	stores               []string
	readOnly             bool
}

// check refuses flags that do not go together, and addresses that other machines reach.
func (c *consoleFlags) check() error {
	host, _, err := net.SplitHostPort(c.listen)
	switch {
	case err != nil:
		return fmt.Errorf("--listen %q is not HOST:PORT", c.listen)
	case !isLoopback(host):
		return fmt.Errorf("--listen %q can be reached from other machines: listen on localhost with a proxy of yours in front, "+
			"or mount package server/console in a service that signs people in", c.listen)
	}
	return checkActor(c.actor)
}

// isLoopback reports whether only this machine reaches the host. A name other than localhost can lead anywhere.
func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// consoleOut is the JSON of console. It is printed when the page is served.
type consoleOut struct {
	URL      string   `json:"url"`    // to open in a browser; has the token
	Stores   []string `json:"stores"` // what is shown
	ReadOnly bool     `json:"read_only"`
}

func (a *app) console(ctx context.Context, f *consoleFlags, sources []source) error {
	shown, err := a.show(ctx, sources, f.readOnly)
	if err != nil {
		return err
	}
	defer shown.close()
	g := &gate{actor: f.actor, now: time.Now, token: newSecret(), sessions: map[string]time.Time{}}
	shown.cfg.Title, shown.cfg.Authenticate = f.title, f.authenticate
	shown.cfg.Logger = a.logger()
	if g.next, err = console.New(shown.cfg); err != nil {
		return err
	}
	s, err := a.newSite(ctx, f.listen, g)
	if err != nil {
		return err
	}
	g.renewed = func(token string) {
		a.announce("fanonce: a browser has come in; for another one: " + s.tokenURL(token))
	}
	if err := a.invite(s, shown.names, f.readOnly); err != nil {
		return errors.Join(err, s.listener.Close())
	}
	return s.serve(ctx)
}

// authenticate tells the console who comes in: the gate before it lets nobody else pass.
func (c *consoleFlags) authenticate(*http.Request) (console.User, error) {
	if c.readOnly {
		return console.User{Name: c.actor, Role: console.Observer}, nil
	}
	return console.User{Name: c.actor, Role: console.Operator}, nil
}

// invite says where the page is.
func (a *app) invite(s *site, names []string, readOnly bool) error {
	err := a.printLine(consoleOut{s.entrance(), names, readOnly}, s.entrance())
	if err == nil && !a.json {
		a.announce(fmt.Sprintf("fanonce: the page of %s; interrupt to stop", printable(strings.Join(names, ", "))))
	}
	return err
}

const (
	readTimeout  = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	stopTimeout  = 10 * time.Second
	headerBytes  = 64 << 10
	answerBeyond = 30 * time.Second // what an answer may take beyond one statement
)

// A site is a server of a gate, and its address.
type site struct {
	gate     *gate
	listener net.Listener
	base     string // as "http://localhost:7070"
	server   *http.Server
}

// newSite listens. Then the port is known, and no other process has it.
func (a *app) newSite(ctx context.Context, address string, g *gate) (*site, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	port := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port) //nolint:errcheck // a TCP listener has such an address
	// Browsers send a cookie to all ports of a host.
	g.cookie = "fanonce_console_" + port
	host, _, _ := net.SplitHostPort(address)
	s := &site{gate: g, listener: listener, base: "http://" + net.JoinHostPort(host, port)}
	s.server = &http.Server{
		Handler: http.NewCrossOriginProtection().Handler(g), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: a.timeout + answerBeyond, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		// Errors of the network are no news: only panics are worth a line.
		ErrorLog: slog.NewLogLogger(a.logger().Handler(), slog.LevelDebug),
	}
	return s, nil
}

// entrance is where a person begins.
func (s *site) entrance() string {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return s.tokenURL(s.gate.token)
}

func (s *site) tokenURL(token string) string {
	return s.base + loginPath + "?token=" + url.QueryEscape(token)
}

// serve answers requests until ctx ends. It then lets the running ones end.
func (s *site) serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(errors.New("some requests did not end in time"), s.server.Close())
	}
	<-failed
	return err
}
