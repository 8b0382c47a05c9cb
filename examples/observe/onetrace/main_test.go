package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// TestMain lets the test's binary be the process of a service.
func TestMain(m *testing.M) {
	if cfg, ok := configFromEnv(); ok {
		if err := serve(context.Background(), cfg); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

// One trace has the spans of all four services and of both shops. The charge of the second shop is the replay of the
// first one, and has a link to its run. Each effect happened once.
func TestPlay(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	story, err := play(ctx)
	require.NoError(t, err)
	require.Equal(t, 1300, story.receipt)
	require.Equal(t, map[string]int{"inventory": 1, "payment": 1, "shipping": 1}, story.effects)
	require.ElementsMatch(t, []string{"client", "shop-1", "shop-2", "inventory", "payment", "shipping"}, story.processes())

	byID := make(map[string]span)
	var taken, replay, run span
	for _, s := range story.spans {
		require.Equal(t, story.spans[0].Trace, s.Trace, "%s of %s", s.Name, s.Process)
		byID[s.ID] = s
		switch {
		case s.Process == "shop-2" && s.Name == "saga checkout":
			taken = s
		case s.Process == "payment" && s.Outcome == "hit":
			replay = s
		case s.Process == "payment" && strings.HasPrefix(s.Name, "run "):
			run = s
		}
	}
	require.True(t, taken.Start.After(story.killed), "the saga was taken over")
	require.NotContains(t, byID, taken.Parent, "its parent is the killed shop's, which reported nothing")
	require.NotEmpty(t, run.ID)
	require.Equal(t, run.ID, replay.Link)
	requireXML(t, story.picture())
}

// The picture in the repository is of such a run.
func TestPicture(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../onetrace.svg")
	require.NoError(t, err)
	requireXML(t, text)
	for _, want := range []string{"SIGKILL shop-1", "saga checkout", "link to the first run", "shop-2", "not reported"} {
		require.Contains(t, string(text), want)
	}
}

func requireXML(t *testing.T, text []byte) {
	t.Helper()
	for d := xml.NewDecoder(strings.NewReader(string(text))); ; {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
	}
}
