// Package wire has the names that caller and callee exchange over HTTP: headers, problem
// codes and the [Problem] body. [Inbound] has the values that a guarded handler's ctx passes
// on to the handler's own calls.
//
// It is for authors of their own client or callee. It parses and decides nothing. It does not
// import net/http: its headers are plain maps and functions, which also fit gRPC metadata.
package wire
