// Package guardgin guards routes of gin with a [server.Guard].
//
//	guarded, err := guardgin.Middleware(guard, server.Route{Effect: server.Transactional})
//	…
//	engine.POST("/orders", guarded, placeOrder)
//
// The handler works with gin's context as always. c.Request.Context() is the run's ctx: pgstore.Tx, sdk.Call and the
// other functions that take it work. A typed operation of package contract needs no middleware:
//
//	err := server.Handle(guardgin.Router(engine), guard, api.Place, server.Transactional, place)
//
// Put the guard behind everything that decides about the request, such as authentication, and directly before the
// handler. The guard stores what the handlers behind it write. Middlewares before it see replays like first answers. A
// handler that panics counts as failed, and gin.Recovery before the guard answers 500 as always.
//
// After a conflict of transactions the handlers behind the guard run again in the same request. Each run finds gin's
// context as the handlers before the guard left it.
//
// Routes are named by the method and gin's path, "POST /orders/:id", in metrics and logs. chi, echo, gorilla and fiber
// need no package of their own: see examples/integrations/frameworks.
package guardgin
