package guardgrpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fanonce/fanonce/server"
	"github.com/fanonce/fanonce/server/guardgrpc"
	"github.com/fanonce/fanonce/server/guardgrpc/stockpb"
	"github.com/fanonce/fanonce/server/memstore"
	"github.com/fanonce/fanonce/server/store"
)

func TestNew_rejects(t *testing.T) {
	t.Parallel()
	registerBare(t)
	with := func(name string, m guardgrpc.Method) guardgrpc.Config {
		cfg := config(server.Keyed)
		cfg.Methods[name] = m
		return cfg
	}
	reserve := stockpb.Stock_Reserve_FullMethodName
	plain := newGuard(t, server.Config{})
	noTx, err := server.NewGuard(struct{ store.Store }{memstore.New()}, server.Unscoped, server.Config{})
	require.NoError(t, err)
	for _, tt := range []struct {
		name  string
		guard *server.Guard
		cfg   guardgrpc.Config
		field string
	}{
		{"nil guard", nil, config(server.Keyed), "guard"},
		{"no scope", plain, guardgrpc.Config{Methods: config(server.Keyed).Methods}, "guardgrpc.Config.Scope"},
		{"no methods", plain, guardgrpc.Config{Scope: guardgrpc.Unscoped}, "guardgrpc.Config.Methods"},
		{"not a full name", plain, with("Reserve", guardgrpc.Method{Effect: server.Keyed}), `guardgrpc.Config.Methods["Reserve"]`},
		{"no slash before it", plain, with("fanonce.stock.v1.Stock/Reserve", guardgrpc.Method{Effect: server.Keyed}), `guardgrpc.Config.Methods["fanonce.stock.v1.Stock/Reserve"]`},
		{"unknown method", plain, with("/fanonce.stock.v1.Stock/Steal", guardgrpc.Method{Effect: server.Keyed}), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Steal"]`},
		{"unknown service", plain, with("/fanonce.stock.v1.Shop/Buy", guardgrpc.Method{Effect: server.Keyed}), "guardgrpc.Config.Services"},
		{"a message as a service", plain, guardgrpc.Config{Scope: guardgrpc.Unscoped, Services: []string{"fanonce.stock.v1.Hold"}}, "guardgrpc.Config.Services"},
		{"streaming method", plain, with(stockpb.Stock_Watch_FullMethodName, guardgrpc.Method{Effect: server.Keyed}), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Watch"]`},
		{"no class", plain, guardgrpc.Config{Scope: guardgrpc.Unscoped, Services: []string{"fanonce.stock.v1.Stock"}}, `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Reserve"].Effect`},
		{"class unheard of", plain, with(reserve, guardgrpc.Method{Effect: 9}), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Reserve"].Effect`},
		{"store without transactions", noTx, config(server.Transactional), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Reserve"].Effect`},
		{"field that is not there", plain, with(reserve, guardgrpc.Method{Effect: server.Keyed, KeyField: "key"}), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Reserve"].KeyField`},
		{"field that is no string", plain, with(reserve, guardgrpc.Method{Effect: server.Keyed, KeyField: "quantity"}), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Reserve"].KeyField`},
		{"unguarded with an effect", plain, with(reserve, guardgrpc.Method{Effect: server.Keyed, Unguarded: true}), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Reserve"].Unguarded`},
		{"wait beyond the cap", plain, with(reserve, guardgrpc.Method{Effect: server.Keyed, Wait: time.Hour}), `guardgrpc.Config.Methods["/fanonce.stock.v1.Stock/Reserve"].Wait`},
		{"answer not linked", plain, with("/fanonce.bare.Bare/Do", guardgrpc.Method{Effect: server.Keyed}), `guardgrpc.Config.Methods["/fanonce.bare.Bare/Do"]`},
		{"our metadata", plain, replaying("Idempotency-Code"), "guardgrpc.Config.ReplayMetadata"},
		{"gRPC's metadata", plain, replaying("grpc-status"), "guardgrpc.Config.ReplayMetadata"},
		{"a secret", plain, replaying("Set-Cookie"), "guardgrpc.Config.ReplayMetadata"},
		{"no name", plain, replaying(""), "guardgrpc.Config.ReplayMetadata"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			i, err := guardgrpc.New(tt.guard, tt.cfg)
			var wrong *server.ConfigError
			require.ErrorAs(t, err, &wrong)
			require.Nil(t, i)
			require.Equal(t, tt.field, wrong.Field)
			require.NotEmpty(t, wrong.Reason)
			require.Contains(t, err.Error(), "server: "+tt.field)
		})
	}
}

func replaying(name string) guardgrpc.Config {
	cfg := config(server.Keyed)
	cfg.ReplayMetadata = []string{name}
	return cfg
}

// registerBare registers a service whose messages have no generated code.
func registerBare(t *testing.T) {
	t.Helper()
	text := func(s string) *string { return &s }
	file, err := protodesc.NewFile(&descriptorpb.FileDescriptorProto{
		Name: text("bare.proto"), Package: text("fanonce.bare"), Syntax: text("proto3"),
		MessageType: []*descriptorpb.DescriptorProto{{Name: text("Nothing")}},
		Service: []*descriptorpb.ServiceDescriptorProto{{Name: text("Bare"), Method: []*descriptorpb.MethodDescriptorProto{
			{Name: text("Do"), InputType: text(".fanonce.bare.Nothing"), OutputType: text(".fanonce.bare.Nothing")},
		}}},
	}, protoregistry.GlobalFiles)
	require.NoError(t, err)
	require.NoError(t, protoregistry.GlobalFiles.RegisterFile(file))
}
