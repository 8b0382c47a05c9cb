package saga_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/saga/memjournal"
)

// A missing argument causes an error of this package, and not a panic.
func TestRun_withoutWhatItNeeds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		var none *saga.Engine
		_, err := checkout.Run(s.Context(), none, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrConfig)
		_, err = checkout.Start(s.Context(), none, key(s.T, "k"), basket)
		require.ErrorIs(s, err, saga.ErrConfig)

		e := s.open(checkout)
		for _, d := range []*saga.Definition[order, receipt]{nil, {}} {
			_, err = d.Run(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrNoDefinition)
			_, err = d.Start(s.Context(), e, key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrNoDefinition)
			_, err = d.Request(key(s.T, "k"), basket)
			require.ErrorIs(s, err, saga.ErrNoDefinition)
		}
	})
}

func TestOpen_nilPointers(t *testing.T) {
	t.Parallel()
	inBubble(t, func(s *stage) {
		client, err := s.services.Client("inventory", "payment", "shipping", "mail")
		require.NoError(s, err)
		cfg := saga.Config{Client: client, Definitions: []saga.AnyDefinition{checkout}}
		var journal *memjournal.Journal
		_, err = saga.Open(s.Context(), journal, cfg)
		require.ErrorIs(s, err, saga.ErrConfig)
		require.ErrorContains(s, err, "journal")
		var d *saga.Definition[order, receipt]
		cfg.Definitions = append(cfg.Definitions, d)
		_, err = saga.Open(s.Context(), s.journal, cfg)
		require.ErrorIs(s, err, saga.ErrConfig)
	})
}
