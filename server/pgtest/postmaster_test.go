package pgtest

import (
	"errors"
	"net"
	"syscall"
	"testing"
)

func TestPostmaster_seesThatItsPortIsTaken(t *testing.T) {
	t.Parallel()
	p, err := newPostmaster(t.Context(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.destroy(); err != nil {
			t.Error(err)
		}
	})
	if err := p.stop(syscall.SIGQUIT); err != nil {
		t.Fatal(err)
	}
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	addr, ok := taken.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("address = %v, want a TCP address", taken.Addr())
	}
	free := p.port
	p.port = addr.Port
	if err := p.start(t.Context()); !errors.Is(err, errPortTaken) {
		t.Fatalf("start on a taken port = %v, want %v", err, errPortTaken)
	}
	p.port = free
	if err := p.restart(t.Context()); err != nil {
		t.Fatalf("start on a free port = %v, want success", err)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	tests := []struct {
		path string
		want float64
	}{
		{"/usr/lib/postgresql/15/bin", 15},
		{"/usr/lib/postgresql/9.6/bin", 9.6},
		{"/opt/homebrew/opt/postgresql@17/bin", 17},
		{"/usr/libexec/postgresql", 0},
	}
	for _, tt := range tests {
		if got := version(tt.path); got != tt.want {
			t.Errorf("version(%q) = %v, want %v", tt.path, got, tt.want)
		}
	}
}
