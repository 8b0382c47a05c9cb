package frameworks

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-contrib/cors"
	"github.com/gin-contrib/gzip"
	"github.com/gin-contrib/requestid"
	"github.com/gin-gonic/gin"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgin"
)

// GinLayers are [Layers] as gin has them.
type GinLayers struct {
	Trace, RequestID, Recover, CORS, Compress, Authenticate gin.HandlerFunc
}

// NewGinLayers returns the layers of an ordinary service. trace is the service's own, such as otelgin.Middleware.
func NewGinLayers(trace gin.HandlerFunc) GinLayers {
	return GinLayers{
		Trace: trace, RequestID: requestid.New(), Recover: gin.Recovery(),
		CORS: cors.New(cors.Config{
			AllowOrigins: []string{"https://shop.example"}, AllowMethods: []string{http.MethodPost},
			AllowHeaders: []string{"Content-Type", "Idempotency-Key", "X-Tenant"},
		}),
		Compress:     gzip.Gzip(gzip.DefaultCompression),
		Authenticate: authenticateGin,
	}
}

// authenticateGin answers 401, or puts the tenant into the context of the request, where [TenantOf] finds it: a ScopeFunc
// sees no context of gin.
func authenticateGin(c *gin.Context) {
	name := c.GetHeader("X-Tenant") // a real service checks a token
	if name == "" {
		c.AbortWithStatus(http.StatusUnauthorized)
		return
	}
	c.Request = c.Request.WithContext(context.WithValue(c.Request.Context(), tenantKey{}, name))
}

// NewGinService returns a service of gin, with its guard directly before the handler. Behind the guard the context of gin's
// request is the run's.
func NewGinService(guard *server.Guard, l GinLayers, placeOrder gin.HandlerFunc) (http.Handler, error) {
	guarded, err := guardgin.Middleware(guard, server.Route{Effect: server.Transactional, HandlerTimeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	r := gin.New()
	r.GET("/readyz", gin.WrapH(guard.ReadyHandler()))
	r.Use(l.Trace, l.RequestID, l.Recover, l.CORS, l.Compress, l.Authenticate)
	r.POST("/orders", guarded, placeOrder)
	return r, nil
}
