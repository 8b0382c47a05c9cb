package guardgin

import (
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/fanonce/fanonce/server"
)

// Router makes a router for [server.Handle] of a gin engine or group. A pattern "POST /orders/{id}" becomes gin's route
// POST "/orders/:id", and "{rest...}" becomes "*rest". [server.PathValue] finds their values. Registering a route that
// gin refuses makes Handle return an error.
func Router(routes gin.IRoutes) server.Router { return router{routes} }

type router struct{ routes gin.IRoutes }

// Handle implements [server.Router].
func (r router) Handle(pattern string, handler http.Handler) {
	method, path, _ := strings.Cut(pattern, " ")
	ginPath, names := translate(path)
	r.routes.Handle(method, ginPath, func(c *gin.Context) {
		for _, name := range names {
			c.Request.SetPathValue(name, strings.TrimPrefix(c.Param(name), "/"))
		}
		c.Request.Pattern = pattern
		handler.ServeHTTP(c.Writer, c.Request)
	})
}

// translate returns a path of net/http as gin writes it, and the names in it.
func translate(path string) (ginPath string, names []string) {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		name, ok := strings.CutPrefix(segment, "{")
		if name, closed := strings.CutSuffix(name, "}"); ok && closed {
			name, rest := strings.CutSuffix(name, "...")
			names = append(names, name)
			if segments[i] = ":" + name; rest {
				segments[i] = "*" + name
			}
		}
	}
	return strings.Join(segments, "/"), names
}
