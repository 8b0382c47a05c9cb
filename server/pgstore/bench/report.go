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
	Rounds   string    `json:"rounds"` // how long each variant was measured
	Sections []section `json:"benches"`
	// LeftOut names the figures that could not be measured here.
	LeftOut []string `json:"left_out,omitempty"`
}

// A machine is where it was measured.
type machine struct {
	Go       string `json:"go"`
	OS       string `json:"os"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Postgres string `json:"postgres"`        // "": none was started
	Redis    string `json:"redis,omitempty"` // the same
}

// A section is one bench's part of the report.
type section struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Conditions string   `json:"conditions"`
	Figures    []figure `json:"figures"`
	// Others is the part of the machine's processor time, in percent, that
	// programs took which this one did not start.
	Others float64 `json:"others"`
	// Load is the machine's load average of the last minute as it ended.
	Load float64 `json:"load"`
}

func newSection(b bench, figures []figure, judged bool) section {
	if judged {
		for i := range figures {
			figures[i].judge()
		}
	}
	return section{Name: b.name, Title: b.title, Conditions: b.conditions, Figures: figures}
}

// short reports whether a figure falls short of its goals, or is missing among
// those that were to be judged.
func (r *report) short() bool {
	if r.Judged && len(r.LeftOut) > 0 {
		return true
	}
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
	fmt.Fprintf(&b, "%s, %s, %d cores, %s, Postgres %s", r.Machine.Go, r.Machine.OS, r.Machine.Cores, r.Machine.CPU, r.Machine.Postgres)
	if r.Machine.Redis != "" {
		fmt.Fprintf(&b, ", Redis %s", r.Machine.Redis)
	}
	b.WriteString("\n")
	fmt.Fprintf(&b, "\n%s\n", r.Rounds)
	for _, s := range r.Sections {
		fmt.Fprintf(&b, "\n## %s: %s\n\n%s Others took %.0f %% of the machine; load %.1f.\n\n", s.Name, s.Title, s.Conditions, s.Others, s.Load)
		b.WriteString("| figure | value | goal | verdict | prototype |\n| --- | --- | --- | --- | --- |\n")
		for _, f := range s.Figures {
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", f.Name, f.values(), f.goals(), f.Verdict, f.Prototype)
		}
	}
	for _, missing := range r.LeftOut {
		fmt.Fprintf(&b, "\nLeft out: %s\n", missing)
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
