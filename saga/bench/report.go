package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// A report is all that was measured.
type report struct {
	Machine  machine   `json:"machine"`
	Judged   bool      `json:"judged"`
	Sections []section `json:"benches"`
}

// A machine is where it was measured.
type machine struct {
	Go       string `json:"go"`
	OS       string `json:"os"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Postgres string `json:"postgres"` // "": none was started
}

// A section is one bench's part of the report.
type section struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Conditions string   `json:"conditions"`
	Figures    []figure `json:"figures"`
}

func newSection(b bench, amount effort, figures []figure, judged bool) section {
	if judged {
		for i := range figures {
			figures[i].judge()
		}
	}
	return section{Name: b.name, Title: b.title, Conditions: b.conditions(amount), Figures: figures}
}

// short reports whether a figure falls short of its goals.
func (r *report) short() bool {
	return slices.ContainsFunc(r.Sections, func(s section) bool {
		return slices.ContainsFunc(s.Figures, func(f figure) bool { return f.Verdict == tooShort })
	})
}

func (r *report) write(w io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	_, err := io.WriteString(w, r.markdown())
	return err
}

func (r *report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d cores, %s, Postgres %s\n", r.Machine.Go, r.Machine.OS, r.Machine.Cores, r.Machine.CPU, r.Machine.Postgres)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s %s\n\n%s\n\n", s.Name, s.Title, s.Conditions)
		b.WriteString("| figure | value | goal | verdict |\n| --- | --- | --- | --- |\n")
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Name, f.values(), f.goals(), f.Verdict)
		}
	}
	return b.String()
}

func thisMachine() machine {
	return machine{Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpu(), Cores: runtime.GOMAXPROCS(0)}
}

// cpu returns the processor's name where the system has it in a file.
func cpu() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown CPU"
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown CPU"
}
