// The server and the client by which gRPC's implementations prove that they understand one another, as one program:
//
//	grpc serve                       prints the port that it listens on, and serves until it is killed. With HEALTH=NAME it has
//	                                 gRPC's health service: USR1 says that nothing is served, USR2 that all is again
//	grpc ask ADDRESS CASE...         runs these cases; any that fails ends it with an error
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/interop"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"
)

func main() {
	if len(os.Args) < 2 {
		log.Fatal("serve, or ask ADDRESS CASE...")
	}
	if os.Args[1] == "serve" {
		serve()
		return
	}
	ask(os.Args[2], os.Args[3:])
}

func serve() {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	var options []grpc.ServerOption
	if len(os.Args) == 4 {
		credentials, err := credentials.NewServerTLSFromFile(os.Args[2], os.Args[3])
		if err != nil {
			log.Fatal(err)
		}
		options = append(options, grpc.Creds(credentials))
	}
	if os.Getenv("MAX_AGE") != "" {
		age, _ := time.ParseDuration(os.Getenv("MAX_AGE"))
		options = append(options, grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionAge: age}))
	}
	server := grpc.NewServer(options...)
	testpb.RegisterTestServiceServer(server, interop.NewTestServer())
	if name := os.Getenv("HEALTH"); name != "" {
		checked := health.NewServer()
		checked.SetServingStatus(name, healthpb.HealthCheckResponse_SERVING)
		healthpb.RegisterHealthServer(server, checked)
		told := make(chan os.Signal, 1)
		signal.Notify(told, syscall.SIGUSR1, syscall.SIGUSR2)
		go func() {
			for one := range told {
				if one == syscall.SIGUSR1 {
					checked.Shutdown()
				} else {
					checked.Resume()
				}
			}
		}()
	}
	fmt.Println(listener.Addr().(*net.TCPAddr).Port)
	log.Fatal(server.Serve(listener))
}

func ask(address string, cases []string) {
	transport := insecure.NewCredentials()
	if rest, over := cut(address); over {
		address = rest
		transport = credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})
	}
	conn, err := grpc.Dial(address, grpc.WithTransportCredentials(transport), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(64<<20)))
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	client := testpb.NewTestServiceClient(conn)
	known := map[string]func(){
		"empty_unary":                 func() { interop.DoEmptyUnaryCall(client) },
		"large_unary":                 func() { interop.DoLargeUnaryCall(client) },
		"client_streaming":            func() { interop.DoClientStreaming(client) },
		"server_streaming":            func() { interop.DoServerStreaming(client) },
		"ping_pong":                   func() { interop.DoPingPong(client) },
		"empty_stream":                func() { interop.DoEmptyStream(client) },
		"timeout_on_sleeping_server":  func() { interop.DoTimeoutOnSleepingServer(client) },
		"cancel_after_begin":          func() { interop.DoCancelAfterBegin(client) },
		"cancel_after_first_response": func() { interop.DoCancelAfterFirstResponse(client) },
		"custom_metadata":             func() { interop.DoCustomMetadata(client) },
		"status_code_and_message":     func() { interop.DoStatusCodeAndMessage(client) },
		"special_status_message":      func() { interop.DoSpecialStatusMessage(client) },
		"unimplemented_method":        func() { interop.DoUnimplementedMethod(conn) },
		"unimplemented_service":       func() { interop.DoUnimplementedService(testpb.NewUnimplementedServiceClient(conn)) },
		"huge_unary":                  func() { hugeUnary(client) },
		"late_reader":                 func() { lateReader(client) },
		"unavailable":                 func() { unavailable(client) },
	}
	for _, name := range cases {
		run, ok := known[name]
		if !ok {
			log.Fatalf("no such case: %s", name)
		}
		run()
		fmt.Println(name)
	}
}

// hugeUnary sends and receives a message of many windows.
func hugeUnary(client testpb.TestServiceClient) {
	const size = 3 << 20
	reply, err := client.UnaryCall(context.Background(), &testpb.SimpleRequest{
		ResponseType: testpb.PayloadType_COMPRESSABLE,
		ResponseSize: size,
		Payload:      &testpb.Payload{Type: testpb.PayloadType_COMPRESSABLE, Body: make([]byte, size)},
	})
	if err != nil || len(reply.GetPayload().GetBody()) != size {
		log.Fatalf("huge_unary: %d bytes, %v", len(reply.GetPayload().GetBody()), err)
	}
}

// lateReader sends many windows on a stream of both directions before it reads anything: what it sends must not wait for
// what it does not read yet.
func lateReader(client testpb.TestServiceClient) {
	stream, err := client.FullDuplexCall(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	const messages, size = 200, 20 << 10
	for i := 0; i < messages; i++ {
		request := &testpb.StreamingOutputCallRequest{
			ResponseType:       testpb.PayloadType_COMPRESSABLE,
			ResponseParameters: []*testpb.ResponseParameters{{Size: 10}},
			Payload:            &testpb.Payload{Body: make([]byte, size)},
		}
		if err := stream.Send(request); err != nil {
			log.Fatalf("late_reader sends: %v", err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		log.Fatal(err)
	}
	for i := 0; ; i++ {
		_, err := stream.Recv()
		if err == io.EOF && i == messages {
			return
		}
		if err != nil {
			log.Fatalf("late_reader reads after %d: %v", i, err)
		}
	}
}

// unavailable expects that nobody is there, in gRPC's own words.
func unavailable(client testpb.TestServiceClient) {
	_, err := client.EmptyCall(context.Background(), &testpb.Empty{})
	if status.Code(err) != codes.Unavailable || status.Convert(err).Message() != "nobody there" {
		log.Fatalf("unavailable: %v", err)
	}
}

func cut(address string) (string, bool) {
	return strings.TrimPrefix(address, "tls:"), strings.HasPrefix(address, "tls:")
}
