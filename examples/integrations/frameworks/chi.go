package frameworks

import (
	"context"
	"net/http"

	"github.com/go-chi/chi/v5"

	"github.com/fanonce/fanonce/server"
)

// Chi returns a middleware of chi that guards what is behind it, as route says. It is needed only for [chi.Router].Use
// before a Mount or a Route; directly before a handler, as in With, guard.Route is enough.
//
// Chi notes in the request's context how far it has routed the request. After a conflict of transactions the guard runs
// what is behind it again. The second run would go on where the first one stopped, and find no route: its 404 would be
// stored, and the effect would never happen. So each run gets a copy.
func Chi(guard *server.Guard, route server.Route) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		guarded, err := guard.Route(route, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			routed := chi.RouteContext(r.Context())
			own := *routed
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), chi.RouteCtxKey, &own)))
			routed.RoutePatterns = own.RoutePatterns // for middlewares before the guard, such as a log
		}))
		if err != nil {
			panic(err) // as chi itself does for a wrong route
		}
		return guarded
	}
}
