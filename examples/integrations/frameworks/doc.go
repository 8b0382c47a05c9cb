// Package frameworks shows fanonce's net/http middleware under chi, echo, gorilla/mux and fiber. They need no adapter:
// each takes an http.Handler. Gin has a context and a writer of its own, and package guardgin for them.
package frameworks
