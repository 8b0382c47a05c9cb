package main_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// Each command of ONCALL.md does what it is for, in the state that its section is about.
func TestOnCall_commands(t *testing.T) {
	t.Parallel()
	url := database(t)
	on(t, url, "migrate", "up", "--component", "reader").requireCode(t, 0)
	ids := map[string]string{
		"FanonceUnknown":     unknownKeys(t, url, "order-1")[0],
		"FanonceQuarantined": quarantinedKey(t, url, "order-2"),
		"FanonceDeadLetter":  deadLetter(t, url),
		"FanonceSagaStuck":   stuckOf(t, url, halfway, "saga-1")[0],
		"FanoncePendingOld":  unknownKeys(t, url, "order-3")[0],
	}
	inDoubt := stuckOf(t, url, doubtful, "saga-2")[0]
	guide, err := os.ReadFile("../../ONCALL.md")
	require.NoError(t, err)
	folder := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, "receipt.json"), []byte("{}"), 0o600))
	commands := 0
	for _, section := range strings.Split(string(guide), "\n## ") {
		heading, body, _ := strings.Cut(section, "\n")
		for _, block := range regexp.MustCompile("(?s)```(sh|sql)\n(.*?)```").FindAllStringSubmatch(body, -1) {
			if block[1] == "sql" {
				execute(t, url, strings.Split(strings.TrimSuffix(strings.TrimSpace(block[2]), ";"), ";")...)
				continue
			}
			for line := range strings.Lines(block[2]) {
				if command, ok := strings.CutPrefix(line, "fanonce "); ok {
					commands++
					id, step := ids[heading], "stock.hold"
					if strings.HasPrefix(command, "saga force-rejected") {
						id, step = inDoubt, "shipping.book"
					}
					requireWorks(t, url, folder, id, step, strings.TrimSpace(command))
				}
			}
		}
	}
	require.Greater(t, commands, 20)
}

// requireWorks runs a command by the shell, with the ID of a key or a saga, and a step of it. It changes nothing.
func requireWorks(t *testing.T, url, folder, id, step, command string) {
	t.Helper()
	verb := strings.Contains(command, "--reason")
	if verb {
		command += " --dry-run"
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", `"$FANONCE" `+command)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), "FANONCE="+binary, "USER=ann", "DATABASE_URL="+url, "ID="+id, "STEP="+step, "CHILD=c")
	out, err := cmd.CombinedOutput()
	if strings.HasPrefix(command, "status") || strings.HasPrefix(command, "doctor") { // something needs a person
		require.Equal(t, 1, cmd.ProcessState.ExitCode(), "%s: %s", command, out)
		return
	}
	require.NoError(t, err, "%s: %s", command, out)
	if verb {
		require.Contains(t, string(out), "of 1; nothing was changed", command)
	}
}
