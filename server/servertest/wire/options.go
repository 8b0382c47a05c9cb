package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
)

// options are the command line, parsed.
type options struct {
	target  *target
	run     *regexp.Regexp
	skip    *regexp.Regexp // nil: none
	json    bool
	verbose bool
	strict  bool
	list    bool
}

var errUsage = errors.New("bad usage")

// parse reads the command line. Its error wraps errUsage or flag.ErrHelp.
func parse(args []string, stderr io.Writer) (options, error) {
	opts := options{target: new(target)}
	var text texts
	set := flag.NewFlagSet("wire", flag.ContinueOnError)
	set.SetOutput(stderr)
	opts.target.flags(set)
	opts.flags(set, &text)
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return options{}, err
		}
		return options{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	if set.NArg() > 0 {
		return options{}, fmt.Errorf("%w: unexpected argument %q", errUsage, set.Arg(0))
	}
	var err error
	if opts.run, err = regexp.Compile(text.run); err != nil {
		return options{}, fmt.Errorf("%w: -run: %w", errUsage, err)
	}
	if text.skip != "" {
		if opts.skip, err = regexp.Compile(text.skip); err != nil {
			return options{}, fmt.Errorf("%w: -skip: %w", errUsage, err)
		}
	}
	if opts.list {
		return opts, nil
	}
	t := opts.target
	return opts, errors.Join(headerLine("-auth", text.auth, &t.auth), headerLine("-other-auth", text.otherAuth, &t.otherAuth), t.check())
}

// flags are those that describe the service.
func (t *target) flags(set *flag.FlagSet) {
	set.StringVar(&t.url, "url", "", "base `URL` of the service; required")
	set.StringVar(&t.path, "path", "/work", "`path` of a guarded route that takes POST, and works in a transaction or under child keys")
	set.StringVar(&t.method, "other-method", "", "another guarded `method` of -path, such as PUT")
	set.StringVar(&t.otherPath, "other-path", "", "`path` of another guarded route")
	set.StringVar(&t.body, "body", `{}`, "`body` that succeeds with a 2xx")
	set.StringVar(&t.other, "other-body", "", "another valid `body`; empty: the one of -refused, or -body with a space behind it")
	set.StringVar(&t.refused, "refused", "", "`body` that the handler refuses with a 4xx that is stored")
	set.StringVar(&t.failing, "failing", "", "`body` that the handler answers with a 5xx")
	set.StringVar(&t.slow, "slow", "", "`body` that succeeds after 300 ms to 4 s")
	set.StringVar(&t.undo, "undo", "", "`path` of a guarded route that undoes -path, by Idempotency-Cancels")
	set.StringVar(&t.undoBody, "undo-body", "", "`body` of an undo; empty: that of -body")
	set.StringVar(&t.opaque, "opaque", "", "`path` of a guarded route whose effects the store cannot see")
	set.StringVar(&t.contentType, "content-type", "application/json", "Content-Type of every body")
	set.BoolVar(&t.ownProblems, "own-problems", false, "the refusals have a shape of the service's own: check their headers alone")
	set.Int64Var(&t.maxBody, "max-body", 1<<20, "longest body in `bytes` that the service accepts")
}

// flags are those that say how it is checked.
func (o *options) flags(set *flag.FlagSet, text *texts) {
	set.StringVar(&text.auth, "auth", "", "`header` line of the caller, as 'Authorization: Bearer a'")
	set.StringVar(&text.otherAuth, "other-auth", "", "`header` line of another caller")
	set.StringVar(&text.run, "run", "", "run only the rows whose id matches this `regexp`")
	set.StringVar(&text.skip, "skip", "", "do not run the rows whose id matches this `regexp`")
	set.BoolVar(&o.json, "json", false, "print JSON")
	set.BoolVar(&o.verbose, "v", false, "print the rows that passed, too")
	set.BoolVar(&o.strict, "strict", false, "fail if a row is skipped")
	set.BoolVar(&o.list, "list", false, "print the rows and run none")
}

// texts are the flags that parse reads further.
type texts struct{ run, skip, auth, otherAuth string }

// headerLine parses NAME: VALUE; nothing if line is empty.
func headerLine(name, line string, to *[2]string) error {
	if line == "" {
		return nil
	}
	field, value, ok := strings.Cut(line, ":")
	if !ok || strings.TrimSpace(field) == "" || strings.TrimSpace(value) == "" {
		return fmt.Errorf("%w: %s: want NAME: VALUE", errUsage, name) // not the line: it is a credential
	}
	*to = [2]string{http.CanonicalHeaderKey(strings.TrimSpace(field)), strings.TrimSpace(value)}
	return nil
}

// check completes the target.
func (t *target) check() error {
	u, err := url.Parse(t.url)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%w: -url: want http://HOST or https://HOST", errUsage)
	}
	t.url = strings.TrimSuffix(t.url, "/")
	for name, path := range map[string]string{"-path": t.path, "-other-path": t.otherPath, "-undo": t.undo, "-opaque": t.opaque} {
		if path != "" && !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%w: %s: %q does not begin with a slash", errUsage, name, path)
		}
	}
	switch {
	case t.path == "":
		return fmt.Errorf("%w: -path is empty", errUsage)
	case t.body == "":
		return fmt.Errorf("%w: -body is empty", errUsage)
	case t.maxBody < int64(len(t.body)):
		return fmt.Errorf("%w: -max-body: %d is less than the length of -body", errUsage, t.maxBody)
	case t.auth != [2]string{} && t.auth == t.otherAuth:
		return fmt.Errorf("%w: -other-auth is the same caller as -auth", errUsage)
	case t.otherAuth != [2]string{} && t.auth == [2]string{}:
		return fmt.Errorf("%w: -other-auth without -auth", errUsage)
	case t.other == "" && t.refused != "":
		t.other = t.refused
	case t.other == "":
		t.other = t.body + " "
	}
	if t.undoBody == "" {
		t.undoBody = t.body
	}
	return nil
}
