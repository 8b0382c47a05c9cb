package sdk_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"mime/multipart"
	"net/http"

	"github.com/fanonce/fanonce/childkey"
	"github.com/fanonce/fanonce/sdk"
	"github.com/fanonce/fanonce/sdk/sdktest"
)

// form returns a scan of an order as a multipart form, and its content type. The boundary is a
// hash of the scan, so that the form has the same bytes on every attempt and after a restart.
// The random boundary that multipart.Writer chooses by itself would make each run another
// request, which the callee refuses.
func form(order string, scan []byte) (body []byte, contentType string, err error) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	if err := w.SetBoundary(fmt.Sprintf("%x", sha256.Sum256(scan))); err != nil {
		return nil, "", err
	}
	if err := w.WriteField("order", order); err != nil {
		return nil, "", err
	}
	file, err := w.CreateFormFile("scan", "scan.pdf")
	if err != nil {
		return nil, "", err
	}
	if _, err := file.Write(scan); err != nil {
		return nil, "", err
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return b.Bytes(), w.FormDataContentType(), nil
}

// A scan is uploaded with a form beside it, and the answer to the first attempt is lost. The
// same request is made again as after a restart, and the callee keeps one scan.
func ExampleRequest_multipart() {
	archive := sdktest.Start(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, scan, _ := r.FormFile("scan")
		fmt.Fprintf(w, "%s of order %s: %d bytes", scan.Filename, r.FormValue("order"), scan.Size)
	}))
	defer archive.Close()
	archive.Script("/scans", sdktest.DropResponse())
	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"archive": {URL: archive.URL()}}})
	if err != nil {
		panic(err)
	}
	for range 2 {
		body, contentType, err := form("1042", make([]byte, 1<<20))
		if err != nil {
			panic(err)
		}
		ctx := childkey.NewContext(context.Background(), childkey.MustParse("order-1042"))
		resp, err := client.Send(ctx, sdk.Request{
			Service: "archive", Operation: "scan", Path: "/scans", Body: body, ContentType: contentType,
		})
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s (attempts: %d)\n", resp.Body, resp.Attempts)
	}
	for _, effects := range archive.Effects() {
		fmt.Println("uploads kept:", effects)
	}
	// Output:
	// scan.pdf of order 1042: 1048576 bytes (attempts: 2)
	// scan.pdf of order 1042: 1048576 bytes (attempts: 1)
	// uploads kept: 1
}
