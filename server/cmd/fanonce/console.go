package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanonce/fanonce/server/console"
)

const consoleLong = `Serve the operations page on databases, until an interrupt. It shows keys, sagas and dead letters, and settles those
that need a person. It shows the tables that are there, and needs no service.

--store NAME=postgres://… names a database; repeat it for several. NAME=env:VARIABLE takes the address from a variable:
so a password stays out of the list of processes. Without --store the database is that of all commands.

Who may come in:
  by default            this machine alone: the program prints an address with a token, which lets one browser in
  --password-file FILE  who knows the first line of FILE, under a name of their own choice for the audit log
  --trust-header NAME   whom a proxy names in this header. DANGER: who can reach this address without the proxy can
                        be anyone. Let no one else reach it, and let the proxy remove the header that clients send

An address that other machines reach needs --password-file or --trust-header. Give it TLS, too, by --tls-cert or by a
proxy, else the password can be read on the way. --read-only shows everything and changes nothing: the role
fanonce_observer is enough for it, but for the steps of one saga. A request must name this server by --listen, by its address, or by --host.

The decision "it happened, and this was the answer" needs --plain, by which you state that the guards of all services here
have no Codec, or have AcceptPlain: this program cannot seal an answer. Retries get the answer for --retention, which
should be that of the guards. "Force OK" of a saga's step is not offered: it
needs the definition. A console that the service mounts has both.
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
			a.retention = f.retention
			sources, err := a.sources(f.stores)
			if err != nil {
				return err
			}
			return a.console(cmd.Context(), &f, sources)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.listen, "listen", "localhost:7070", "address to listen on; port 0 is any free one")
	flags.StringArrayVar(&f.stores, "store", nil, "a database, as NAME=postgres://… or NAME=env:VARIABLE; repeat it for several")
	flags.StringVar(&f.title, "title", "", "name of the page")
	flags.StringVar(&f.actor, "actor", "", "who comes by the token, for the audit log; default $USER@HOST")
	f.actor = a.whoami()
	flags.BoolVar(&f.readOnly, "read-only", false, "change nothing: everybody is an observer")
	flags.BoolVar(&f.plain, "plain", false, "offer \"it happened\": all services here read answers in plain text")
	flags.DurationVar(&f.retention, "retention", 0, "how long retries get an answer of \"it happened\"; default 24h, as a guard's Retention")
	flags.StringVar(&f.passwordFile, "password-file", "", "file whose first line is the password, of at least 12 bytes")
	flags.StringVar(&f.trustHeader, "trust-header", "", "header in which a proxy names the user; see the danger above")
	flags.StringArrayVar(&f.hosts, "host", nil, "a name by which browsers reach this server; repeat it for several")
	flags.StringVar(&f.certificate, "tls-cert", "", "file of the TLS certificate")
	flags.StringVar(&f.key, "tls-key", "", "file of the TLS key")
	return cmd
}

// consoleOut is the JSON of console. It is printed when the page is served.
type consoleOut struct {
	URL      string   `json:"url"`    // to open in a browser; has the token, if there is one
	Stores   []string `json:"stores"` // what is shown
	ReadOnly bool     `json:"read_only"`
}

func (a *app) console(ctx context.Context, f *consoleFlags, sources []source) error {
	password, err := f.password()
	if err != nil {
		return err
	}
	shown, err := a.show(ctx, sources, f)
	if err != nil {
		return err
	}
	defer shown.close()
	g := &gate{
		names: f.names(), trust: f.trustHeader, password: password, actor: f.actor, secure: f.certificate != "",
		now: time.Now, token: newSecret(), sessions: map[string]session{},
	}
	shown.cfg.Title, shown.cfg.Authenticate = f.title, f.authenticate
	shown.cfg.Logger = slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if g.next, err = console.New(shown.cfg); err != nil {
		return err
	}
	s, err := a.newSite(ctx, f, g)
	if err != nil {
		return err
	}
	g.renewed = func(token string) {
		a.announce("fanonce: a browser has come in; for another one: " + s.tokenURL(token))
	}
	if err := a.invite(s, shown.names, f.readOnly); err != nil {
		return errors.Join(err, s.listener.Close())
	}
	return s.serve(ctx, f)
}

// authenticate tells the console whom the gate let in.
func (f *consoleFlags) authenticate(r *http.Request) (console.User, error) {
	name, ok := visitor(r)
	if !ok {
		return console.User{}, errors.New("nobody came through the gate")
	}
	if f.readOnly {
		return console.User{Name: name, Role: console.Observer}, nil
	}
	return console.User{Name: name, Role: console.Operator}, nil
}

// invite says where the page is.
func (a *app) invite(s *site, names []string, readOnly bool) error {
	if a.json {
		return writeJSON(a.stdout, consoleOut{s.entrance(), names, readOnly})
	}
	if s.gate.password != nil && !s.gate.secure && !s.isLocal() {
		a.announce("fanonce: warning: without TLS the password can be read on the way: give --tls-cert, or put a TLS proxy in front")
	}
	_, err := fmt.Fprintln(a.stdout, s.entrance())
	if err == nil {
		a.announce(fmt.Sprintf("fanonce: the page of %s; interrupt to stop", printable(strings.Join(names, ", "))))
	}
	return err
}
