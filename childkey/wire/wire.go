// Package wire is what caller and callee say to each other over HTTP: header
// names, problem codes, the [Problem] body, and what a guarded handler's ctx
// tells the calls made with it ([Inbound]).
//
// It holds names and parsers; it decides nothing, and knows neither a client
// nor a server.
package wire
