package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"
)

const (
	readTimeout  = 30 * time.Second
	idleTimeout  = 2 * time.Minute
	stopTimeout  = 10 * time.Second
	headerBytes  = 64 << 10
	answerBeyond = 30 * time.Second // what an answer may take beyond one statement
)

// A site is a server of a gate, and its address.
type site struct {
	gate     *gate
	listener net.Listener
	base     string // as "http://localhost:7070"
	server   *http.Server
}

// newSite listens. Then the port is known, and no other process has it.
func (a *app) newSite(ctx context.Context, address string, g *gate) (*site, error) {
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--listen: %w", err)
	}
	port := fmt.Sprint(listener.Addr().(*net.TCPAddr).Port) //nolint:errcheck // a TCP listener has such an address
	// Browsers send a cookie to all ports of a host.
	g.cookie = "fanonce_console_" + port
	host, _, _ := net.SplitHostPort(address)
	s := &site{gate: g, listener: listener, base: "http://" + net.JoinHostPort(host, port)}
	logger := slog.New(slog.NewTextHandler(a.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	s.server = &http.Server{
		Handler: http.NewCrossOriginProtection().Handler(g), ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout,
		WriteTimeout: a.timeout + answerBeyond, IdleTimeout: idleTimeout, MaxHeaderBytes: headerBytes,
		// Errors of the network are no news: only panics are worth a line.
		ErrorLog: slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// entrance is where a person begins.
func (s *site) entrance() string {
	s.gate.mu.Lock()
	defer s.gate.mu.Unlock()
	return s.tokenURL(s.gate.token)
}

func (s *site) tokenURL(token string) string {
	return s.base + loginPath + "?token=" + url.QueryEscape(token)
}

// serve answers requests until ctx ends. It then lets the running ones end.
func (s *site) serve(ctx context.Context) error {
	failed := make(chan error, 1)
	go func() { failed <- s.server.Serve(s.listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
	defer cancel()
	err := s.server.Shutdown(ctx)
	if err != nil {
		err = errors.Join(errors.New("some requests did not end in time"), s.server.Close())
	}
	<-failed
	return err
}
