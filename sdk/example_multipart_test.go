package sdk_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/retry"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// A scan is uploaded from disk, with a form beside it. The answer to the first
// attempt is lost; the second one sends the same bytes, boundary included, which is
// what the callee knows the request by.
func ExampleNewMultipart() {
	archive := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, scan, _ := r.FormFile("scan")
		fmt.Fprintf(w, "%s of order %s: %d bytes", scan.Filename, r.FormValue("order"), scan.Size)
	}))
	defer archive.Close()
	archive.Script("/scans", sdktest.DropResponse())

	file := filepath.Join(os.TempDir(), "fanonce-example-scan.pdf")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		panic(err)
	}
	defer os.Remove(file)

	scan, err := retry.NewStream(func() (io.ReadCloser, error) { return os.Open(file) })
	if err != nil {
		panic(err)
	}
	body, contentType, err := sdk.NewMultipart(
		sdk.Part{Name: "order", Body: []byte("1042")},
		sdk.Part{Name: "scan", FileName: "scan.pdf", Stream: scan},
	)
	if err != nil {
		panic(err)
	}
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"archive": {URL: archive.URL()}}})
	if err != nil {
		panic(err)
	}
	ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-1042"))
	resp, err := client.Send(ctx, sdk.Request{
		Service: "archive", Operation: "scan", Path: "/scans", Stream: body, ContentType: contentType,
	})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s (attempts: %d)\n", resp.Body, resp.Attempts)
	for _, effects := range archive.Effects() {
		fmt.Println("uploads kept:", effects)
	}
	// Output:
	// scan.pdf of order 1042: 1048576 bytes (attempts: 2)
	// uploads kept: 1
}
