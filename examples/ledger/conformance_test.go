package main

import (
	"encoding/json"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/examples/internal/blackboxtest"
	"github.com/fanonce/fanonce/server/pgtest"
)

// unseen are the rows of the wire contract that this service cannot show.
var unseen = map[string]string{
	"replay/dropped": "its answers have no cookie",
	"reuse/method":   "its routes take POST alone",
}

// The service speaks the wire contract.
func TestConformance(t *testing.T) {
	t.Parallel()
	command := blackboxtest.Build(t, "../../server/servertest/wire")
	p := ledger(t, pgtest.URL(t), "WORK=400ms") // so long that every body is a slow one
	cmd := exec.CommandContext(t.Context(), command, "-url", p.URL, "-path", "/v1/effect", "-other-path", "/v1/effect-opaque", "-json",
		"-undo", "/v1/undo", "-opaque", "/v1/effect-opaque", "-max-body", "1048576",
		"-body", `{"fp":"a"}`, "-refused", `{"fp":"a","reject":true}`, "-failing", `{"fp":"a","fail":true}`, "-slow", `{"fp":"slow"}`,
		"-auth", "Authorization: Bearer t1", "-other-auth", "Authorization: Bearer t2")
	out, err := cmd.Output()
	var report struct {
		Passed int
		Rows   []struct{ ID, Status, Want, Detail string }
	}
	require.NoError(t, json.Unmarshal(out, &report), "%v: %s", err, out)
	for _, row := range report.Rows {
		want := "pass"
		if unseen[row.ID] != "" {
			want = "skip"
		}
		require.Equal(t, want, row.Status, "%s: %s; want %s", row.ID, row.Detail, row.Want)
	}
	require.NoError(t, err)
	require.Greater(t, report.Passed, 60)
}
