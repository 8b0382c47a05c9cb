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
// Start with [New]. [Interceptor.ServerOptions] is for grpc-go. An [Interceptor] is also a
// connect.Interceptor, for connect.WithInterceptors.
//
// The key comes in the metadata Idempotency-Key, or in a field of the request
// ([Method].KeyField, as AIP-155 has it). A repetition gets the stored answer: the message, or
// the status with its details. The handler's ctx is a run's ctx: pgstore.Tx,
// childkey.FromContext, server.Barrier and the others work in it.
//
// The package translates; the guard decides. It knows no store, and nothing of callers: those
// use package sdkgrpc.
package guardgrpc
