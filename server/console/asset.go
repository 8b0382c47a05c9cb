package console

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"net/http"
	"path"
)

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
