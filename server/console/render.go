package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"
)

//go:embed template/*.html
var templateFiles embed.FS

// loadPages returns the parsed templates by the name of the page. They are the same for every console.
var loadPages = sync.OnceValues(parsePages)

// parsePages parses each page together with the layout and the parts that pages share.
func parsePages() (map[string]*template.Template, error) {
	entries, err := templateFiles.ReadDir("template")
	if err != nil {
		return nil, fmt.Errorf("console: %w", err)
	}
	pages := make(map[string]*template.Template)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "_") {
			continue
		}
		t, err := template.New("layout").Funcs(functions).ParseFS(templateFiles, "template/_*.html", "template/"+e.Name())
		if err != nil {
			return nil, fmt.Errorf("console: %w", err)
		}
		pages[strings.TrimSuffix(e.Name(), path.Ext(e.Name()))] = t
	}
	return pages, nil
}

// A page is the data of the layout.
type page struct {
	Title string // of the page: it contains no key, scope or body
	Nav   string // the entry of the menu that is marked
	Live  bool   // the browser refreshes the page from time to time
	Data  any

	// The renderer fills in the rest.

	Site, Base, Token, Version string
	User                       User
	Has                        menu
}

// A menu says which entries the menu has.
type menu struct{ Keys, Sagas bool }

// Operator reports whether the page shows forms that change something.
func (p *page) Operator() bool { return p.User.Role == Operator }

// render answers with a page.
func (c *Console) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Site, p.Base, p.User, p.Version = c.cfg.Title, c.cfg.Prefix, userOf(r), assetVersion
	p.Token = c.token(p.User, time.Now().Add(tokenLife))
	p.Has = menu{Keys: len(c.cfg.Stores) > 0, Sagas: len(c.cfg.Sagas) > 0}
	var b bytes.Buffer
	if err := c.pages[name].ExecuteTemplate(&b, "layout", &p); err != nil {
		c.log(r, slog.LevelError, "a page could not be rendered", slog.String("template", name), slog.Any("error", err))
		plain(w, http.StatusInternalServerError, "The page could not be rendered.")
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // a browser that is gone asks again
}

// fail answers with a page that says why there is nothing else.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, status int, text string) {
	c.render(w, r, status, "error", page{Title: http.StatusText(status), Data: text})
}

// help answers with the list of keys and words.
func (c *Console) help(w http.ResponseWriter, r *http.Request) {
	c.render(w, r, http.StatusOK, "help", page{Title: "Help", Nav: "help"})
}

//go:embed asset/*
var assets embed.FS

var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

// assetVersion changes with the assets. It is in their addresses.
var assetVersion = func() string {
	h := sha256.New()
	for _, name := range []string{"console.css", "console.js", "icon.svg"} {
		b, err := assets.ReadFile("asset/" + name)
		if err != nil {
			return "0" // the test of the assets reports it
		}
		_, _ = h.Write(b)
	}
	return hex.EncodeToString(h.Sum(nil)[:4])
}()

func (c *Console) asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	b, err := assets.ReadFile("asset/" + path.Base(name))
	if err != nil {
		c.fail(w, r, http.StatusNotFound, "There is no such file.")
		return
	}
	w.Header().Set("Content-Type", assetTypes[path.Ext(name)])
	_, _ = w.Write(b)
}
