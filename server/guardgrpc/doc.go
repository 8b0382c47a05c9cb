// Package guardgrpc guards the unary methods of gRPC and connect services with a
// [server.Guard]: a request takes effect once per key, whichever of the two protocols its
// callers speak.
//
//	guarded, err := guardgrpc.New(guard, guardgrpc.Config{
//		Scope:   guardgrpc.Unscoped, // in production: the authenticated tenant
//		Methods: map[string]guardgrpc.Method{stockpb.Stock_Reserve_FullMethodName: {Effect: server.Transactional}},
//	})
//	srv := grpc.NewServer(guarded.ServerOptions()...)
//
// Start with [New]. [Interceptor.ServerOptions] is for grpc-go, and so are [Interceptor.Unary] and [Interceptor.Stream] for
// services that order their interceptors. An [Interceptor] is also a connect.Interceptor, for connect.WithInterceptors.
//
// The key comes in the metadata Idempotency-Key, or in a field of the request
// ([Method].KeyField, as AIP-155 has it). A repetition gets the stored answer: the message, or
// the status with its details. The rows of a Transactional handler are committed with a message
// only, unless it settles with [server.KeepRows]. The handler's ctx is a run's ctx: pgstore.Tx,
// childkey.FromContext, server.Barrier and the others work in it.
//
// If a conflict of transactions rolls a run back, the handler runs again in the same call, with the request as it came. The
// metadata that the first run set is neither sent nor stored.
//
// A service behind grpc-gateway gets keys only if the gateway passes them on: see the README of this folder.
//
// The package translates; the guard decides. It knows no store, and nothing of callers: those
// use package sdkgrpc.
package guardgrpc
