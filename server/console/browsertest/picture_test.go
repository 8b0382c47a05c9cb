package browsertest_test

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga/journal"
	"github.com/fanonce/fanonce/server/console"
	"github.com/fanonce/fanonce/server/store"
)

var updatePictures = flag.Bool("update-pictures", false, "take the pictures in ../testdata anew")

// pictures are the pages that the documentation shows: a wide one in light and dark, and a narrow one.
var pictures = []struct {
	name, address string
	width         int64
	scheme        string
}{
	{"overview_light", "/", 1280, "light"},
	{"overview_dark", "/", 1280, "dark"},
	{"overview_narrow", "/", 375, "light"},
	{"keys_light", "/keys?in=orders", 1280, "light"},
	{"keys_dark_narrow", "/keys?in=orders", 375, "dark"},
	{"key_light", "{key}", 1280, "light"},
	{"key_dark_narrow", "{key}", 375, "dark"},
	{"saga_light", "{saga}", 1280, "light"},
	{"saga_dark", "{saga}", 1280, "dark"},
	{"saga_narrow", "{saga}", 375, "light"},
	{"request_light", "{request}", 1280, "light"},
	{"request_dark_narrow", "{request}", 375, "dark"},
	{"audit_light", "/audit", 1280, "light"},
	{"audit_dark_narrow", "/audit", 375, "dark"},
	{"down_light", "{down}", 1280, "light"},
	{"down_dark_narrow", "{down}", 375, "dark"},
}

// maxPictureBytes keeps the repository small.
const maxPictureBytes = 250 << 10

// The pictures are there, have the right width, and are small. Pixels differ from one browser to the next, so that they are not compared.
func TestPictures(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "testdata")
	if *updatePictures {
		takePictures(t, folder)
	}
	for _, p := range pictures {
		text, err := os.ReadFile(filepath.Join(folder, p.name+".png"))
		require.NoError(t, err, "go test -update-pictures takes the pictures anew")
		require.Less(t, len(text), maxPictureBytes, p.name)
		size, err := png.DecodeConfig(bytes.NewReader(text))
		require.NoError(t, err)
		require.Equal(t, int(p.width), size.Width, p.name)
	}
}

// takePictures takes all pictures anew.
func takePictures(t *testing.T, folder string) {
	t.Helper()
	s, down := newSiteOf(t, inPostgres(t), defineCheckout(""), nil), newSiteOn(t, inMemory(), func(cfg *console.Config) {
		cfg.Stores = append(cfg.Stores, console.Store{Name: "payments", Reader: awayStore{}})
	})
	s.fill()
	s.run("order-4", "", undoRefused, journal.Stuck)
	down.plant(1, 0, store.StateUnknown, "POST /orders")
	stuck, err := s.engine.Reader().Browse(t.Context(), journal.BrowseRequest{Statuses: []journal.Status{journal.Stuck}, OldestFirst: true, Limit: 1})
	require.NoError(t, err)
	require.Len(t, stuck, 1)
	addresses := map[string]string{
		"{key}": "/key?in=orders&id=" + number(2).String(), "{saga}": "/saga?in=checkouts&id=" + stuck[0].ID.String(),
		"{request}": "/request?id=" + number(1).String(),
	}
	b, away := open(t, s, look{user: "ada", script: true}), open(t, down, look{user: "ada", script: true})
	require.NoError(t, os.MkdirAll(folder, 0o755))
	for _, p := range pictures {
		on := b
		if p.address == "{down}" {
			on = away
			p.address = "/"
		}
		on.do(chromedp.EmulateViewport(p.width, 800))
		on.scheme(p.scheme)
		on.visit(prefix + cmp.Or(addresses[p.address], p.address))
		require.NoError(t, os.WriteFile(filepath.Join(folder, p.name+".png"), on.picture(), 0o644))
	}
}

// An awayStore has a database that is down.
type awayStore struct{ store.Reader }

func (awayStore) List(context.Context, store.ListRequest) ([]store.Record, error) {
	return nil, errors.New("connection refused")
}

// picture returns the whole page as a PNG.
func (t *tab) picture() []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	return text
}
