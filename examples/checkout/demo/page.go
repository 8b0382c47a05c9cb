package demo

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/fanonce/fanonce/examples/checkout/internal/checkout"
	"github.com/fanonce/fanonce/examples/checkout/internal/depot"
	"github.com/fanonce/fanonce/examples/checkout/internal/node"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/console"
)

// A page is the console of a watched demo.
type page struct {
	url     string // with the secret that lets a browser in
	server  *http.Server
	serving sync.WaitGroup
}

// openPage serves the console of all services.
func (s *stage) openPage(ctx context.Context, w *watched) (*page, error) {
	cfg := console.Config{Title: "checkout"}
	storages := map[string]*node.Storage{"depot": w.storage}
	for _, name := range services {
		storages[name] = s.storages[name]
	}
	for _, name := range append(services, "depot") {
		looked, err := s.storeOf(ctx, name, storages[name])
		if err != nil {
			return nil, err
		}
		cfg.Stores = append(cfg.Stores, looked)
	}
	if err := s.addKeys(&cfg); err != nil {
		return nil, err
	}
	sagas, err := s.sagasOf(ctx, w)
	if err != nil {
		return nil, err
	}
	cfg.Sagas = append(cfg.Sagas, sagas)
	door := door{secret: rand.Text()}
	cfg.Authenticate = door.authenticate
	handler, err := console.New(cfg)
	if err != nil {
		return nil, err
	}
	door.next = handler
	return servePage(s.opts.listen, &door)
}

// storeOf returns the keys of a service as the console shows them.
func (s *stage) storeOf(ctx context.Context, name string, storage *node.Storage) (of console.Store, err error) {
	of.Name = name
	if of.Reader, err = storage.OpenReader(ctx); err != nil {
		return of, err
	}
	if of.Guard, err = storage.Operate(); err != nil {
		return of, err
	}
	return of, nil
}

// addKeys adds the store that is apart from the services, if there is one.
func (s *stage) addKeys(cfg *console.Config) (err error) {
	apart := s.storages["checkout"].Keys
	if apart == nil {
		return nil
	}
	of := console.Store{Name: "keys of " + s.opts.keys.url.Scheme, Reader: apart.Store.Reader()}
	if of.Guard, err = server.NewGuard(apart.Store, server.Unscoped, server.Config{}); err != nil {
		return err
	}
	cfg.Stores = append(cfg.Stores, of)
	return nil
}

func (s *stage) sagasOf(ctx context.Context, w *watched) (of console.Sagas, err error) {
	of.Name = "sagas of checkout"
	if of.Reader, err = s.storages["checkout"].OpenJournalReader(ctx, w.sagas.journal); err != nil {
		return of, err
	}
	of.Operator, err = saga.NewOperator(w.sagas.journal, checkout.Saga, depot.Saga)
	return of, err
}

// servePage listens, and serves until close is called.
func servePage(address string, d *door) (*page, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &page{
		url:    "http://" + listener.Addr().String() + "/?" + secretParam + "=" + d.secret,
		server: &http.Server{Handler: d, ReadHeaderTimeout: 10 * time.Second},
	}
	p.serving.Go(func() { _ = p.server.Serve(listener) }) // it returns when the server is closed, and says no more than that
	return p, nil
}

// close lets the answers on their way go out.
func (p *page) close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
	defer cancel()
	err := p.server.Shutdown(ctx)
	err = errors.Join(err, p.server.Close())
	p.serving.Wait()
	return err
}

// A door lets a browser in that has opened the address with the secret. Other users of this machine can reach
// the port, but do not know the secret.
type door struct {
	secret string
	next   http.Handler
}

const (
	secretParam  = "secret"
	secretCookie = "fanonce-checkout"
)

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if d.knows(r.URL.Query().Get(secretParam)) {
		http.SetCookie(w, &http.Cookie{Name: secretCookie, Value: d.secret, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		http.Redirect(w, r, "/", http.StatusSeeOther)
		return
	}
	d.next.ServeHTTP(w, r)
}

// authenticate makes each browser with the cookie an operator: it is a demo.
func (d *door) authenticate(r *http.Request) (console.User, error) {
	cookie, err := r.Cookie(secretCookie)
	if err != nil || !d.knows(cookie.Value) {
		return console.User{}, errors.New("checkout: open the address that the demo has printed")
	}
	return console.User{Name: "you", Role: console.Operator}, nil
}

func (d *door) knows(secret string) bool {
	return subtle.ConstantTimeCompare([]byte(secret), []byte(d.secret)) == 1
}
