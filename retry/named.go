package retry

import (
	"context"
	"fmt"
	"net/http"
)

// Exchange makes the call that req is, and has name say which call that is. It is for
// transports that give requests keys; sdk.Client.RoundTripper is one.
//
// name is called once, after the body of req was read and before anything is sent. It gets
// the call as [Client.Do] reads it from req, and may set its Service, Operation, Key,
// Cancels, FirstSent, Resumed, Expires and Header. It must replace the Header instead of
// writing into it, and leave the other fields alone. Its error ends the call as NotSent, or
// as Unknown if the call is Resumed by then. A nil name changes nothing. Without
// [Config.Profile] only the Key and the Header that name sets are sent.
//
// Exchange returns the last complete answer, and what [Client.Send] would return as the
// error. So it returns both after an answer that is not 2xx. The response is nil if there was
// no answer, and the error is nil after a 2xx. Compare the error with nil before it becomes
// an error: a nil *Error in one is not nil. Exchange follows no redirects. It closes the body of
// req, and blocks as Do does.
func (c *Client) Exchange(req *http.Request, name func(*Call) error) (*http.Response, *Error) {
	if req == nil {
		return nil, c.Refuse(context.Background(), Task{}, fmt.Errorf("%w: no request", ErrInvalid))
	}
	call, err := c.made().callOf(req)
	if err == nil && name != nil {
		err = name(&call)
	}
	if err == nil {
		err = call.checkOrigin(req)
	}
	if err != nil {
		return nil, c.refuse(req, &call, err)
	}
	x := c.exchange(req.Context(), &call, false)
	defer x.release()
	if x.answer == nil {
		return nil, x.err
	}
	return x.answer.standard(req, x.err), x.err
}
