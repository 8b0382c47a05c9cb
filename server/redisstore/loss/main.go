// Loss counts what Redis loses of what it acknowledged. Callers claim and complete keys of a redisstore while servers
// are killed, restarted and replaced. At the end every key is claimed once more: a claim that wins would be a second run.
//
//	go run ./loss                              every setting, 100,000 keys each: about ten minutes
//	go run ./loss -keys 10000 -setting cluster the settings whose name contains cluster
//
// It starts its own servers, and needs redis-server on PATH.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9/logging"
)

func main() {
	keys := flag.Int("keys", 100_000, "keys of each setting")
	rate := flag.Int("rate", 3000, "keys in a second")
	only := flag.String("setting", "", "only the settings whose name contains this")
	flag.Parse()
	logging.Disable()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *keys, *rate, *only); err != nil {
		fmt.Fprintln(os.Stderr, "loss:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, keys, rate int, only string) error {
	if keys < 1 || rate < 1 {
		return fmt.Errorf("-keys %d and -rate %d must be at least 1", keys, rate)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "setting\tkeys\tfaults\tclaims lost\tanswers lost\tsecond runs\tcalls refused or unknown\ttook")
	for _, s := range settings {
		if !strings.Contains(s.name, only) {
			continue
		}
		began := time.Now()
		r, err := measure(ctx, s, keys, rate)
		if err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%v\n", s.name, keys, r.faults, r.claims, r.answers, r.seconds, r.failed,
			time.Since(began).Round(time.Second))
		if err := table.Flush(); err != nil {
			return err
		}
	}
	return nil
}
