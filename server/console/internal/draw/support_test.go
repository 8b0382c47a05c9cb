package draw_test

import (
	"encoding/xml"
	"errors"
	"flag"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write the pictures in testdata anew")

// golden compares a picture with its file.
func golden(t *testing.T, name string, got template.HTML) {
	t.Helper()
	valid(t, got)
	file := filepath.Join("testdata", name+".svg")
	if *update {
		require.NoError(t, os.MkdirAll("testdata", 0o755))
		require.NoError(t, os.WriteFile(file, []byte(got), 0o644))
	}
	want, err := os.ReadFile(file)
	require.NoError(t, err)
	require.Equal(t, string(want), string(got), "go test -update writes %s anew", file)
}

// valid fails if a picture is not well-formed XML, has anything that a strict policy refuses, or shows a number that is none.
func valid(t *testing.T, picture template.HTML) (elements map[string]int) {
	t.Helper()
	elements = map[string]int{}
	decoder := xml.NewDecoder(strings.NewReader(string(picture)))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err, "%s", picture)
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		elements[start.Name.Local]++
		if start.Name.Local == "svg" {
			scales(t, start)
		}
		require.Contains(t, []string{"svg", "g", "a", "title", "rect", "text", "path", "line"}, start.Name.Local)
		for _, a := range start.Attr {
			require.NotEqual(t, "style", a.Name.Local)
			require.False(t, strings.HasPrefix(a.Name.Local, "on"), a.Name.Local)
			if a.Name.Local != "aria-label" && a.Name.Local != "href" {
				require.NotContains(t, a.Value, "NaN")
				require.NotContains(t, a.Value, "Inf")
			}
			if start.Name.Local == "rect" && (a.Name.Local == "width" || a.Name.Local == "height") {
				require.False(t, strings.HasPrefix(a.Value, "-"), a.Value)
			}
		}
	}
	require.Equal(t, 1, elements["svg"])
	return elements
}

// scales fails if a narrow place would cut off a part of the picture: one in pixels has a viewBox of its whole size.
func scales(t *testing.T, svg xml.StartElement) {
	t.Helper()
	attrs := map[string]string{}
	for _, a := range svg.Attr {
		attrs[a.Name.Local] = a.Value
	}
	if attrs["width"] == "100%" {
		require.Empty(t, attrs["viewBox"])
		return
	}
	require.Equal(t, "0 0 "+attrs["width"]+" "+attrs["height"], attrs["viewBox"])
}

const planted = `"><script>alert(1)</script>'&` + "\x00\xff\u200b"
