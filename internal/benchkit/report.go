package benchkit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
)

// A Report is all that was measured.
type Report struct {
	Machine  Machine   `json:"machine"`
	Judged   bool      `json:"judged"`
	Rounds   string    `json:"rounds,omitempty"` // how long each variant was measured
	Sections []Section `json:"benches"`
	// LeftOut names the figures that could not be measured here.
	LeftOut []string `json:"left_out,omitempty"`
}

// A Machine is the place of a measurement.
type Machine struct {
	Go       string `json:"go"`
	OS       string `json:"os"`
	CPU      string `json:"cpu"`
	Cores    int    `json:"cores"`
	Postgres string `json:"postgres,omitempty"` // "": none was started
	Redis    string `json:"redis,omitempty"`    // the same
}

// A Section is one benchmark's part of the report.
type Section struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Conditions string   `json:"conditions"`
	Figures    []Figure `json:"figures"`
	// Others is the percentage of the machine's processor time that programs took which this one did not start.
	Others float64 `json:"others,omitempty"`
	// Load is the machine's load average of the last minute at its end; 0 if it was not read.
	Load float64 `json:"load,omitempty"`
}

// Add adds the section, with the figures judged if the report judges, and returns it.
func (r *Report) Add(s Section) *Section {
	if r.Judged {
		for i := range s.Figures {
			s.Figures[i].Judge()
		}
	}
	r.Sections = append(r.Sections, s)
	return &r.Sections[len(r.Sections)-1]
}

// Short reports whether a figure falls short of its goals, or is missing in a report that judges.
func (r *Report) Short() bool {
	if r.Judged && len(r.LeftOut) > 0 {
		return true
	}
	return slices.ContainsFunc(r.Sections, func(s Section) bool {
		return slices.ContainsFunc(s.Figures, func(f Figure) bool { return f.Verdict == TooShort })
	})
}

// Write writes the report as JSON or as Markdown.
func (r *Report) Write(w io.Writer, asJSON bool) error {
	if asJSON {
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(r)
	}
	_, err := io.WriteString(w, r.markdown())
	return err
}

func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d cores, %s", r.Machine.Go, r.Machine.OS, r.Machine.Cores, r.Machine.CPU)
	if r.Machine.Postgres != "" {
		b.WriteString(", Postgres " + r.Machine.Postgres)
	}
	if r.Machine.Redis != "" {
		b.WriteString(", Redis " + r.Machine.Redis)
	}
	b.WriteString("\n")
	if r.Rounds != "" {
		b.WriteString("\n" + r.Rounds + "\n")
	}
	for _, s := range r.Sections {
		s.markdown(&b)
	}
	for _, missing := range r.LeftOut {
		fmt.Fprintf(&b, "\nLeft out: %s\n", missing)
	}
	return b.String()
}

func (s *Section) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s: %s\n\n%s", s.Name, s.Title, s.Conditions)
	if s.Load != 0 {
		fmt.Fprintf(b, " Others took %.0f %% of the machine; load %.1f.", s.Others, s.Load)
	}
	b.WriteString("\n\n| figure | value | goal | verdict | prototype |\n| --- | --- | --- | --- | --- |\n")
	for _, f := range s.Figures {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s |\n", f.Name, f.Values(), f.goals(), f.Verdict, f.Prototype)
	}
}

// ThisMachine returns the machine of this process, without the servers.
func ThisMachine() Machine {
	return Machine{Go: runtime.Version(), OS: runtime.GOOS + "/" + runtime.GOARCH, CPU: cpu(), Cores: runtime.GOMAXPROCS(0)}
}

// cpu returns the processor's name where the system has it in a file.
func cpu() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // without the file there is no line
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return cmp.Or(strings.TrimSpace(value), "unknown CPU")
		}
	}
	return "unknown CPU"
}
