package main

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/server"
)

// A service's own refusal is the customer's answer. What the service says of the shop's key is not about the customer's.
func TestRefusal(t *testing.T) {
	t.Parallel()
	for code, want := range map[wire.Code]string{
		"card-declined": "card-declined", wire.KeyReused: "order-refused", "": "order-refused",
	} {
		var answer *server.StatusError
		require.ErrorAs(t, refusal(&retry.Error{Outcome: retry.Rejected, Status: 422, Code: code, Err: errors.New("refused")}), &answer)
		require.Equal(t, want, answer.Code)
	}
}
