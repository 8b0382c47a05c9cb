package clients

import "net/http"

// Retryable tells whether another attempt of a keyed call can help. A guarded service says it in X-Should-Retry, also
// for a 409 in progress. Where this header is missing, a gateway answered: then 408, 429 and every 5xx are retried.
func Retryable(status int, header http.Header) bool {
	switch header.Get("X-Should-Retry") {
	case "true":
		return true
	case "false":
		return false
	}
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}
