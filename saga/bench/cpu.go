package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5" //nolint:depguard // a program that measures, and nobody's caller
)

// cpuTime is processor time. Unlike rates it hardly depends on what else the machine
// does. Both are zero where the system does not show it as Linux does.
type cpuTime struct {
	client time.Duration // of this process
	server time.Duration // of the server's processes for one database
}

// cpu returns what was used so far, with the precision of the kernel's clock
// tick.
func (c *cluster) cpu(ctx context.Context, database string) (cpuTime, error) {
	var used cpuTime
	rows, err := c.look.Query(ctx, "select pid from pg_stat_activity where datname = $1", database)
	if err != nil {
		return used, err
	}
	pids, err := pgx.CollectRows(rows, pgx.RowTo[int])
	if err != nil {
		return used, err
	}
	for _, pid := range pids {
		of, err := processorTime(strconv.Itoa(pid))
		if err != nil {
			return used, err
		}
		used.server += of
	}
	used.client, err = processorTime("self")
	return used, err
}

// tick is the unit of Linux' /proc, 1/sysconf(_SC_CLK_TCK), on all its machines.
const tick = 10 * time.Millisecond

// processorTime returns the user and system time of a process; 0 if it is gone.
func processorTime(pid string) (time.Duration, error) {
	name := "/proc/" + pid + "/stat"
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return parseStat(name, string(text))
}

// parseStat reads proc(5): utime and stime are fields 14 and 15, and field 2 is a
// name in parentheses that may hold anything.
func parseStat(name, text string) (time.Duration, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("bench: %s: %q", name, text)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: %s: %w", name, err)
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("bench: %s: %w", name, err)
	}
	return time.Duration(user+system) * tick, nil
}
