// Package frameworks shows fanonce's net/http middleware under chi, echo, gorilla/mux and fiber. They need no adapter:
// each takes an http.Handler. Gin has a context and a writer of its own, and package guardgin for them.
//
// Put the guard directly before the handler. A guard further out must lead to handlers that can run twice in one
// request, because a conflict of transactions rolls the first run back: [Chi] and [Echo] are middlewares that do.
// [NewChiService] and [NewGinService] are whole services, with the middlewares around the guard in their order. Their tests
// show what each middleware does in the wrong place.
//
// Do not use fiber's adaptor.HTTPMiddleware for a guard: fiber runs the handler after the guard has stored the answer.
package frameworks
