package main_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// helps returns the help of a command and of all below it, by the names of the commands.
func helps(t *testing.T, path ...string) string {
	t.Helper()
	r := fanonce(t, append(path, "--help")...).requireCode(t, 0)
	require.Empty(t, r.stderr)
	text := fmt.Sprintf("$ %s --help\n%s\n", strings.Join(append([]string{"fanonce"}, path...), " "), r.stdout)
	for _, name := range below(r.stdout) {
		if name != "help" && name != "completion" {
			text += helps(t, append(path, name)...)
		}
	}
	return text
}

var listed = regexp.MustCompile(`(?m)^  ([a-z-]+) +\S`)

// below returns the commands that a help lists.
func below(help string) []string {
	_, list, ok := strings.Cut(help, "Available Commands:\n")
	if !ok {
		return nil
	}
	list, _, _ = strings.Cut(list, "\n\n")
	var names []string
	for _, found := range listed.FindAllStringSubmatch(list+"\n", -1) {
		names = append(names, found[1])
	}
	return names
}

func TestHelp(t *testing.T) {
	t.Parallel()
	golden(t, "help.txt", helps(t))
}

// The README's table names every command.
func TestReadme_namesEveryCommand(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	require.NoError(t, err)
	table, _, _ := strings.Cut(string(readme), "| exit code |")
	for _, found := range regexp.MustCompile(`(?m)^\$ fanonce (.+) --help$`).FindAllStringSubmatch(helps(t), -1) {
		words := strings.Fields(found[1])
		require.Regexp(t, "`("+words[0]+" )?"+words[len(words)-1]+"[ `]", table)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, fanonce(t, "completion", shell).requireCode(t, 0).stdout, "fanonce", shell)
	}
	r := fanonce(t, "__complete", "key", "derive", "--encoding", "").requireCode(t, 0)
	require.Contains(t, r.stdout, "base64url22")
	require.Contains(t, fanonce(t, "__complete", "migrate", "up", "--component", "").stdout, "sagas")
}

// Tab suggests IDs, routes and names from the database. It suggests nothing, and says nothing, where there is none.
func TestCompletion_ofDatabase(t *testing.T) {
	t.Parallel()
	url := database(t)
	keys, sagas := unknownKeys(t, url, "k-1", "k-2"), stuckSagas(t, url, "s-1")
	execute(t, url, "create schema tenant", "create table tenant.saga_version ()")
	for _, tt := range []struct {
		args      string // and an empty word
		want, not string
	}{
		{"keys show", keys[0] + "\tunknown shop:charge ", sagas[0]},
		{"keys show " + keys[0], "", keys[1]},
		{"keys resolve " + keys[0], keys[1], keys[0] + "\t"},
		{"keys forget", keys[1], ""},
		{"keys list --route", "shop:charge", ""},
		{"saga show", sagas[0] + "\tstuck fragile ", keys[0]},
		{"saga retry", sagas[0], ""},
		{"migrate status --schema", "tenant", ""},
		{"doctor --role", "postgres", "pg_"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"__complete"}, strings.Fields(tt.args)...), "")
			r := on(t, url, args...).requireCode(t, 0)
			require.Contains(t, r.stdout, tt.want)
			if tt.not != "" {
				require.NotContains(t, r.stdout, tt.not)
			}
			for _, nowhere := range []string{"", "postgres://ann:secret@127.0.0.1:1/orders?connect_timeout=2", "?"} {
				require.Equal(t, ":4\n", on(t, nowhere, args...).requireCode(t, 0).stdout[:3])
			}
		})
	}
}
