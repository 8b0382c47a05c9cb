package console

import (
	"cmp"
	"crypto/rand"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"
)

// pageTimeout bounds the reads of one page. The readers have bounds of their own, which are shorter.
const pageTimeout = 10 * time.Second

// A Console is the operations page. It is an [http.Handler], and safe for concurrent use. It runs no goroutine
// between requests. Make one with [New].
type Console struct {
	cfg     Config
	handler http.Handler
	pages   map[string]*template.Template
}

// New returns a console. It does no I/O. The error is a [*ConfigError] that names the wrong field.
func New(cfg Config) (*Console, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	cfg.Stores, cfg.Sagas = slices.Clone(cfg.Stores), slices.Clone(cfg.Sagas)
	cfg.Title, cfg.Challenge = cmp.Or(cfg.Title, "fanonce"), cmp.Or(cfg.Challenge, "Bearer")
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	if cfg.Secret == nil {
		cfg.Secret = make([]byte, minSecretBytes)
		if _, err := rand.Read(cfg.Secret); err != nil {
			return nil, fmt.Errorf("console: no random secret: %w", err)
		}
	}
	cfg.Secret = slices.Clone(cfg.Secret)
	p, err := loadPages()
	if err != nil {
		return nil, err
	}
	c := &Console{cfg: cfg, pages: p}
	c.handler = secure(c.requireUser(c.sameOrigin(c.below(c.routes()))))
	return c, nil
}

// ServeHTTP implements [http.Handler].
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// routes returns the pages by their paths below the prefix. A form is a POST, and a page is a GET.
func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.overview)
	mux.HandleFunc("GET /keys", c.keys)
	mux.HandleFunc("GET /key", c.key)
	mux.HandleFunc("GET /id/{id}", c.locate)
	mux.HandleFunc("POST /find", c.form(c.find))
	mux.HandleFunc("GET /request", c.request)
	mux.HandleFunc("GET /sagas", c.sagas)
	mux.HandleFunc("GET /saga", c.saga)
	mux.HandleFunc("GET /letters", c.keys)
	mux.HandleFunc("GET /audit", c.audit)
	mux.HandleFunc("POST /confirm", c.operatorOnly(c.form(c.confirm)))
	mux.HandleFunc("POST /do", c.operatorOnly(c.form(c.do)))
	mux.HandleFunc("GET /asset/{name}", c.asset)
	mux.HandleFunc("GET /help", c.help)
	mux.HandleFunc("/", c.notFound)
	return mux
}

// below serves next with the path below the prefix. [http.ServeMux] would answer an unclean path with a redirect
// that lacks the prefix, so such a path is not passed on.
func (c *Console) below(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rest, ok := strings.CutPrefix(r.URL.Path, c.cfg.Prefix)
		switch {
		case !ok:
			c.fail(w, r, http.StatusNotFound, "The paths of this console begin with "+c.cfg.Prefix+"/, as Config.Prefix says. Mount it there, without http.StripPrefix.")
		case mountedBelow(r, c.cfg.Prefix):
			c.fail(w, r, http.StatusNotFound, "This console is mounted below another path than its Config.Prefix says: its links would lead nowhere.")
		case ok && rest == "":
			http.Redirect(w, r, c.cfg.Prefix+"/", http.StatusMovedPermanently)
		case rest[0] != '/' || path.Clean(rest) != rest:
			c.notFound(w, r)
		default:
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = rest, ""
			next.ServeHTTP(w, r)
		}
	})
}

// mountedBelow reports whether an http.ServeMux has the console below a path that it does not know as its prefix.
func mountedBelow(r *http.Request, prefix string) bool {
	_, mount, _ := strings.Cut(r.Pattern, "/")
	mount = "/" + mount
	return len(mount) > len(prefix)+1 && strings.HasSuffix(mount, "/") && strings.HasPrefix(r.URL.Path, mount)
}

func (c *Console) notFound(w http.ResponseWriter, r *http.Request) {
	c.fail(w, r, http.StatusNotFound, "There is no such page.")
}

// sameOrigin refuses changes that another site sends.
func (c *Console) sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.log(r, slog.LevelWarn, "a form of another origin was refused")
		plain(w, http.StatusForbidden, "The form is from another site. Nothing was changed.")
	}))
	return protection.Handler(next)
}

// explain is the function explain, and logs what the text leaves out.
func (c *Console) explain(r *http.Request, err error) string {
	text := explain(err)
	if text == errorText {
		c.log(r, slog.LevelError, "a read failed", slog.Any("error", err))
	}
	return text
}

// log writes one line about a request. It names the pattern and not the path: an ID is an attribute of its own.
func (c *Console) log(r *http.Request, level slog.Level, text string, attrs ...slog.Attr) {
	attrs = append(attrs, slog.String("method", r.Method), slog.String("page", r.Pattern))
	if u := userOf(r); u.Name != "" {
		attrs = append(attrs, slog.String("user", u.Name))
	}
	c.cfg.Logger.LogAttrs(r.Context(), level, text, attrs...)
}

// isNil reports whether v is nil, or a nil pointer in an interface: that of an overlooked error.
func isNil(v any) bool {
	value := reflect.ValueOf(v)
	return !value.IsValid() || value.Kind() == reflect.Pointer && value.IsNil()
}
