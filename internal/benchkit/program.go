package benchkit

import (
	"context"
	"flag"
	"fmt"
	"io"
	"regexp"
	"slices"
)

// Options are the flags of a benchmark program, parsed and checked.
type Options struct {
	Only  *regexp.Regexp // the names of the benches to run
	Short bool           // a little of everything, and judge nothing
	JSON  bool
}

// ParseOptions parses the flags of a program whose benches have the names. The function more
// defines further flags; nil means none.
func ParseOptions(args, names []string, stderr io.Writer, more func(*flag.FlagSet)) (o Options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(stderr)
	only := flags.String("run", "", fmt.Sprintf("a regular expression that names what to run, such as '%s|%s' (default: all)", names[0], names[1]))
	flags.BoolVar(&o.Short, "short", false, "do a little of everything, and judge nothing")
	flags.BoolVar(&o.JSON, "json", false, "print JSON instead of Markdown")
	if more != nil {
		more(flags)
	}
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("bench: %q is not a flag", flags.Arg(0))
	}
	if o.Only, err = regexp.Compile(*only); err != nil {
		return o, fmt.Errorf("bench: -run: %w", err)
	}
	if !slices.ContainsFunc(names, o.Only.MatchString) {
		return o, fmt.Errorf("bench: -run: nothing matches %q", *only)
	}
	return o, nil
}

// A Bench answers one question. E is how much is measured.
type Bench[E any] struct {
	Name  string // as -run matches it
	Title string
	// Conditions are what a reader has to know to believe the figures.
	Conditions func(amount E) string
	// Measure notes the servers that it starts in the machine.
	Measure func(ctx context.Context, amount E, on *Machine) ([]Figure, error)
}

// A Program measures its benches one after the other.
type Program[E any] struct {
	Benches     []Bench[E] // at least two
	Full, Brief E          // without -short, and with it
}

// Run is the program without the process around it. It returns the exit code.
func (p Program[E]) Run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var names []string
	for _, b := range p.Benches {
		names = append(names, b.Name)
	}
	opts, err := ParseOptions(args, names, stderr, nil)
	if err != nil {
		return BadFlags(err, stderr)
	}
	r, err := p.measure(ctx, opts, stderr)
	return r.Finish(err, stdout, stderr, opts.JSON)
}

func (p Program[E]) measure(ctx context.Context, opts Options, progress io.Writer) (Report, error) {
	amount := p.Full
	if opts.Short {
		amount = p.Brief
	}
	r := Report{Machine: ThisMachine(), Judged: !opts.Short}
	for _, b := range p.Benches {
		if !opts.Only.MatchString(b.Name) {
			continue
		}
		_, _ = fmt.Fprintln(progress, "bench:", b.Name, b.Title)
		figures, err := b.Measure(ctx, amount, &r.Machine)
		if err == nil {
			err = context.Cause(ctx) // figures of runs that were cut short are none
		}
		if err != nil {
			return r, fmt.Errorf("%s: %w", b.Name, err)
		}
		r.Add(Section{Name: b.Name, Title: b.Title, Conditions: b.Conditions(amount), Figures: figures})
	}
	return r, nil
}
