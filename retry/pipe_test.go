package retry_test

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// pipeServer serves handler over in-memory connections, which a synctest bubble
// allows, by HTTP/1.1 or HTTP/2; stop ends its goroutines.
func pipeServer(h2 bool, handler http.HandlerFunc) (tr *http.Transport, stop func()) {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!h2)
	protocols.SetUnencryptedHTTP2(h2)
	listener := &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
	srv := &http.Server{Handler: handler, Protocols: protocols, ErrorLog: discardLog}
	var serving sync.WaitGroup
	serving.Go(func() { srv.Serve(listener) })
	tr = &http.Transport{Protocols: protocols, DialContext: listener.dial}
	return tr, func() {
		tr.CloseIdleConnections()
		srv.Close()
		serving.Wait()
	}
}

type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (l *pipeListener) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error { l.once.Do(func() { close(l.closed) }); return nil }

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }
