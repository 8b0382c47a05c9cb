package demo

import (
	"time"

	"github.com/fanonce/fanonce/examples/internal/faultnet"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
)

// clientFor returns a client of the named services, through their edges.
func (s *stage) clientFor(names ...string) (*sdk.Client, error) {
	edges := make(map[string]*faultnet.Edge)
	for _, name := range names {
		edges[name] = s.edges[name]
	}
	return clientOver(edges)
}

// clientOver returns a client of the services behind edges.
func clientOver(edges map[string]*faultnet.Edge) (*sdk.Client, error) {
	// A budget keeps clients from burying a service that is down under their
	// retries. This network is bad on purpose and stays so: each success pays
	// for a retry here, not for a tenth of one.
	budget := &retry.Budget{Ratio: 1}
	cfg := sdk.Config{
		Services: make(map[string]sdk.Service),
		Retry:    retry.Config{AttemptTimeout: 5 * time.Second, Timeout: 10 * time.Second, Budget: budget},
	}
	for name, edge := range edges {
		cfg.Services[name] = sdk.Service{URL: edge.URL()}
	}
	return sdk.New(cfg)
}
