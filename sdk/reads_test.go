package sdk_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/childkey/wire"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

var safeMethods = []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}

// A read leaves nothing behind, so nothing is remembered of it: a refusal is a refusal, also in a rerun, and another run
// of the same code would get it again.
func TestSend_readsInARerun(t *testing.T) {
	t.Parallel()
	for _, method := range safeMethods {
		for _, rerun := range []bool{false, true} {
			d := sdktest.New(t, nil)
			d.Script("/customers/7", sdktest.Status(http.StatusNotFound, ""))
			ctx := wire.NewContext(parent(t, "p"), wire.Inbound{Rerun: rerun})
			_, err := newClient(t, d).Send(ctx, sdk.Request{Service: "payment", Operation: "customer", Method: method, Path: "/customers/7", Resumed: rerun})
			require.Equal(t, retry.Rejected, outcome(t, err), "%s, rerun %v", method, rerun)
			require.False(t, sdk.Resumable(err), "%s, rerun %v: a 404 to a read", method, rerun)
			require.Empty(t, d.Requests()[0].Header.Values(wire.HeaderKey), method)
			require.Empty(t, d.Requests()[0].Header.Values(wire.HeaderFirstSent), method)
		}
	}
}

// Pages of a list are no duplicates of each other, nor of a write of that name, one after the other or side by side.
func TestSend_pagesOfAList(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c := newClient(t, d)
	ctx := parent(t, "p")
	items := func(method, path string) sdk.Request {
		return sdk.Request{Service: "payment", Operation: "items", Method: method, Path: path}
	}
	for _, req := range []sdk.Request{items("POST", "/items"), items("GET", "/items?page=1"), items("GET", "/items?page=2"), items("GET", "/items?page=2")} {
		_, err := c.Send(ctx, req)
		require.NoError(t, err, "%s %s", req.Method, req.Path)
	}
	f := c.Fanout(ctx)
	for page := range 5 {
		sdk.AddFunc(f, fmt.Sprint("page-", page), func(ctx context.Context) (int, error) {
			_, err := c.Send(ctx, items("GET", "/items?page=1"))
			return page, err
		})
	}
	require.NoError(t, f.Wait())
}

// A read needs no parent key, and cannot undo anything.
func TestSend_readsNeedNoParent(t *testing.T) {
	t.Parallel()
	d := sdktest.New(t, nil)
	c := newClient(t, d)
	req := sdk.Request{Service: "payment", Operation: "items", Method: "GET", Path: "/items"}
	_, err := c.Send(t.Context(), req)
	require.NoError(t, err)
	req.Cancels = childkey.MustParse("k")
	_, err = c.Send(t.Context(), req)
	require.ErrorIs(t, err, sdk.ErrRequest)
	req.Cancels, req.Operation = childkey.Key{}, ""
	_, err = c.Send(t.Context(), req)
	require.ErrorIs(t, err, childkey.ErrEmpty)
	require.Len(t, d.Requests(), 1)
}
