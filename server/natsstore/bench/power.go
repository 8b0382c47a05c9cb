package main

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/fanonce/fanonce/server/natsstore/natstest"
)

// SIGKILL leaves the kernel's page cache, and a power failure does not. So strace watches which bytes of its message
// blocks a server has written, and which of them it has flushed (fsync). After a kill the others are cut off. The servers
// keep messages and the log of Raft in such blocks. Their other files stay: JetStream can rebuild the index, and writes
// terms and votes through the cache in any setting.

// disks are those of all servers. Nil disks lose nothing.
type disks struct{ tracers map[int]*tracer }

// add watches servers that were just started.
func (d *disks) add(tb natstest.TB, servers *natstest.Servers, numbers ...int) {
	if d == nil {
		return
	}
	for _, i := range numbers {
		d.tracers[i] = trace(tb, servers.Process(i))
	}
}

// cut cuts the unflushed bytes of server i off. The server was killed before. The result is the number of bytes.
func (d *disks) cut(tb natstest.TB, i int) (lost int64) {
	if d == nil {
		return 0
	}
	t := d.tracers[i]
	<-t.ended // strace ends with the server
	delete(d.tracers, i)
	for path, b := range t.blocks {
		info, err := os.Stat(path)
		if os.IsNotExist(err) { // the server had deleted it
			continue
		}
		if err == nil && info.Size() > b.flushed {
			lost += info.Size() - b.flushed
			err = os.Truncate(path, b.flushed)
		}
		if err != nil {
			tb.Fatalf("power: %v", err)
		}
	}
	return lost
}

// end stops watching.
func (d *disks) end() {
	if d == nil {
		return
	}
	for _, t := range d.tracers {
		_ = t.cmd.Process.Signal(os.Interrupt) // strace leaves the server as it is
		<-t.ended
	}
}

// A block is a file of messages: its length, and how much of it is flushed.
type block struct{ length, flushed int64 }

// A tracer watches one process.
type tracer struct {
	cmd    *exec.Cmd
	blocks map[string]*block // by path; to be read after ended
	ended  chan struct{}
}

// trace begins to watch a process, and returns when strace is attached.
func trace(tb natstest.TB, pid int) *tracer {
	cmd := exec.Command("strace", "-f", "-y", "-s", "0", "-e", "trace=pwrite64,fsync,fdatasync", "-p", strconv.Itoa(pid))
	out, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatalf("power: %v", err)
	}
	t := &tracer{cmd: cmd, blocks: make(map[string]*block), ended: make(chan struct{})}
	var once sync.Once
	attached := make(chan struct{})
	go func() {
		defer close(t.ended)
		t.read(out, func() { once.Do(func() { close(attached) }) })
		_ = cmd.Wait() // it ends by a signal, or as the server did
	}()
	select {
	case <-attached:
	case <-t.ended:
		tb.Fatalf("power: strace did not attach to %d", pid)
	}
	return t
}

// The lines of strace. A call that another thread interrupts has two: the first ends with "<unfinished ...>".
var (
	writeLine = regexp.MustCompile(`pwrite64\(\d+<([^>]+\.blk)>, [^,]*, (\d+), (\d+)`)
	flushLine = regexp.MustCompile(`^(?:\[pid +(\d+)\] )?f(?:data)?sync\(\d+<([^>]+\.blk)>(.*)`)
	doneLine  = regexp.MustCompile(`^(?:\[pid +(\d+)\] )?<\.\.\. f(?:data)?sync resumed>\) += 0`)
)

// read reads what strace says, until it ends.
func (t *tracer) read(out io.Reader, attached func()) {
	flushing := make(map[string]flush) // by thread
	for lines := bufio.NewScanner(out); lines.Scan(); {
		line := lines.Text()
		if strings.Contains(line, " attached") {
			attached()
		}
		if m := writeLine.FindStringSubmatch(line); m != nil {
			t.wrote(m[1], number(m[2]), number(m[3]))
		} else if m := flushLine.FindStringSubmatch(line); m != nil {
			f := t.flush(m[2])
			if strings.Contains(m[3], "unfinished") {
				flushing[m[1]] = f
			} else if strings.HasSuffix(m[3], "= 0") {
				f.done()
			}
		} else if m := doneLine.FindStringSubmatch(line); m != nil {
			flushing[m[1]].done()
			delete(flushing, m[1])
		}
	}
}

func number(digits string) int64 {
	n, _ := strconv.ParseInt(digits, 10, 64) // the expression matched digits
	return n
}

// wrote notes a write. Bytes before the first write were there when strace attached. They count as flushed.
func (t *tracer) wrote(path string, n, at int64) {
	b := t.blocks[path]
	if b == nil {
		b = &block{length: at, flushed: at}
		t.blocks[path] = b
	}
	b.length = max(b.length, at+n)
}

// A flush is a call that is running. It covers what was written before it.
type flush struct {
	block  *block // nil: nothing was written since strace attached
	length int64
}

func (t *tracer) flush(path string) flush {
	b := t.blocks[path]
	if b == nil {
		return flush{}
	}
	return flush{b, b.length}
}

func (f flush) done() {
	if f.block != nil {
		f.block.flushed = max(f.block.flushed, f.length)
	}
}
