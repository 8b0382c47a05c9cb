package browsertest_test

import (
	"bytes"
	"context"
	"flag"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
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
}

// maxPictureBytes keeps the repository small.
const maxPictureBytes = 250 << 10

// The pictures are there, have the right width, and are small. Pixels differ from one browser to the next, so that they are not compared.
func TestPictures(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "testdata")
	if *updatePictures {
		s := full(t)
		b := open(t, s, look{user: "ada", script: true})
		require.NoError(t, os.MkdirAll(folder, 0o755))
		for _, p := range pictures {
			b.do(chromedp.EmulateViewport(p.width, 800))
			b.scheme(p.scheme)
			b.visit(prefix + p.address)
			require.NoError(t, os.WriteFile(filepath.Join(folder, p.name+".png"), b.picture(), 0o644))
		}
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

// picture returns the whole page as a PNG.
func (t *tab) picture() []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	text, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
	require.NoError(t, err)
	return text
}
