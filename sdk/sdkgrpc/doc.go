// Package sdkgrpc lets package sdk call gRPC and connect services: each call has a child key, is
// repeated under it, and ends with one of four outcomes.
//
//	conn, err := grpc.NewClient(target, append(sdkgrpc.DialOptions(), credentials)...)
//	stock, err := sdkgrpc.Service(conn, retry.Config{})
//	client, err := sdk.New(sdk.Config{Services: map[string]sdk.Service{"stock": stock}})
//	hold, err := sdk.Call(ctx, client, Reserve, line) // var Reserve = sdkgrpc.Method[*stockpb.Line, *stockpb.Hold]("stock", "/stock.v1.Stock/Reserve")
//
// An operation that [Method] declares is an operation like any other: fan-outs and sagas call it.
// A generated client gets the same from an interceptor: [UnaryClientInterceptor] for grpc-go,
// [ConnectInterceptor] for connect-go.
//
// Every error is a [*retry.Error] for errors.As. Its Status and its text have the HTTP status that stands for the code,
// such as 400 for FAILED_PRECONDITION. An error of an interceptor is also a gRPC status, with its details. [Status] returns
// the gRPC status of any of them.
//
// The package imports no server. Services use package guardgrpc to deduplicate the calls.
package sdkgrpc
