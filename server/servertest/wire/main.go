// Wire checks whether a service speaks the wire contract of package server. The service can
// be in any language. server/CONFORMANCE.md has the contract as rows, and what the service
// must offer to be checked:
//
//	go run github.com/fanonce/fanonce/server/servertest/wire -url http://localhost:8080 -path /v1/effect \
//		-body '{"fp":"a"}' -refused '{"fp":"a","reject":true}' -auth 'Authorization: Bearer t1'
//
// It sends requests with new keys, and knows of the service only its answers. The exit status
// is 0 if no row failed, 1 if one did, and 2 if the rows could not be run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
)

// The exit statuses.
const (
	statusPassed = 0
	statusFailed = 1
	statusUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	status := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(status)
}

// run is the command without its process. It returns the exit status.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusPassed
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "wire:", err)
		return statusUsage
	}
	picked := matching(rows(), opts.run, opts.skip)
	if len(picked) == 0 {
		_, _ = fmt.Fprintf(stderr, "wire: -run %q matches no row\n", opts.run)
		return statusUsage
	}
	if opts.list {
		return list(stdout, picked)
	}
	results := check(ctx, opts.target, picked)
	report := newReport(opts.target.url, results)
	if opts.json {
		err = report.writeJSON(stdout)
	} else {
		err = report.writeText(stdout, opts.verbose)
	}
	switch {
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "wire:", err)
		return statusUsage
	case ctx.Err() != nil:
		_, _ = fmt.Fprintln(stderr, "wire: interrupted")
		return statusUsage
	case report.Failed > 0 || opts.strict && report.Skipped > 0:
		return statusFailed
	case report.Passed == 0:
		_, _ = fmt.Fprintln(stderr, "wire: every row was skipped")
		return statusUsage
	}
	return statusPassed
}

// list prints the rows without running them.
func list(stdout io.Writer, picked []row) int {
	for _, r := range picked {
		_, _ = fmt.Fprintf(stdout, "%-26s %s\n", r.id, r.situation)
	}
	return statusPassed
}

// matching returns the rows whose id the pattern matches and skip, which may be nil, does not.
func matching(all []row, pattern, skip *regexp.Regexp) (picked []row) {
	for _, r := range all {
		if pattern.MatchString(r.id) && (skip == nil || !skip.MatchString(r.id)) {
			picked = append(picked, r)
		}
	}
	return picked
}
