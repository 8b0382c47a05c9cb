package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/stretchr/testify/require"
)

func TestRun_badInput(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, tt := range []struct {
		name, args, want string
	}{
		{"no tool", "-dir " + dir + " pgstore", "-tool"},
		{"an unknown tool", "-tool flyway -dir " + dir + " pgstore", `"flyway"`},
		{"no folder", "-tool goose pgstore", "-dir"},
		{"no package", "-tool goose -dir " + dir, "no package"},
		{"an unknown package", "-tool goose -dir " + dir + " memstore", `"memstore"`},
		{"a package twice", "-tool goose -dir " + dir + " pgjournal pgstore pgjournal", "twice"},
		{"a schema that cannot be", "-tool goose -schema a'b -dir " + dir + " pgjournal", "-schema"},
		{"a schema of the server", "-tool goose -schema pg_mine -dir " + dir + " pgjournal", "-schema"},
		{"no number", "-tool goose -first 0 -dir " + dir + " pgjournal", "-first"},
		{"no version", "-tool goose -after -1 -dir " + dir + " pgjournal", "-after"},
		{"a version of two packages", "-tool goose -after 1 -dir " + dir + " pgjournal pgstore", "-after"},
		{"a version that is not there", "-tool goose -after 99 -dir " + dir + " pgstore", "-after"},
		{"the latest version", "-tool goose -after 2 -dir " + dir + " pgstore", "no later step"},
		{"an unknown option", "-up", "-up"},
	} {
		var out bytes.Buffer
		require.ErrorContains(t, run(strings.Fields(tt.args), &out), tt.want, tt.name)
	}
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, left)
}

// A file that is there stays as it is, and no other is left beside it.
func TestRun_overwritesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	args := strings.Fields("-tool golang-migrate -dir " + dir + " -first 3 pgstore")
	taken := filepath.Join(dir, "000004_fanonce_pgstore_0002_attention.up.sql")
	require.NoError(t, os.WriteFile(taken, []byte("mine"), 0o600))
	require.ErrorIs(t, run(args, new(bytes.Buffer)), fs.ErrExist)
	left, err := filepath.Glob(dir + "/*")
	require.NoError(t, err)
	require.Equal(t, []string{taken}, left)
	text, err := os.ReadFile(taken)
	require.NoError(t, err)
	require.Equal(t, "mine", string(text))
	require.NoError(t, os.Remove(taken))
	require.NoError(t, run(args, new(bytes.Buffer)))
	left, err = filepath.Glob(dir + "/*")
	require.NoError(t, err)
	require.Len(t, left, 4)
}

// Every statement of every step is in the files of every tool, and a way back has its warning at the top.
func TestFiles(t *testing.T) {
	t.Parallel()
	for _, tool := range toolNames {
		files, err := options{tool: tool, first: 1, packages: []string{"pgjournal", "pgstore"}}.files()
		require.NoError(t, err)
		var all strings.Builder
		for _, f := range files {
			all.WriteString(f.text)
			top, _, _ := strings.Cut(f.text, "do $fanonce$")
			require.Equal(t, !strings.Contains(f.name, ".up."), strings.Contains(top, "DOWN DESTROYS DATA"), f.name)
		}
		for _, c := range components {
			steps, err := c.steps()
			require.NoError(t, err)
			require.NotEmpty(t, steps)
			for _, s := range steps {
				for _, sql := range []string{s.up, s.down} {
					require.NotContains(t, sql, "$fanonce$", "it would end the condition")
					require.Contains(t, all.String(), strings.TrimSpace(sql))
				}
			}
		}
	}
}

// Tern reads a file as a template. Braces in the SQL come out unchanged.
func TestTern_braces(t *testing.T) {
	t.Parallel()
	const sql = "select '{{ . }}', '{{', '}}', '{1}'::int[];\n"
	got := tern(7, "title", "-- head\n", "", sql, sql)
	require.Len(t, got, 1)
	require.Equal(t, "007_title.sql", got[0].name)
	var text strings.Builder
	require.NoError(t, template.Must(template.New("").Parse(got[0].text)).Execute(&text, nil))
	require.Equal(t, 2, strings.Count(text.String(), sql), "%s", text.String())
}
