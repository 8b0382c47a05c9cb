package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgxpool" //nolint:depguard // a program that measures, and nobody's caller

	"github.com/fanonce/fanonce/childkey/contract"
	"github.com/fanonce/fanonce/saga"
	"github.com/fanonce/fanonce/sdk"
)

// The operations of a callee that remembers keys, as CheckpointEdges needs.
var (
	first      = contract.Post[int, int]("callee", "first", "/first")
	second     = contract.Post[int, int]("callee", "second", "/second")
	third      = contract.Post[int, int]("callee", "third", "/third")
	undoFirst  = contract.Post[contract.Undo[int, int], struct{}]("callee", "undo-first", "/first/undo")
	undoSecond = contract.Post[contract.Undo[int, int], struct{}]("callee", "undo-second", "/second/undo")
	undoThird  = contract.Post[contract.Undo[int, int], struct{}]("callee", "undo-third", "/third/undo")
)

// callsSaga has calls of these operations as its steps.
var callsSaga = saga.MustDefine("calls", 1, func(b *saga.Builder[int, int]) {
	b.CheckpointEdges()
	one := saga.Step(b, first, b.Input()).Retention(remembered).Undo(undoFirst)
	two := saga.Step(b, second, one.Output()).Retention(remembered).Undo(undoSecond)
	three := saga.Step(b, third, two.Output()).Retention(remembered).Undo(undoThird)
	saga.Return(b, three.Output())
})

func openCalls(ctx context.Context, config *pgxpool.Config) (engine, error) {
	return openSagas(ctx, config, callsSaga)
}

// stubClient returns a client with a stub as its callee. The stub answers at once.
func stubClient() (*sdk.Client, error) {
	config := sdk.Config{Services: map[string]sdk.Service{"callee": {URL: "http://callee.test"}}}
	config.Retry.Transport = stubTransport{}
	return sdk.New(config)
}

// stubTransport is the callee, without a network. Its own work is not measured, and is as small
// as possible.
type stubTransport struct{}

func (stubTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	var text [20]byte // a number of JSON, as Go writes it
	n, err := io.ReadFull(req.Body, text[:])
	_ = req.Body.Close()
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	in, err := strconv.Atoi(string(text[:n]))
	if err != nil {
		return nil, err
	}
	answer := strconv.Itoa(increment(in))
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: req,
		ContentLength: int64(len(answer)), Body: io.NopCloser(strings.NewReader(answer)),
	}, nil
}
