package guardgin_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/gin-gonic/gin"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgin"
	"github.com/fanonce/fanonce/server/memstore"
)

// A gin service whose handler takes effect once for each key.
func Example() {
	gin.SetMode(gin.ReleaseMode)
	guard, err := server.NewGuard(memstore.New(), server.Unscoped, server.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	guarded, err := guardgin.Middleware(guard, server.Route{Effect: server.Keyed})
	if err != nil {
		fmt.Println(err)
		return
	}
	engine, orders := gin.New(), 0
	engine.POST("/orders", guarded, func(c *gin.Context) {
		orders++
		c.JSON(http.StatusCreated, gin.H{"order": orders})
	})
	for range 2 { // the client sends it again
		r := httptest.NewRequest(http.MethodPost, "/orders", http.NoBody)
		r.Header.Set("Idempotency-Key", "order-1")
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Body, "replayed:", w.Header().Get("Idempotent-Replayed"))
	}
	// Output:
	// 201 {"order":1} replayed: false
	// 201 {"order":1} replayed: true
}
