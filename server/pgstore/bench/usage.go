package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// tick is the unit of Linux' /proc, 1/sysconf(_SC_CLK_TCK), on all its machines.
const tick = 10 * time.Millisecond

// A usage is processor time since the machine was started.
type usage struct {
	self time.Duration // of this process
	ours time.Duration // of it and of all that it started, servers included
	busy time.Duration // of everybody
	all  time.Duration // busy and idle, of all processors

	reading time.Duration // what it took this process to find out
}

// since leaves out what the reading before took.
func (u usage) since(before usage) usage {
	self, ours := u.self-before.self-before.reading, u.ours-before.ours-before.reading
	return usage{self: self, ours: max(0, ours), busy: u.busy - before.busy, all: u.all - before.all}
}

// others is the part of the machine that programs took which are not ours, in percent.
func (u usage) others() float64 {
	if u.all == 0 {
		return 0
	}
	return max(0, 100*float64(u.busy-u.ours)/float64(u.all))
}

func readUsage() (u usage, err error) {
	if u.self, err = selfTime(); err != nil {
		return u, err
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return u, fmt.Errorf("bench: this needs the /proc of Linux: %w", err)
	}
	if u.busy, u.all, err = parseMachine(string(text)); err != nil {
		return u, err
	}
	processes, err := readProcesses()
	if err != nil {
		return u, err
	}
	u.ours = processes.tree(os.Getpid())
	after, err := selfTime()
	u.reading = after - u.self
	return u, err
}

// selfTime is what this process has used, without its children that ended.
func selfTime() (time.Duration, error) {
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		return 0, err
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano()), nil
}

// parseMachine reads the first line of proc(5)'s stat: user, nice, system, idle,
// iowait, irq, softirq, steal.
func parseMachine(text string) (busy, all time.Duration, err error) {
	line, _, _ := strings.Cut(text, "\n")
	fields := strings.Fields(line)
	if len(fields) < 9 || fields[0] != "cpu" {
		return 0, 0, fmt.Errorf("bench: /proc/stat: %q", line)
	}
	for i, field := range fields[1:9] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0, 0, fmt.Errorf("bench: /proc/stat: %w", err)
		}
		all += time.Duration(n) * tick
		if i != 3 && i != 4 {
			busy += time.Duration(n) * tick
		}
	}
	return busy, all, nil
}

// processes are those of the machine, by id.
type processes map[int]process

type process struct {
	parent int
	// used is what it has used itself, and what its children had used that ended.
	used time.Duration
}

func readProcesses() (processes, error) {
	files, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, err
	}
	all := make(processes, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended since
		}
		pid, p, err := parseProcess(string(text))
		if err != nil {
			return nil, fmt.Errorf("bench: %s: %w", file, err)
		}
		all[pid] = p
	}
	return all, nil
}

// parseProcess reads proc(5)'s pid/stat: the name in parentheses may hold anything,
// ppid is field 4, utime, stime, cutime and cstime are 14 to 17.
func parseProcess(text string) (pid int, p process, err error) {
	before, _, _ := strings.Cut(text, " ")
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 15 {
		return 0, p, fmt.Errorf("%q", text)
	}
	numbers := make([]int, 0, 6)
	for _, field := range append([]string{before, fields[1]}, fields[11:15]...) {
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, p, err
		}
		numbers = append(numbers, n)
	}
	ticks := numbers[2] + numbers[3] + numbers[4] + numbers[5]
	return numbers[0], process{parent: numbers[1], used: time.Duration(ticks) * tick}, nil
}

// tree returns what root and its descendants have used.
func (p processes) tree(root int) time.Duration {
	used := p[root].used
	for pid, child := range p {
		if child.parent == root && pid != root {
			used += p.tree(pid)
		}
	}
	return used
}

// load returns the machine's load average of the last minute; 0 where there is none.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(text), " ")
	n, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return n
}
