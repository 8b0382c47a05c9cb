package clients

// CurlArgs returns the arguments of a curl that posts body to url under key, and writes the answer to file. Without
// --retry-all-errors a cut connection and a 409 are final; it works with --fail only. Without -o the rest of a cut
// answer stays in front of the next one. Retry-After is obeyed where it is longer than the delay.
func CurlArgs(url, key, body, file string) []string {
	return []string{
		"--silent", "--show-error", "--fail",
		"--retry", "10", "--retry-all-errors", "--retry-delay", "1",
		"--max-time", "10", // of one attempt
		"--header", "Idempotency-Key: " + key,
		"--json", body, "-o", file, url,
	}
}
