// Package sdk calls the operations of package contract, each under a child key of the request
// that it serves. Start with [New]. [Call] makes one call. [Client.Fanout] and [Add] make many
// at the same time.
//
// The ctx carries the parent key. A guarded handler's ctx has one. Elsewhere [Begin] makes one
// from a business id. The same code under the same parent key sends the same keys and bodies in
// every process. To resume after a crash, run the code again.
//
// The error of a call is a [*retry.Error] with a retry.Outcome. [Resumable] reports whether
// running the code again can help, and [RefusalOf] why it cannot. [Fanout.Undo] takes back a fan-out, and [CallUndo] one
// call.
//
// [Config].Retry and [Service].Retry say how calls are retried. By default they outlast the restart of
// a service. [Limits] gives one call its own attempts and times.
//
// [Client.Send] makes calls that no operation describes. [Client.RoundTripper] gives keys to
// the calls of a generated client. [Service].Profile is for services of other vendors.
//
// The package imports no server and no store. The callees remember the calls.
package sdk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/internal/errtext"
	"github.com/fanonce/fanonce/retry"
)

// DefaultMaxParallel is how many branches of one fan-out run at a time.
const DefaultMaxParallel = 16

// Config configures a [Client].
type Config struct {
	// Services are the callees, by the names that operations and child keys
	// use. At least one is required. [New] copies the map.
	Services map[string]Service
	// Retry is how attempts are made, for every service without a
	// [Service.Retry] of its own. The zero value means package retry's defaults.
	Retry retry.Config
	// MaxParallel is how many branches of one fan-out run at a time; zero means
	// [DefaultMaxParallel]. A branch that waits for another one does not count.
	MaxParallel int
}

// A Client calls services. It is safe for concurrent use; a program needs one.
type Client struct {
	services    map[string]*service
	maxParallel int
}

// refuse ends a call that was stopped here: nothing was sent. The observer of the service's
// calls hears of it, if there is such a service.
func (c *Client) refuse(ctx context.Context, task retry.Task, err error) *retry.Error {
	s, unknown := c.service(task.Service)
	if unknown != nil {
		return refuse(task.Service, task.Operation, task.Key, err)
	}
	return s.client.Refuse(ctx, task, err)
}

// service returns the service of that name. A nil Client has none.
func (c *Client) service(name string) (*service, error) {
	if c == nil {
		return nil, errNoClient
	}
	s, ok := c.services[name]
	if !ok {
		return nil, fmt.Errorf("%w: Config.Services has no %q", ErrNoService, name)
	}
	return s, nil
}

var errNoClient = fmt.Errorf("%w: the Client is nil, or was not made by New", ErrConfig)

// Close closes the idle connections of the client's own transports, as
// [retry.Client.Close] does. Transports of a Config belong to the caller. Close may be
// called again, and does nothing for a nil Client.
func (c *Client) Close() {
	if c == nil {
		return
	}
	for _, s := range c.services {
		s.client.Close()
	}
}

// New returns a client. It does no I/O. The error wraps [ErrConfig] and names
// the field and the value that it rejects.
func New(cfg Config) (*Client, error) {
	if len(cfg.Services) == 0 {
		return nil, fmt.Errorf("%w: Services: empty", ErrConfig)
	}
	if cfg.MaxParallel < 0 {
		return nil, fmt.Errorf("%w: MaxParallel: %d is negative", ErrConfig, cfg.MaxParallel)
	}
	c := &Client{
		services:    make(map[string]*service, len(cfg.Services)),
		maxParallel: cmp.Or(cfg.MaxParallel, DefaultMaxParallel),
	}
	if _, err := retry.New(cfg.Retry); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrConfig, field("Retry", err))
	}
	// In order, so that of several mistakes the same one is reported each time.
	for _, name := range slices.Sorted(maps.Keys(cfg.Services)) {
		if err := childkey.CheckName(name); err != nil {
			return nil, fmt.Errorf("%w: Services[%q]: %w", ErrConfig, name, errtext.Inner(err))
		}
		s, err := newService(name, cfg.Services[name], cfg.Retry)
		if err != nil {
			return nil, fmt.Errorf("%w: Services[%q].%w", ErrConfig, name, err)
		}
		c.services[name] = s
	}
	return c, nil
}

// A Service is one callee.
type Service struct {
	// URL is where the service is, with its base path if it has one:
	// "https://inventory.internal/v1". Required; http or https, without user
	// information, query and fragment. An operation's path is appended.
	URL string
	// Profile says how the service takes keys, and which of this library's headers it
	// gets. Nil means that of the service's [retry.Config], or [retry.Fanonce] if there is
	// none. A service that no guard protects needs [retry.Unguarded], or another profile: else
	// each 2xx of it is Unknown, with [retry.ErrUnmarked]. [New] copies the Profile, and refuses
	// one beside that of Retry.
	Profile *retry.Profile
	// Header is sent with every call; nil means none. [New] copies it.
	Header http.Header
	// HeaderFunc adds headers to a call, such as an Authorization for the user that ctx
	// names. It is called once for each call, and every attempt sends its headers. A later
	// run of the same call asks again. The headers may differ then, because they are no
	// part of the key or of the payload. If it returns an error, the call ends with
	// [ErrHeaderFunc] and nothing is sent. It is called concurrently. Nil adds nothing.
	// To sign each attempt, use retry.Config.Prepare.
	HeaderFunc func(ctx context.Context, header http.Header) error
	// Templates are the path templates of the service's operations, for
	// [Client.RoundTripper], as [http.ServeMux] takes them: "POST /bookings/{id}/cancel".
	// They begin behind the path of URL. The operation is the method and the template:
	// "POST/bookings/id/cancel". A request that no template matches is an [ErrRequest].
	// Nil means that there are none: then the operation is the method alone. Templates are
	// part of the contract with the service: other templates give calls other keys.
	Templates []string
	// OperationFunc names the call that a request through [Client.RoundTripper] makes,
	// instead of Templates. It returns the operation and its [Request.Discriminators]. For
	// the same call it must return the same after a restart. With the operation "" the
	// request gets no key, and passes through. Its error is the call's, and nothing is sent.
	// req comes without its Body and must not be changed. It is called concurrently. Nil
	// means that Templates name the calls. [New] refuses both together.
	OperationFunc func(req *http.Request) (operation string, discriminators []string, err error)
	// Retry replaces [Config.Retry] for this service: its timeouts, attempts
	// and transport. Nil means that one.
	Retry *retry.Config
}

// service is a Service that was checked.
type service struct {
	name       string
	host       string // of its URL
	origin     string // scheme and host of its URL
	prefix     string // of the URLs of its operations
	profile    *retry.Profile
	header     http.Header // of every call; nobody changes it
	headerFunc func(ctx context.Context, header http.Header) error
	client     *retry.Client

	templates *http.ServeMux // nil: none
	operation func(*http.Request) (string, []string, error)
}

// newService checks cfg; its errors start with the name of the field.
func newService(name string, cfg Service, policy retry.Config) (*service, error) {
	base, err := parseBase(cfg.URL)
	if err != nil {
		return nil, field("URL", err)
	}
	client, profile, err := newRetryClient(cfg, policy)
	if err != nil {
		return nil, err
	}
	if err := checkHeader(cfg.Header, &profile); err != nil {
		return nil, field("Header", err)
	}
	s := &service{
		name: name, host: base.Host, origin: base.Scheme + "://" + base.Host,
		profile: &profile, header: canonical(cfg.Header), headerFunc: cfg.HeaderFunc, operation: cfg.OperationFunc,
		client: client,
	}
	s.prefix = s.origin + strings.TrimSuffix(base.EscapedPath(), "/")
	if s.templates, err = newTemplates(cfg.Templates); err != nil {
		return nil, field("Templates", err)
	}
	if s.templates != nil && s.operation != nil {
		return nil, field("OperationFunc", errors.New("set it or Templates, not both"))
	}
	if err := s.reaches(s.prefix + "/"); err != nil {
		return nil, field("URL", err)
	}
	return s, nil
}

// newRetryClient returns the client that makes the calls of a service, and its Profile.
func newRetryClient(cfg Service, policy retry.Config) (client *retry.Client, profile retry.Profile, err error) {
	if cfg.Retry != nil {
		policy = *cfg.Retry
	}
	switch {
	case cfg.Profile != nil && cfg.Retry != nil && cfg.Retry.Profile != nil:
		return nil, profile, field("Retry.Profile", errors.New("set it or Profile, not both"))
	case cfg.Profile != nil:
		policy.Profile = cfg.Profile
	case policy.Profile == nil:
		policy.Profile = retry.Fanonce()
	}
	client, err = retry.New(policy)
	switch {
	case err == nil:
		return client, *policy.Profile, nil
	case cfg.Retry != nil:
		return nil, profile, field("Retry", err)
	}
	return nil, profile, errtext.Inner(err, retry.ErrConfig) // it names a field of the Profile
}

// parseBase never repeats text in its errors: it may hold a password.
func parseBase(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("empty")
	}
	u, err := url.Parse(text)
	if err != nil {
		var parse *url.Error
		if errors.As(err, &parse) {
			err = parse.Err
		}
		return nil, err
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("scheme %q, want http or https", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("no host")
	case !validPort(u.Port()):
		return nil, fmt.Errorf("port %s is not from 1 to 65535", u.Port())
	case u.User != nil:
		return nil, errors.New("has user information; use Header or HeaderFunc")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, errors.New("has a query")
	case u.Fragment != "" || strings.Contains(text, "#"):
		return nil, errors.New("has a fragment")
	}
	return u, nil
}

// validPort reports whether the port is empty or can be dialed.
func validPort(port string) bool {
	_, err := strconv.ParseUint(cmp.Or(port, "80"), 10, 16)
	return err == nil
}

// resolve returns the URL of an operation's path, which is escaped already.
func (s *service) resolve(path string) (string, error) {
	if !strings.HasPrefix(path, "/") {
		return "", fmt.Errorf("%w: path %q does not start with /", ErrRequest, path)
	}
	text := s.prefix + path
	if strings.Contains(path, "#") {
		return "", fmt.Errorf("%w: path %q has a fragment", ErrRequest, path)
	}
	if err := s.reaches(text); err != nil {
		return "", fmt.Errorf("%w: path %q: %w", ErrRequest, path, err)
	}
	return text, nil
}

// reaches returns an error unless text is a URL at the service's host.
func (s *service) reaches(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return err
	case u.Host != s.host:
		return errors.New("changes the host")
	}
	return nil
}
