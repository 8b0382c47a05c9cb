package main

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/fanonce/fanonce/server/redisstore/redistest"
)

// synced is how long ago the file was written to the disk at last, at worst: everysec writes it once in a second.
const synced = time.Second

// power is a server that loses its power: SIGKILL leaves the page cache to the kernel, so the append-only file is cut
// to the length that it had one second before.
type power struct {
	server *redistest.Server

	mu      sync.Mutex
	lengths []length
	ended   chan struct{}
}

// A length is that of the append-only file at a time.
type length struct {
	at    time.Time
	file  string
	bytes int64
}

func startPower(s setting) (system, error) {
	server, err := redistest.New(s.options...)
	if err != nil {
		return nil, err
	}
	p := &power{server: server, ended: make(chan struct{})}
	go p.watch()
	return p, nil
}

func (p *power) addrs() []string { return []string{p.server.Addr()} }

func (p *power) stop() error {
	close(p.ended)
	return p.server.Stop()
}

// watch notes the length of the file.
func (p *power) watch() {
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-p.ended:
			return
		case now := <-ticker.C:
			if file, n, err := appendOnly(p.server.Dir()); err == nil {
				p.mu.Lock()
				p.lengths = append(p.lengths, length{now, file, n})
				p.mu.Unlock()
			}
		}
	}
}

// appendOnly returns the file to which the server appends, and its length.
func appendOnly(dir string) (file string, bytes int64, err error) {
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, ".aof") || strings.Contains(path, ".base.") {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			file, bytes = path, info.Size()
		}
		return err
	})
	if err == nil && file == "" {
		err = errors.New("no append-only file")
	}
	return file, bytes, err
}

func (p *power) fault(context.Context, *load) error {
	if err := p.server.Kill(); err != nil {
		return err
	}
	file, now, err := appendOnly(p.server.Dir())
	if err != nil {
		return err
	}
	p.mu.Lock()
	cut, end := int64(0), time.Now().Add(-synced)
	for _, l := range p.lengths {
		if l.file == file && l.at.Before(end) {
			cut = l.bytes
		}
	}
	p.lengths = nil
	p.mu.Unlock()
	if err := os.Truncate(file, min(cut, now)); err != nil {
		return err
	}
	return p.server.Restart()
}
