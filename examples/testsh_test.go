package examples_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A stage is a tree with test.sh in it, and a PATH on which only stubs and a few tools of the system are.
type stage struct {
	root, bin, log string
	shell          []string
	env            []string
}

// stubs are the programs that test.sh calls for their effect. Each writes down what it was called with. apt-get
// installs what lies in the folder apt.
var stubs = map[string]string{
	"go": `#!/bin/sh
case "$*" in
"env CC") echo stubcc ;;
"env CGO_ENABLED") echo 1 ;;
*) echo "go in ${PWD#"$STAGE"/root}: $*" >>"$STAGE/log" && exit "${STUB_GO_STATUS:-0}" ;;
esac
`,
	"stubcc": "#!/bin/sh\n",
	"id":     "#!/bin/sh\necho 1000\n", // test.sh changes a system as root, which this test may be
	"sudo": `#!/bin/sh
case "$*" in
*"apt-get install"*) eval "last=\${$#}" && echo "sudo apt-get install $last" >>"$STAGE/log" && mv "$STAGE/apt/$last" "$STAGE/bin/$last" ;;
tee*) cat >/dev/null ;;
esac
`,
	"apt-get": "#!/bin/sh\nexit 100\n", // nobody calls it but sudo
}

// sbin are the folders that test.sh adds to PATH. A stage has none of them.
const sbin = "PATH=$PATH:/usr/local/sbin:/usr/sbin:/opt/homebrew/sbin\n"

func newStage(t *testing.T, shell ...string) *stage {
	t.Helper()
	dir := t.TempDir()
	s := &stage{root: filepath.Join(dir, "root"), bin: filepath.Join(dir, "bin"), log: filepath.Join(dir, "log"), shell: shell}
	text, err := os.ReadFile("../test.sh")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(text, []byte(sbin)) {
		t.Fatalf("test.sh has no line %q, which a stage has to take out", sbin)
	}
	s.write(t, filepath.Join(s.root, "test.sh"), strings.Replace(string(text), sbin, "", 1))
	s.write(t, filepath.Join(s.root, "nested/go.mod"), "module nested\n")
	for name, script := range stubs {
		s.write(t, filepath.Join(s.bin, name), script)
	}
	for _, name := range []string{"sh", "dirname", "find", "sort", "cat", "env", "nproc", "mv"} {
		if file, err := exec.LookPath(name); err == nil { // macOS has no nproc
			if err := os.Symlink(file, filepath.Join(s.bin, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.env = []string{"PATH=" + s.bin, "STAGE=" + dir, "DATABASE_URL=postgres://stub"}
	return s
}

func (s *stage) write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o700); err != nil { //nolint:gosec // it is run
		t.Fatal(err)
	}
}

// put puts programs on PATH.
func (s *stage) put(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		s.write(t, filepath.Join(s.bin, name), "#!/bin/sh\n")
	}
}

// run runs test.sh, and returns its exit status, what it printed, and the calls of the stubs.
func (s *stage) run(t *testing.T, env ...string) (status int, said, calls string) {
	t.Helper()
	args := append(slices.Clone(s.shell), filepath.Join(s.root, "test.sh"), "-run", "Some Test")
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Env = append(slices.Clone(s.env), env...)
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); errors.As(err, &exit) {
		status = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	log, err := os.ReadFile(s.log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return status, string(out), string(log)
}

// shells are those that a test.sh may meet as sh. macOS has bash.
func shells(t *testing.T) [][]string {
	t.Helper()
	found := [][]string{{"/bin/sh"}}
	for _, shell := range [][]string{{"dash"}, {"bash", "--posix"}, {"busybox", "sh"}} {
		if file, err := exec.LookPath(shell[0]); err == nil {
			found = append(found, append([]string{file}, shell[1:]...))
		}
	}
	return found
}

// An optionalProgram is a line of test.sh's table.
type optionalProgram struct{ command, variable, debian, homebrew, parts string }

func optionalPrograms(t *testing.T) []optionalProgram {
	t.Helper()
	text, err := os.ReadFile("../test.sh")
	if err != nil {
		t.Fatal(err)
	}
	table := regexp.MustCompile(`(?s)\noptional\(\) \{\n\tcat <<-'END'\n(.*?)\n\tEND\n`).FindSubmatch(text)
	if table == nil {
		t.Fatal("test.sh has no table of optional programs")
	}
	var programs []optionalProgram
	for line := range strings.Lines(string(table[1])) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			t.Fatalf("test.sh: %q has fewer than five columns", line)
		}
		programs = append(programs, optionalProgram{fields[0], fields[1], fields[2], fields[3], strings.Join(fields[4:], " ")})
	}
	return programs
}

// everything begins the log of a run in which nothing was left out.
const everything = "test -race -timeout=30m -shuffle=on -parallel"

func checkAllModulesRan(t *testing.T, calls string) {
	t.Helper()
	for _, module := range []string{"go in : " + everything, "go in /nested: " + everything} {
		if !strings.Contains(calls, module) {
			t.Errorf("calls = %q, want %q in them", calls, module)
		}
	}
	if strings.Count(calls, "-run Some Test") != 2 {
		t.Errorf("calls = %q, want the flags of go test in both", calls)
	}
}

// Without the optional programs the rest runs, and the end names what did not. Only CI fails for it.
func TestTestSh_withoutPrograms(t *testing.T) {
	t.Parallel()
	programs := optionalPrograms(t)
	for _, shell := range shells(t) {
		for _, tt := range []struct {
			name, ci, goStatus string
			want               int
		}{{"by hand", "", "0", 0}, {"CI", "true", "0", 1}, {"failing", "", "1", 1}, {"failing in CI", "1", "1", 1}} {
			t.Run(fmt.Sprint(shell, " ", tt.name), func(t *testing.T) {
				t.Parallel()
				status, said, calls := newStage(t, shell...).run(t, "CI="+tt.ci, "STUB_GO_STATUS="+tt.goStatus)
				if status != tt.want {
					t.Errorf("exit status = %d, want %d; it said %q", status, tt.want, said)
				}
				if tt.goStatus == "0" {
					checkAllModulesRan(t, calls)
				}
				_, end, found := strings.Cut(said, "test.sh: these parts did not run:\n")
				if !found {
					t.Fatalf("it said %q, want the parts that did not run", said)
				}
				for _, p := range programs {
					for _, want := range []string{
						"\n  " + p.parts + "\n", "no " + p.command + ", and apt-get install " + p.debian + " did not work",
						"to run them: apt-get install " + p.debian + ", or brew install " + p.homebrew,
					} {
						if !strings.Contains("\n"+end, want) {
							t.Errorf("it ended with %q, want %q in it", end, want)
						}
					}
					if p.variable != "-" && !strings.Contains(end, "set "+p.variable) {
						t.Errorf("it ended with %q, want the variable %s in it", end, p.variable)
					}
				}
				if got := strings.Contains(end, "in CI nothing may be left out"); got != (tt.ci != "" && tt.goStatus == "0") {
					t.Errorf("it ended with %q: CI named = %v", end, got)
				}
			})
		}
	}
}

// What a person can do depends on what the machine has.
func TestTestSh_saysWhy(t *testing.T) {
	t.Parallel()
	for program, want := range map[string]string{
		"apt-get": "there is no apt-get to install it", "sudo": "there is neither root nor sudo to install it",
	} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "/bin/sh")
			if err := os.Remove(filepath.Join(s.bin, program)); err != nil {
				t.Fatal(err)
			}
			status, said, calls := s.run(t)
			if status != 0 || strings.Count(said, want) != len(optionalPrograms(t)) {
				t.Errorf("exit status = %d, it said %q; want 0, and %q for each program", status, said, want)
			}
			checkAllModulesRan(t, calls)
		})
	}
}

// A program is found on PATH, by its variable, or is installed. Then nothing is left out.
func TestTestSh_withPrograms(t *testing.T) {
	t.Parallel()
	programs := optionalPrograms(t)
	for name, prepare := range map[string]func(*stage){
		"on PATH": func(s *stage) {
			for _, p := range programs {
				s.put(t, p.command)
			}
		},
		"by variable": func(s *stage) {
			for _, p := range programs {
				if p.variable == "-" {
					s.put(t, p.command)
				} else {
					s.env = append(s.env, p.variable+"=/nowhere")
				}
			}
		},
		"installed": func(s *stage) {
			for _, p := range programs {
				if p.command != p.debian {
					s.put(t, p.command) // the stub of sudo knows no package with another name than its program's
				} else {
					s.write(t, filepath.Join(filepath.Dir(s.bin), "apt", p.debian), "#!/bin/sh\n")
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, "/bin/sh")
			prepare(s)
			status, said, calls := s.run(t, "CI=true")
			if status != 0 || strings.Contains(said, "did not run") {
				t.Errorf("exit status = %d, it said %q; want 0, and nothing left out", status, said)
			}
			if name == "installed" && !strings.Contains(calls, "sudo apt-get install pgbouncer\n") {
				t.Errorf("calls = %q, want the installation of pgbouncer", calls)
			}
			checkAllModulesRan(t, calls)
		})
	}
}

// A package that does not bring the command leaves its part out.
func TestTestSh_packageWithoutProgram(t *testing.T) {
	t.Parallel()
	s := newStage(t, "/bin/sh")
	s.write(t, filepath.Join(filepath.Dir(s.bin), "apt", "prometheus"), "#!/bin/sh\n")
	status, said, _ := s.run(t)
	if want := "no promtool, and prometheus is installed, but promtool is not on PATH"; status != 0 || !strings.Contains(said, want) {
		t.Errorf("exit status = %d, it said %q; want 0, and %q", status, said, want)
	}
}

// Without Postgres nothing runs, unless somebody's machine has one where no stage can hide it.
func TestTestSh_withoutPostgres(t *testing.T) {
	t.Parallel()
	s := newStage(t, "/bin/sh")
	text, err := os.ReadFile(filepath.Join(s.root, "test.sh"))
	if err != nil {
		t.Fatal(err)
	}
	hidden := regexp.MustCompile(`/(usr|opt)/\S*/initdb`).ReplaceAllString(string(text), "/nowhere/initdb")
	s.write(t, filepath.Join(s.root, "test.sh"), hidden)
	status, said, calls := s.run(t, "DATABASE_URL=")
	if want := "no Postgres, and apt-get install postgresql did not work"; status != 1 || !strings.Contains(said, want) {
		t.Errorf("exit status = %d, it said %q; want 1, and %q", status, said, want)
	}
	if strings.Contains(calls, "go in") || strings.Contains(said, "these parts") {
		t.Errorf("it ran %q and said %q, want it to end before", calls, said)
	}
}

// Every sh can read it.
func TestTestSh_syntax(t *testing.T) {
	t.Parallel()
	for _, shell := range shells(t) {
		args := append(slices.Clone(shell), "-n", "../test.sh")
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}
