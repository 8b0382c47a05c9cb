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
